"""Long-lived agents that grow back: state, mailboxes and an OTP supervision tree in Redis.

What users import is here; ``regrow.errors`` holds the tree of errors. Other packages of regrow import a name from the
module that defines it.
"""

from __future__ import annotations

from regrow import errors
from regrow.client import AsyncClient, Client
from regrow.control import ChildCounts, ChildInfo, StartedChild
from regrow.effect_executor import EffectExecutor
from regrow_signals.client import Message, SentReceipt
from regrow_signals.deletion import Deleted
from regrow_signals.effect_progress import Progress
from regrow_signals.errors import RegrowError, Reject
from regrow_signals.mailbox import Receipt, Status
from regrow_signals.publishing import Published
from regrow_signals.signal import Payload, Signal
from regrow_signals.subscriptions import Subscription
from regrow_supervisor.spec import Pause, Supervisor
from regrow_workers.agent import Agent
from regrow_workers.application import on_worker_start
from regrow_workers.asking import Ask, Forward, Replied, Reply, Unreplied
from regrow_workers.child_spec import Backoff, ChildSpec
from regrow_workers.context import Context
from regrow_workers.directives import CancelEffect, Directive, Emit, Stop
from regrow_workers.effects.effect import Effect, EffectCancelled, EffectContext, effect
from regrow_workers.effects.outcome_payloads import Cancelled, Done, Failed, InDoubt
from regrow_workers.effects.own_executor import EffectCall
from regrow_workers.family_directives import Adopt, Demonitor, Monitor, Spawn, StopChild
from regrow_workers.handlers import handles
from regrow_workers.lifecycle import (
    AgentAdopted,
    AgentCreated,
    AgentDown,
    AgentOrphaned,
    AgentRestarted,
    ChildExit,
    ChildStarted,
)
from regrow_workers.middleware import Middleware
from regrow_workers.schedules import cron, every
from regrow_workers.state import State
from regrow_workers.step import Step
from regrow_workers.subscription_directives import Subscribe, Unsubscribe
from regrow_workers.timers import Cancel, Cron, Schedule
from regrow_workers.upcasts import upcast

__all__ = [
    "Agent", "State", "upcast", "handles", "every", "cron", "Step", "Context", "Payload", "Signal", "Reject",
    "Middleware",
    "Directive", "Emit", "Schedule", "Cron", "Cancel", "Stop", "Spawn", "Adopt", "StopChild", "Monitor", "Demonitor",
    "Reply", "Ask", "Replied", "Unreplied", "Forward",
    "AgentCreated", "AgentRestarted", "AgentOrphaned", "AgentAdopted", "AgentDown", "ChildStarted", "ChildExit",
    "effect", "Effect", "EffectContext", "EffectCancelled", "Done", "Failed", "InDoubt", "Cancelled", "CancelEffect",
    "Progress", "EffectExecutor", "EffectCall",
    "Supervisor", "ChildSpec", "Backoff", "Pause", "on_worker_start",
    "Client", "AsyncClient", "Message", "Receipt", "SentReceipt", "Status",
    "Subscribe", "Unsubscribe", "Published", "Subscription",
    "StartedChild", "ChildInfo", "ChildCounts", "Deleted",
    "RegrowError", "errors",
]  # fmt: skip
