"""Committed effects: told to executors, claimed, settled or abandoned. Their outcome becomes a signal of their agent.

An effect is ``pending`` or ``claimed``; its token fences the settlement as an owner's token fences a commit. What RQ
or any other carrier does is only a doorbell: twice told is claimed once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from regrow_signals.answers import answer, cut, nothing
from regrow_signals.calls import Arg, Call
from regrow_signals.errors import BadInput, Refused
from regrow_signals.keys import ASYNC_QUEUE, Keys
from regrow_signals.limits import Limits
from regrow_signals.scripts import declare

__all__ = [
    "RERING_MS",
    "ClaimedEffect",
    "EffectClaimed",
    "EffectGone",
    "EffectLimit",
    "EffectNotDue",
    "EffectPutOff",
    "Ring",
    "Rung",
    "abandon",
    "announce_limits",
    "claim_effect",
    "intervene",
    "ring",
    "settle_effect",
]

RERING_MS: Final = 4_000
"""What was told and not claimed (RQ's Redis emptied, an executor killed between pop and claim) is told again then."""

RING: Final = declare("ring", keys=["effects", "limits"], args=["prefix", "most", "rering_ms", "queue"])
LIMITS: Final = declare("effect_limits", keys=["limits"], args=[], arg_tail="limits")
CLAIM: Final = declare(
    "effect_claim",
    keys=["effect", "effects", "claims", "limits"],
    args=["prefix", "effect_id", "node", "executor", "token", "max_kills"],
)
SETTLE: Final = declare(
    "effect_settle",
    keys=["effect", "effects", "bell"],
    args=["prefix", "effect_id", "token", "outcome", "data", "retry_in_ms"],
)
ABANDON: Final = declare(
    "effect_abandon",
    keys=["claims", "effects", "bell"],
    args=["prefix", "node", "executor", "max_kills"],
)
INTERVENE: Final = declare(
    "effect_intervene",
    keys=["effect", "effects", "bell"],
    args=["prefix", "effect_id", "outcome", "data", "force"],
)

Outcome = Literal["done", "failed", "retry", "in_doubt", "cancelled"]
Abandoned = Literal["pending", "in_doubt", "failed", "cancelled", "stuck"]


class EffectClaimed(Refused):
    """Another executor has this effect in its hands, or had it: this claim or token is not the current one."""


class EffectNotDue(EffectClaimed):
    """The effect waits for its next try."""


class EffectPutOff(EffectNotDue):
    """As many effects of this name are running, or began lately, as it may have: it is told again when there is room.

    ``bound`` is ``concurrency`` or ``rate``; ``retry_in_ms`` says when there is room, 0 where that is not known.
    """

    def __init__(self, effect_id: str, bound: str, retry_in_ms: int) -> None:
        super().__init__(f"effect {effect_id} is put off by the {bound} of its name")
        self.bound = bound
        self.retry_in_ms = retry_in_ms


class EffectGone(Refused):
    """The effect is settled or cancelled, or its agent is gone: there is nothing to run."""


@dataclass(frozen=True, slots=True)
class Ring:
    """A due effect: whoever executes ``name`` is to be told."""

    effect_id: str
    name: str
    agent: str
    attempts: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Rung:
    """Due effects, and in how many ms it is worth asking again: 0: at once, None: when the bell rings."""

    told: list[Ring]
    next_ms: int | None


@dataclass(frozen=True, slots=True)
class EffectLimit:
    """How many of a name at once, and how many may begin: ``count`` at once, and as many again in each ``period_ms``.

    0: no such limit.
    """

    concurrency: int = 0
    count: int = 0
    period_ms: int = 0

    def words(self) -> str:
        return f"{self.concurrency} {self.count} {self.period_ms}" if self.concurrency or self.count else ""


@dataclass(frozen=True, slots=True)
class ClaimedEffect:
    """An effect in our hands. ``attempts`` counts this try; tries that ended with their executor are not in it."""

    effect_id: str
    agent: str
    name: str
    args: str
    attempts: int
    timeout_ms: int
    idempotent: bool
    at_ms: int
    retries: int
    backoff_ms: int
    kills: int
    traceparent: str = ""
    tracestate: str = ""
    tag: str = ""


def ring(keys: Keys, limit: int, rering_ms: int, *, awaited: bool = False) -> Call[Rung]:
    """Due effects, ``limit`` at most; each is due again after ``rering_ms`` unless it is claimed by then.

    ``awaited``: those that are an ``async def``, which wait in a queue of their own.

    An effect whose executor's node is gone is told too: the next claim takes it over.
    """
    args = (f"{keys.tag}:", limit, rering_ms, ASYNC_QUEUE if awaited else "")
    queue = keys.effects_async if awaited else keys.effects
    return Call(RING, (queue, keys.limits), args, _rung, repeatable=True, hint="ring")


def announce_limits(keys: Keys, limits: Mapping[str, EffectLimit]) -> Call[None]:
    """The limits of these names, from now on; of those that wait already, too. Other names keep theirs."""
    args: list[Arg] = []
    for name, limit in limits.items():
        args += (name, limit.words())
    return Call(LIMITS, (keys.limits,), args, nothing("effect limits"), repeatable=True, hint="effect limits")


def claim_effect(
    keys: Keys, effect_id: str, *, node: str, executor: str, token: str, max_kills: int = Limits().max_kills
) -> Call[ClaimedEffect]:
    """Take the effect. Raises ``EffectGone``, ``EffectClaimed``, ``EffectNotDue`` or ``EffectPutOff``."""
    if not token:
        raise BadInput(f"{effect_id}: a claim needs a token")
    names = (keys.effect(effect_id), keys.effects, keys.claims(node), keys.limits)
    args = (f"{keys.tag}:", effect_id, node, executor, token, max_kills)
    return Call(CLAIM, names, args, lambda reply: _claimed(reply, effect_id), repeatable=True, hint=effect_id)


def settle_effect(
    keys: Keys, effect_id: str, token: str, outcome: Outcome, data: str, *, retry_in_ms: int = 0
) -> Call[bool]:
    """Tell the outcome; ``data`` is the JSON of its signal. True: it was settled before, and nothing was written.

    Raises ``EffectClaimed`` when the token is not the current one: the effect was abandoned meanwhile.
    """
    names = (keys.effect(effect_id), keys.effects, keys.bell)
    args = (f"{keys.tag}:", effect_id, token, outcome, data, max(0, retry_in_ms))
    return Call(
        SETTLE,
        names,
        args,
        lambda reply: _checked(reply, effect_id)[1] == "1",
        repeatable=True,
        hint=effect_id,
    )


def abandon(
    keys: Keys, node: str, executor: str | None, *, max_kills: int = Limits().max_kills
) -> Call[list[tuple[str, Abandoned]]]:
    """An executor of ``node`` (None: all of them) is gone. What may be repeated is pending again, the rest in doubt.

    ``failed``: lost its executor ``max_kills`` times. ``stuck``: a key of it holds the wrong type; it is left as it is.
    """
    names = (keys.claims(node), keys.effects, keys.bell)
    args = (f"{keys.tag}:", node, executor or "", max_kills)
    return Call(ABANDON, names, args, lambda reply: _abandoned(reply, node), repeatable=True, hint=node)


def intervene(
    keys: Keys,
    effect_id: str,
    outcome: Literal["done", "failed", "retry"],
    data: str = "",
    *,
    force: bool = False,
) -> Call[None]:
    """An operator's word: the outcome (``data`` is the JSON of its signal), or try it again now.

    Raises ``EffectGone``; ``EffectClaimed`` while an executor holds it, unless ``force``: then that executor's own
    outcome is refused. What it does in the world cannot be undone.
    """
    names = (keys.effect(effect_id), keys.effects, keys.bell)
    args = (f"{keys.tag}:", effect_id, outcome, data, int(force))
    return Call(INTERVENE, names, args, lambda reply: _nothing(reply, effect_id), hint=effect_id)


def _nothing(reply: Any, effect_id: str) -> None:
    _checked(reply, effect_id)


def _rung(reply: Any) -> Rung:
    next_ms, *words = answer(reply, "ring")[1:]
    told = [
        Ring(effect_id, name, agent, int(attempts), int(timeout_ms))
        for effect_id, name, agent, attempts, timeout_ms in zip(*[iter(words)] * 5, strict=True)
    ]
    return Rung(told, None if next_ms == "-1" else int(next_ms))


def _claimed(reply: Any, effect_id: str) -> ClaimedEffect:
    word, *rest = _checked(reply, effect_id)
    if word == "dropped":
        raise EffectGone(f"effect {effect_id} was settled as {rest[0]}: its executor or its agent is gone")
    if word == "put_off":
        raise EffectPutOff(effect_id, rest[0], int(rest[1]))
    agent, name, args, attempts, timeout_ms, idempotent, at_ms, retries, backoff_ms, kills, *carried = rest
    return ClaimedEffect(
        effect_id=effect_id,
        agent=agent,
        name=name,
        args=args,
        attempts=int(attempts),
        timeout_ms=int(timeout_ms),
        idempotent=idempotent == "1",
        at_ms=int(at_ms),
        retries=int(retries),
        backoff_ms=int(backoff_ms),
        kills=int(kills),
        traceparent=carried[0],
        tracestate=carried[1],
        tag=carried[2],
    )


def _checked(reply: Any, effect_id: str) -> list[Any]:
    """The reply's words; the refusals of effects are raised as their own types."""
    found: Any = reply
    if isinstance(reply, list):
        if found[:2] == ["refused", "effect_gone"]:
            raise EffectGone(f"effect {effect_id} is settled or cancelled")
        if found[:2] == ["refused", "effect_claimed"]:
            raise EffectClaimed(
                f"effect {effect_id} is not ours: {cut(str(found[3] or 'nobody'), 200)} holds it"
            )
        if found[:2] == ["refused", "effect_not_due"]:
            raise EffectNotDue(f"effect {effect_id} is tried again in {found[2]} ms")
    return answer(found, effect_id)


def _abandoned(reply: Any, node: str) -> list[tuple[str, Abandoned]]:
    words = answer(reply, node)[1:]
    return [
        (effect_id, cast("Abandoned", word)) for effect_id, word in zip(words[::2], words[1::2], strict=True)
    ]
