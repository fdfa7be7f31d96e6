"""``Agent``: a class of handlers over one ``State``. The class is the agent's type; its objects hold nothing."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from types import FrameType
from typing import Any, ClassVar, Generic, NoReturn, TypeVar, Unpack, cast, get_args, get_origin

from pydantic import ValidationError

from regrow_signals.durations import Duration
from regrow_signals.errors import (
    BadDefinition,
    BadInput,
    BadPayload,
    ImpureHandler,
    Postponed,
    Unhandled,
    WrongMode,
)
from regrow_signals.signal import Payload, Signal
from regrow_workers.agent_limits import LIMITS, LimitWords
from regrow_workers.child_spec import (
    Backoff,
    ChildSpec,
    Isolation,
    OnExceeded,
    Restart,
    Resume,
    Shutdown,
)
from regrow_workers.context import Context
from regrow_workers.definition import Definition, OnError, define
from regrow_workers.delivery import Delivery
from regrow_workers.directives import Directive
from regrow_workers.handlers import Mode
from regrow_workers.hooked_transition import pass_through
from regrow_workers.middleware import Middleware, own_middleware
from regrow_workers.modes import ModeWords, UnhandledInMode
from regrow_workers.outcomes import UnhandledType
from regrow_workers.outcomes import WrongMode as WrongModeOutcome
from regrow_workers.state import State, encode_state, parse_state
from regrow_workers.subscription_directives import Subscribe
from regrow_workers.validation import first_problem

__all__ = ["Agent"]

S = TypeVar("S", bound=State)


class Agent(Generic[S]):
    """A type of agents: ``class Support(Agent[Desk], name="support")`` with methods marked by ``@handles``.

    ``name`` is what Redis knows the type by; after a rename the old one goes into ``aliases``. ``on_error`` says what
    an exception in a handler does: ``"crash"`` ends the incarnation, its supervisor decides; ``"dead_letter"`` spares
    the restart. ``guard``, ``deadline``, ``max_memory``, ``max_state`` and the other ``LimitWords`` are the limits of
    all agents of this type whose child spec does not say its own; unset, ``REGROW_DEADLINE`` and so on decide.
    ``abstract=True`` makes a base of handlers that is no type of its own.

    ``mode_field`` names the field of the state that holds the agent's mode, a ``Literal`` or an ``Enum`` of texts:
    ``@handles(Paid, mode="open")`` then counts in that mode alone. ``modes={"draft": ["open"], "open": ["paid"]}`` says
    which mode may follow which; one that it does not mention is the last. A signal that its mode does not handle, and
    one whose handler makes a change that is not allowed, become dead letters ``wrong_mode``, the state unchanged.
    With ``unhandled_in_mode="postpone"`` (or ``{"busy": "postpone"}``) the former waits until the mode changes.

    ``middleware`` surrounds each transition: ``(Audit(),)``, the first the outermost; that of base classes is outside.
    """

    definition: ClassVar[Definition]
    """Set on every class with a name."""

    __regrow_middleware__: ClassVar[tuple[Middleware[Any], ...]] = ()

    def __init_subclass__(
        cls,
        *,
        name: str | None = None,
        aliases: Iterable[str] = (),
        on_error: OnError | None = None,
        abstract: bool = False,
        mode_field: str | None = None,
        modes: Mapping[Mode, Iterable[Mode]] | None = None,
        unhandled_in_mode: UnhandledInMode | None = None,
        middleware: Sequence[Middleware[Any]] = (),
        **limits: Unpack[LimitWords],
    ) -> None:
        super().__init_subclass__()
        for unknown in limits.keys() - set(LIMITS):
            raise BadDefinition(
                f"{cls.__name__}: unknown keyword {unknown!r}; there are name, aliases, on_error, abstract, "
                f"mode_field, modes, unhandled_in_mode, middleware, {', '.join(LIMITS)}"
            )
        cls.__regrow_middleware__ = own_middleware(cls.__name__, middleware)
        state_type = _state_type(cls)
        if name is None:
            if abstract or state_type is None:
                return
            raise BadDefinition(
                f'{cls.__name__} has no name: write class {cls.__name__}(..., name="{cls.__name__.lower()}"); '
                "Redis knows the type by it"
            )
        if state_type is None:
            raise BadDefinition(
                f"{cls.__name__} has no state type: write class {cls.__name__}(Agent[YourState], ...)"
            )
        inherited: Definition | None = getattr(cls, "definition", None)
        cls.definition = define(
            cls,
            state_type,
            name=name,
            aliases=aliases if isinstance(aliases, str) else tuple(aliases),
            on_error=on_error or (inherited.on_error if inherited else "crash"),
            names=_names_at(inspect.currentframe()),
            limits={**(inherited.limits if inherited else {}), **limits},
            mode_words=ModeWords(mode_field, modes, unhandled_in_mode).over(
                inherited.mode_words if inherited else ModeWords()
            ),
            middleware=[
                one
                for base in reversed(cls.__mro__)
                for one in base.__dict__.get("__regrow_middleware__", ())
            ],
        )

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise ImpureHandler(
            f"{type(self).__name__}.{name} was set: an agent object holds nothing between signals; keep it in the State"
        )

    @classmethod
    def cmd(
        cls, state: S, signal: Payload | Signal, *, ctx: Context | None = None
    ) -> tuple[S, list[Directive]]:
        """The transition, without Redis or a process: ``(new state, directives)``.

        Middleware is around it. Raises ``Unhandled`` (also ``WrongMode``), ``Reject``, ``BadPayload``, whatever the
        handler or a hook raises, and ``ImpureHandler`` where it returned no step, changed what it was given, or did
        what no transition may (clocks, chance, I/O).
        """
        definition = cls.defined()
        if type(cast("object", state)) is not definition.state_type:
            raise BadInput(
                f"{cls.__name__}.cmd: the state must be a {definition.state_type.__name__}, not {state!r:.80}"
            )
        whole = signal if isinstance(signal, Signal) else Signal.of(signal, source="test")
        delivery = Delivery.example(whole, ctx or Context.example(whole, agent_id=definition.name))
        before = encode_state(state)
        passage = pass_through(definition, state, delivery, mode=definition.guard or "enforce", before=before)
        if passage.not_handled is not None:
            raise _not_handled(passage.not_handled)
        if passage.error is not None:
            raise passage.error
        new, handler = passage.new, passage.handler
        if new is None:
            return state, list(passage.directives)
        modes = definition.modes
        if (
            modes is not None
            and handler is not None
            and (why := modes.refusal(modes.of(state), new, handler))
        ):
            raise WrongMode(why)
        encode_state(new)
        return cast("S", new), list(passage.directives)

    @classmethod
    def initial_state(cls, init: Mapping[str, Any] | None = None) -> S:
        """The state a new agent begins with: the defaults, and ``init`` over them. ``BadPayload`` names the field."""
        state_type = cls.defined().state_type
        try:
            return cast("S", state_type.model_validate(dict(init or {})))
        except ValidationError as error:
            raise BadPayload(f"{state_type.__name__}: {first_problem(error)}") from None

    @classmethod
    def parse_state(cls, text: str, schema: int | None = None) -> S:
        """A stored state, also one of an earlier schema. ``UnreadableState`` names the step or the field at fault."""
        definition = cls.defined()
        return cast("S", parse_state(definition.state_type, text, schema, guard=definition.guard))

    @classmethod
    def child(
        cls,
        id: str = "",  # noqa: A002  the word of the child spec
        *,
        under: str = "",
        restart: Restart = "permanent",
        shutdown: Shutdown | None = None,
        significant: bool = False,
        isolation: Isolation = "process",
        resume: Resume = "state",
        init: Mapping[str, Any] | S | None = None,
        backoff: Backoff | Duration | None = None,
        labels: Mapping[str, str] | None = None,
        subscribe: Sequence[str | Subscribe] = (),
        max_restarts: int | None = None,
        max_seconds: Duration | None = None,
        on_exceeded: OnExceeded | None = None,
        idle_delete: Duration | None = None,
        **limits: Unpack[LimitWords],
    ) -> ChildSpec:
        """The spec of one agent of this type under a supervisor; ``init`` is the data its state begins with.

        ``under="helpdesk/chats"`` in place of an id is what ``send(..., create=...)`` takes: a dynamic supervisor.
        What is left out is the type's, the supervisor's or the setting's: ``ChildSpec`` says which.
        """
        return ChildSpec(
            id=id,
            agent=cls,
            restart=restart,
            shutdown=shutdown,
            significant=significant,
            isolation=isolation,
            resume=resume,
            init=init.model_dump(exclude_unset=True)
            if isinstance(init, State)
            else (init if init is not None else {}),
            backoff=backoff,
            labels=labels if labels is not None else {},
            subscribe=subscribe,
            max_restarts=max_restarts,
            max_seconds=max_seconds,
            on_exceeded=on_exceeded,
            idle_delete=idle_delete,
            under=under,
            **limits,
        )

    @classmethod
    def defined(cls) -> Definition:
        """The class's own definition; ``BadDefinition`` for one without a name."""
        found = cls.__dict__.get("definition")
        if found is None:
            raise BadDefinition(
                f'{cls.__name__} is no agent type: it has no name (class X(Agent[S], name="x"))'
            )
        return cast("Definition", found)


def _not_handled(outcome: UnhandledType | WrongModeOutcome) -> Unhandled:
    if isinstance(outcome, UnhandledType):
        return Unhandled(outcome.why)
    return (Postponed if outcome.postponed else WrongMode)(outcome.why)


def _names_at(frame: FrameType | None) -> Mapping[str, Any]:
    """The local names where a class is being defined: classes made in a function name each other."""
    outer = frame.f_back if frame is not None else None
    return outer.f_locals if outer is not None else {}


def _state_type(cls: type) -> type[State] | None:
    """The ``S`` of ``Agent[S]``, looked for along the bases; None while it is still open."""
    for base in cls.__mro__:
        for written in cast("tuple[Any, ...]", base.__dict__.get("__orig_bases__", ())):
            origin = get_origin(written)
            if not (isinstance(origin, type) and issubclass(origin, Agent)):
                continue
            for argument in get_args(written):
                if isinstance(argument, TypeVar):
                    continue
                if not (isinstance(argument, type) and issubclass(argument, State)) or argument is State:
                    raise BadDefinition(
                        f"{cls.__name__}: Agent[...] takes a State class of yours, not {argument!r:.80}; "
                        "class Desk(State): ..."
                    )
                return argument
    return None
