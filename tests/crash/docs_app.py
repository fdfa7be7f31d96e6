"""An application in which everything happens that docs/redis.md has a field for."""

from __future__ import annotations

import asyncio
import os
import signal as os_signals

from regrow import (
    Agent,
    AgentCreated,
    AgentDown,
    Cancel,
    CancelEffect,
    Cancelled,
    Context,
    Cron,
    Done,
    EffectContext,
    Emit,
    Monitor,
    Reject,
    Reply,
    Schedule,
    Signal,
    Spawn,
    State,
    Step,
    Stop,
    StopChild,
    Supervisor,
    effect,
    every,
    handles,
)

__all__ = ["tree"]


class Seen(State):
    count: int = 0


@effect(timeout=10, retries=2, backoff=0.05)
def charge(run: EffectContext, fails: int) -> int:
    """Fails the first ``fails`` times."""
    if run.attempt <= fails:
        raise RuntimeError(f"try {run.attempt} is told to fail")
    return run.attempt


@effect(concurrency=1, rate="2/50ms")
async def fetch(run: EffectContext) -> int:
    await asyncio.sleep(0)
    return 0


@effect(idempotent=False, timeout=30)
async def crawl(run: EffectContext) -> int:
    """Goes on until it is cancelled."""
    while True:
        run.progress(0.5)
        await asyncio.sleep(0.1)


class Front(Agent[Seen], name="front"):
    @handles("note")
    def note(self, seen: Seen, signal: Signal) -> Step[Seen]:
        return seen.evolve(count=seen.count + 1)

    @handles("ask")
    def answer(self, seen: Seen, signal: Signal, ctx: Context) -> Step[Seen]:
        return Reply(seen.count, to=ctx.reply_to)

    @handles("order")
    def order(self, seen: Seen, signal: Signal) -> Step[Seen]:
        return seen.evolve(count=seen.count + 1), charge.run(signal.value), fetch.run(), fetch.run()

    @handles(fetch.done)
    @handles(charge.done)
    def charged(self, seen: Seen, done: Done[int]) -> Step[Seen]:
        return seen.evolve(count=seen.count + done.result)

    @handles("crawl")
    def roam(self, seen: Seen, signal: Signal) -> Step[Seen]:
        return crawl.run().tagged("crawl")

    @handles("call.off")
    def call_off(self, seen: Seen, signal: Signal) -> Step[Seen]:
        return CancelEffect("crawl")

    @handles(crawl.cancelled)
    def called_off(self, seen: Seen, cancelled: Cancelled) -> Step[Seen]:
        return seen.evolve(count=seen.count + cancelled.attempts)

    @handles("forward")
    def forward(self, seen: Seen, signal: Signal) -> Step[Seen]:
        return Emit("note", to=signal.value, subject="from front")

    @every(3600)
    def hourly(self, seen: Seen, signal: Signal) -> Step[Seen]:
        return None

    @handles("later")
    def later(self, seen: Seen, signal: Signal) -> Step[Seen]:
        """A cron expression that is due while the test looks would take a minute: its due time is set by the test."""
        note = Signal.of("note", signal.value, subject="later", dataschema="urn:note")
        return [
            Schedule(note, after=0.1),
            Schedule("note", after=3600, tag="far"),
            Cron("* * * * *", "note", tz="Europe/Berlin", tag="minutes"),
            Cancel("nothing"),
        ]

    @handles("reject")
    def reject(self, seen: Seen, signal: Signal, ctx: Context) -> Step[Seen]:
        raise Reject(f"not at {ctx.now}")

    @handles("crash")
    def crash(self, seen: Seen, signal: Signal) -> Step[Seen]:
        raise RuntimeError("told to crash")

    @handles("die")
    def die(self, seen: Seen, signal: Signal) -> Step[Seen]:
        os.kill(os.getpid(), os_signals.SIGSEGV)
        return None

    @handles("hire")
    def hire(self, seen: Seen, signal: Signal, ctx: Context) -> Step[Seen]:
        return Spawn(Helper, tag=signal.value), Monitor(f"{ctx.agent_id}/{signal.value}")

    @handles("fire")
    def fire(self, seen: Seen, signal: Signal) -> Step[Seen]:
        return StopChild(signal.value)

    @handles(AgentDown)
    def down(self, seen: Seen, down: AgentDown) -> Step[Seen]:
        return seen.evolve(count=seen.count + 1)

    @handles("stop")
    def stop(self, seen: Seen, signal: Signal) -> Step[Seen]:
        return Stop()


class Helper(Agent[Seen], name="helper"):
    @handles(AgentCreated)
    def created(self, seen: Seen, created: AgentCreated) -> Step[Seen]:
        return seen.evolve(count=1)


tree = Supervisor(
    "docs",
    [
        Front.child(
            "front",
            deadline=5,
            max_attempts=2,
            max_kills=10,
            max_memory="256MiB",
            max_processes=3,
            max_state="1MiB",
            max_signals=100_000,
            max_growth="200MiB",
            guard="warn",
        ),
        Front.child("slow", subscribe=["spec.*"], max_mailbox=1, shutdown=5),
        Front.child("pooled", isolation="pool"),
        Supervisor("guests", strategy="dynamic", agents=[Front, Helper]),
    ],
    max_restarts=50,
    max_seconds=5,
)
