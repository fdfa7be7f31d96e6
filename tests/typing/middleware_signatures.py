"""What the type checkers accept and refuse in ``Middleware``. Checked, not run.

Each line that must be refused carries an ignore for exactly that error: an ignore that is not needed is an error too.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=error
# (unneeded ignores are what this file is there to find)
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regrow import Agent, Context, Directive, Emit, Middleware, Payload, Reject, Signal, State, Step, handles


class Opened(Payload, type="opened"):
    pass


class Desk(State):
    open: int = 0
    tenant: str = ""


@dataclass(frozen=True)
class Audit(Middleware[State]):
    """For agents of any state."""

    to: str

    def after(
        self, state: State, signal: Signal, new_state: State, directives: Sequence[Directive], ctx: Context
    ) -> Sequence[Directive]:
        return [*directives, Emit("audited", signal.type, to=self.to)]

    def on_error(self, state: State, signal: Signal, error: Exception, ctx: Context) -> Emit | None:
        return None if isinstance(error, Reject) else Emit("failed", str(error), to=self.to)

    def on_emit(self, emit: Emit, ctx: Context) -> None:
        return None


class Tenants(Middleware[Desk]):
    """For agents of one state, whose fields are known."""

    def before(self, state: Desk, signal: Signal, ctx: Context) -> Opened | None:
        return Opened() if state.tenant == signal.subject else None


class Support(Agent[Desk], name="support", middleware=(Audit(to="audit"), Tenants())):
    @handles(Opened)
    def opened(self, desk: Desk, opened: Opened) -> Step[Desk]:
        return desk.evolve(open=desk.open + 1)


class NotAnAnswer(Middleware[Desk]):
    def before(self, state: Desk, signal: Signal, ctx: Context) -> int:  # type: ignore[override]
        return 5


class OtherState(Middleware[Desk]):
    def on_error(self, state: int, signal: Signal, error: Exception, ctx: Context) -> None:  # type: ignore[override]
        return None


class NotMiddleware(Agent[Desk], name="not-middleware", middleware=(5,)):  # type: ignore[arg-type]
    pass
