"""Every error that regrow raises on purpose, in one tree.

RegrowError
  BadInput(ValueError)            what the caller gave is wrong; nothing was changed
    BadId  BadTypeName  BadNamespace  BadSetting
    BadPayload                    data does not fit its model
      UnreadableState             a stored state that this code cannot read: no step, it raised, or it does not fit
    NotStrictJSON                 NaN, lone surrogate, too deep, not JSON at all
    TooLarge                      over a limit in bytes or count
    BadDefinition(TypeError)      an agent, handler, effect, child spec or tree that cannot work
    ApplicationError              "module:attribute" cannot be loaded or holds no tree
  Refused                         the store said no; nothing was changed
    NoSuchAgent  MailboxFull  MailboxExhausted  DeadLettersFull  IdConflict
    SubscriptionsFull               a pattern, an agent or the namespace has as many subscriptions as it may
    TooManySubscribers              a publish would reach more agents than it may
    Fenced                        this incarnation is not the current one (superseded)
    Conflict                      version or cursor is not what was expected
    NotLeader
    NotIdle                         an agent that was to be deleted as idle has something to do
    DirectiveRefused                a directive cannot be carried out: its signal is planned again, as a dead letter
    SupervisorCallRefused         OTP's errors of start_child and its kin
      ChildNotFound  AlreadyStarted  AlreadyPresent  StillRunning  StillRestarting  MaxChildren  StartFailed
      SupervisorNotFound  NotDynamic
  AskFailed                       no answer to an ask; nothing is undone by it (carries the receipt)
    AskTimeout                    none in time; `state` says what became of the signal so far
    Dead                          the signal became a dead letter
  Reject                          raised by a handler: "this signal is wrong"
  Unhandled                       no handler for the type
    WrongMode                     none in the agent's mode, or a change of mode that is not allowed
      Postponed                   none in its mode, and it waits until that changes
  ImpureHandler                   a handler changed its input, or returned what is no Step
  DescriptorsLost                 a handler closed a worker's own descriptors, or used all others up
  StoreError                      Redis itself
    StoreUnavailable              cannot be asked: down, loading, refusing writes, timed out
    FateUnknown                   the command may or may not have run (carries the receipt where there is one)
    WrongServer                   too old, a cluster without the hash tag, missing rights
    CorruptKey                    a key of ours holds the wrong type or unreadable text
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regrow_signals.mailbox import Receipt

__all__ = [
    "RegrowError",
    "BadInput",
    "BadId",
    "BadTypeName",
    "BadNamespace",
    "BadSetting",
    "BadPayload",
    "UnreadableState",
    "NotStrictJSON",
    "TooLarge",
    "BadDefinition",
    "ApplicationError",
    "Refused",
    "NoSuchAgent",
    "MailboxFull",
    "MailboxExhausted",
    "DeadLettersFull",
    "IdConflict",
    "SubscriptionsFull",
    "TooManySubscribers",
    "Fenced",
    "Conflict",
    "NotLeader",
    "NotIdle",
    "DirectiveRefused",
    "SupervisorCallRefused",
    "SupervisorNotFound",
    "NotDynamic",
    "ChildNotFound",
    "AlreadyStarted",
    "AlreadyPresent",
    "StillRunning",
    "StillRestarting",
    "MaxChildren",
    "StartFailed",
    "AskFailed",
    "AskTimeout",
    "Dead",
    "Reject",
    "Unhandled",
    "WrongMode",
    "Postponed",
    "ImpureHandler",
    "DescriptorsLost",
    "StoreError",
    "StoreUnavailable",
    "FateUnknown",
    "WrongServer",
    "CorruptKey",
]


class RegrowError(Exception):
    """Root of all errors that regrow raises on purpose."""


class BadInput(RegrowError, ValueError):
    """What the caller gave is wrong; the message names the field and the fix. Nothing was changed."""


class BadId(BadInput):
    """An id that does not match ``[A-Za-z0-9][A-Za-z0-9._:/@-]{0,199}``."""


class BadTypeName(BadInput):
    """A signal type that is not dot-separated segments of ``[A-Za-z0-9_-]``."""


class BadNamespace(BadInput):
    """A namespace that cannot be a Redis hash tag."""


class BadSetting(BadInput):
    """A setting, or two settings together, that cannot work."""


class BadPayload(BadInput):
    """Data that does not fit its payload model."""


class UnreadableState(BadPayload):
    """A stored state that the agent's class cannot read: an ``@upcast`` step is missing or raised, or it does not fit.

    The stored bytes are untouched. An agent with such a state is parked until ``regrow revive``.
    """


class NotStrictJSON(BadInput):
    """Text or a value that is not strict JSON: NaN, infinity, lone surrogate, too deep, malformed."""


class TooLarge(BadInput):
    """Over a limit in bytes or count; the message names both figures."""


class BadDefinition(BadInput, TypeError):
    """An agent, handler, effect, child spec or tree that cannot work; found when it is defined."""


class ApplicationError(BadInput):
    """``module:attribute`` cannot be imported, or names no supervisor tree."""


class Refused(RegrowError):
    """The store refused the step, whole. Nothing was changed."""


class NoSuchAgent(Refused):
    """No agent of this id is registered."""


class MailboxFull(Refused):
    """The agent's mailbox holds ``max_mailbox`` signals."""


class MailboxExhausted(Refused):
    """The mailbox's last stream id is the last possible one: it can take no entry any more."""


class DeadLettersFull(Refused):
    """The agent has ``max_dead`` dead letters; look at them, then retry or drop them."""


class IdConflict(Refused):
    """A signal of this id, with other content, was accepted before."""


class SubscriptionsFull(Refused):
    """A pattern has ``max_subscribers`` subscribers, or an agent or the namespace ``max_patterns`` patterns."""


class TooManySubscribers(Refused):
    """A publish would reach more than ``max_subscribers`` agents; nobody got it."""


class Fenced(Refused):
    """This incarnation is not the current one: another life owns the agent, or none does."""


class Conflict(Refused):
    """Owner is ours, but version or cursor is not what the step was made from."""


class NotLeader(Refused):
    """The leader's lease is not ours (any more)."""


class NotIdle(Refused):
    """An agent was to be deleted as idle, and something was accepted in that instant."""


class DirectiveRefused(Refused):
    """A directive cannot be carried out. ``entry`` is its signal's; ``reason`` and ``why`` those of its dead letter."""

    def __init__(self, entry: str, reason: str, why: str) -> None:
        super().__init__(f"{reason}: {why}")
        self.entry = entry
        self.reason = reason
        self.why = why


class SupervisorCallRefused(Refused):
    """A supervisor answered a call with one of OTP's errors."""


class SupervisorNotFound(SupervisorCallRefused):
    """No supervisor of this path runs (OTP: noproc)."""


class NotDynamic(SupervisorCallRefused):
    """Only a supervisor with ``strategy="dynamic"`` takes agents that a ``send`` creates."""


class ChildNotFound(SupervisorCallRefused):
    """OTP: ``not_found``."""


class AlreadyStarted(SupervisorCallRefused):
    """OTP: ``already_started``."""


class AlreadyPresent(SupervisorCallRefused):
    """OTP: ``already_present``."""


class StillRunning(SupervisorCallRefused):
    """OTP: ``running``."""


class StillRestarting(SupervisorCallRefused):
    """OTP: ``restarting``."""


class MaxChildren(SupervisorCallRefused):
    """Elixir: ``max_children``."""


class StartFailed(SupervisorCallRefused):
    """The child's start failed; the message carries its reason."""


class AskFailed(RegrowError):
    """A signal was accepted as an ask and has no answer. Ask again with ``id=error.receipt.signal_id``."""

    def __init__(self, message: str, receipt: Receipt) -> None:
        super().__init__(message)
        self.receipt = receipt


class AskTimeout(AskFailed):
    """No answer in time. ``state`` is the signal's then: pending, applied (and no reply yet), retried, unknown."""

    def __init__(self, message: str, receipt: Receipt, state: str) -> None:
        super().__init__(message, receipt)
        self.state = state


class Dead(AskFailed):
    """The signal became a dead letter: ``reason`` is the letter's, ``error`` what exactly was wrong."""

    def __init__(self, message: str, receipt: Receipt, reason: str, error: str = "") -> None:
        super().__init__(message, receipt)
        self.reason = reason
        self.error = error


class Reject(RegrowError):
    """Raised by a handler: this signal is wrong. Dead letter at once, state unchanged, the agent lives."""


class Unhandled(RegrowError):
    """No handler of the agent matches the signal's type."""


class WrongMode(Unhandled):
    """No handler in the agent's mode takes the signal, or its handler made a change of mode that is not allowed."""


class Postponed(WrongMode):
    """No handler in the agent's mode takes the signal, which waits in the mailbox until the mode changes."""


class ImpureHandler(RegrowError):
    """A handler changed its input, or returned something that is no ``Step``."""


class DescriptorsLost(RegrowError):
    """A worker's own descriptors were closed, or none is left to connect with: handlers did it, so the process ends."""


class StoreError(RegrowError):
    """Redis itself is in the way."""


class StoreUnavailable(StoreError):
    """Redis cannot be asked: down, loading, out of memory, refusing writes. The command did not run."""


class FateUnknown(StoreError):
    """The command was sent and no answer came: it may or may not have run.

    ``receipt`` is set where the command was a ``send``: ask ``status(receipt)``, or send the same id again.
    """

    receipt: object | None = None


class WrongServer(StoreError):
    """The server is too old, of the wrong kind, or denies a command that regrow needs."""


class CorruptKey(StoreError):
    """A key of ours holds the wrong type, or text that cannot be read. Nothing was changed."""
