"""What the type checkers accept and refuse in handlers. Checked, not run.

Each line that must be refused carries an ignore for exactly that error: an ignore that is not needed is an error too.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=error, reportUnusedFunction=false
# (unneeded ignores are what this file is there to find)
from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, assert_type

from regrow import Agent, Context, Directive, Emit, Payload, Signal, State, Step, Stop, handles


class Opened(Payload, type="opened"):
    subject: str


class Closed(Payload, type="closed"):
    pass


class Desk(State):
    open: int = 0


class Other(State):
    n: int = 0


class Accepted(Agent[Desk], name="accepted", aliases=("old",), on_error="dead_letter"):
    @handles(Opened)
    def with_context(self, desk: Desk, opened: Opened, ctx: Context) -> Step[Desk]:
        assert_type(ctx.random.random(), float)
        return desk.evolve(open=1)

    @handles(Opened)
    def without_context(self, desk: Desk, opened: Opened) -> Step[Desk]:
        return desk

    @handles("opened.*")
    def pattern(self, desk: Desk, signal: Signal) -> Step[Desk]:
        return None

    @handles("a.*", "b.*")
    def patterns(self, desk: Desk, signal: Signal, ctx: Context) -> Step[Desk]:
        return Stop()

    @handles(Opened, Closed)
    def two(self, desk: Desk, either: Opened | Closed) -> Step[Desk]:
        return desk, Emit(Closed(), to="x"), Stop("shutdown")

    @handles(Opened)
    def several(self, desk: Desk, opened: Opened) -> Step[Desk]:
        return [Emit(Closed(), to="x"), Stop()]

    @handles(Opened)
    def state_and_several(self, desk: Desk, opened: Opened) -> Step[Desk]:
        directives: list[Directive] = [Emit("x.y", {"n": 1}, to="x")]
        return desk, directives

    @handles(Opened)
    def narrower(self, desk: Desk, opened: Opened) -> Desk:
        return desk

    @handles(Opened)
    def narrowest(self, desk: Desk, opened: Opened) -> tuple[Desk, Emit]:
        return desk, Emit(Signal.of("x"), to="x")

    @handles(Opened)
    def wider(self, desk: Desk, opened: Payload) -> None:
        return None


class Refused(Agent[Desk], name="refused"):
    @handles(Opened)  # type: ignore[arg-type]
    def wrong_payload(self, desk: Desk, closed: Closed) -> Step[Desk]:
        return desk

    @handles("opened.*")  # type: ignore[arg-type]
    def payload_for_a_pattern(self, desk: Desk, opened: Opened) -> Step[Desk]:
        return desk

    @handles(Opened, Closed)  # type: ignore[arg-type]
    def one_of_two(self, desk: Desk, opened: Opened) -> Step[Desk]:
        return desk

    @handles(Opened)  # type: ignore[arg-type]
    async def waits(self, desk: Desk, opened: Opened) -> Step[Desk]:
        return desk

    @handles(Opened)  # type: ignore[arg-type]
    def returns_coroutine(self, desk: Desk, opened: Opened) -> Coroutine[Any, Any, None]:
        raise AssertionError(desk)

    @handles(Opened)  # type: ignore[arg-type]
    def too_short(self, desk: Desk) -> Step[Desk]:
        return desk

    @handles(Opened)  # type: ignore[arg-type]
    def no_step(self, desk: Desk, opened: Opened) -> int:
        return 1

    @handles(Opened)
    def wrong_state(self, desk: Desk, opened: Opened) -> Step[Desk]:
        return Other()  # type: ignore[return-value]

    @handles(5)  # type: ignore[call-overload, untyped-decorator]
    def number(self, desk: Desk, opened: Opened) -> Step[Desk]:
        return desk


def cmd_is_typed() -> None:
    state, directives = Accepted.cmd(Desk(), Opened(subject="x"))
    assert_type(state, Desk)
    assert_type(directives, list[Directive])
    assert_type(state.evolve(open=2), Desk)
    assert_type(Accepted.initial_state({"open": 1}), Desk)
    assert_type(Accepted.parse_state("{}"), Desk)
    Accepted.cmd(Other(), Opened(subject="x"))  # type: ignore[arg-type]
    Accepted.child("x", restart="always")  # type: ignore[arg-type]
    Accepted.child("x", restart="transient", shutdown="brutal_kill", init=Desk(open=1), max_memory="64MiB")
