"""Modes: an agent as a state machine. A field of its state names the mode; handlers and changes may be tied to modes.

Everything is checked when the class is defined; a class without modes pays one look at None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, Literal, cast, get_args, get_origin

from regrow_signals.errors import BadDefinition
from regrow_signals.routing import RouteTable
from regrow_workers.handler_checks import Handler
from regrow_workers.handlers import Mode
from regrow_workers.state import State
from regrow_workers.validation import did_you_mean, one_line

__all__ = ["ModeWords", "Modes", "UnhandledInMode", "modes_of_class"]

Unhandled = Literal["dead_letter", "postpone"]
UnhandledInMode = Unhandled | Mapping[Mode, Unhandled]
"""What becomes of a signal that only other modes handle: in every mode, or by mode (unmentioned: a dead letter)."""

_WORDS: Final = get_args(Unhandled)


@dataclass(frozen=True, slots=True)
class ModeWords:
    """What a class says of its modes; all None: it has none, or those of the class above it."""

    field: object = None
    transitions: object = None
    unhandled: object = None

    def over(self, inherited: ModeWords) -> ModeWords:
        """These words, and the inherited ones where nothing is said."""
        return ModeWords(
            inherited.field if self.field is None else self.field,
            inherited.transitions if self.transitions is None else self.transitions,
            inherited.unhandled if self.unhandled is None else self.unhandled,
        )


@dataclass(frozen=True, slots=True)
class Modes:
    """The modes of one agent class. ``transitions`` None: any mode may follow any."""

    field: str
    names: tuple[str, ...]
    transitions: Mapping[str, frozenset[str]] | None
    routes: Mapping[str, RouteTable[Handler]]
    postponing: Mapping[str, tuple[str, ...]]
    """The modes in which signals are postponed, with those that may ever follow. Empty: it is never done."""

    def of(self, state: State) -> str:
        """The mode that a state is in."""
        value: object = getattr(state, self.field)
        return cast("str", value.value if isinstance(value, Enum) else value)

    def handler(self, state: State, type_name: str) -> Handler | None:
        """The most specific handler of the state's mode; of two of one pattern the one that names the mode."""
        return self.routes[self.of(state)].best(type_name)

    def postpones(self, state: State, type_name: str) -> bool:
        """Whether a signal that the mode does not handle waits: not where none that handles it can follow."""
        return any(self.routes[mode].best(type_name) for mode in self.postponing.get(self.of(state), ()))

    def no_handler(self, state: State, type_name: str, handler: Handler) -> str:
        """Why nobody takes this type now; ``handler`` is one that does in another mode."""
        where = " or ".join(repr(mode) for mode in handler.modes)
        return one_line(
            f"{self.field} is {self.of(state)!r}: {type_name:.210} is handled in {where} by {handler.shown}"
        )

    def refusal(self, before: str, after: State, handler: Handler) -> str:
        """Why this mode may not follow; empty: it may."""
        new = self.of(after)
        if self.transitions is None or new == before or new in self.transitions[before]:
            return ""
        allowed = ", ".join(sorted(self.transitions[before])) or "nothing"
        return f"{handler.shown} changed {self.field} from {before!r} to {new!r}; {before!r} may become {allowed}"


def modes_of_class(
    where: str, state_type: type[State], words: ModeWords, handlers: Sequence[Handler]
) -> Modes | None:
    """The class's modes, or None. ``BadDefinition`` names what is wrong with them and how to mend it."""
    tied = next((handler for handler in handlers if handler.modes), None)
    if words.field is None:
        said = tied.shown if tied else "modes" if words.transitions is not None else ""
        said = said or ("unhandled_in_mode" if words.unhandled is not None else "")
        if said:
            raise BadDefinition(
                f"{where}: {said} names modes; say which field of {state_type.__name__} holds the mode: "
                'mode_field="..."'
            )
        return None
    field = _field(where, state_type, words.field)
    names = _names(where, state_type, field)
    for handler in handlers:
        for mode in handler.modes:
            _check_name(f"{handler.shown}: mode", mode, names)
    transitions = _transitions(where, words.transitions, names)
    return Modes(
        field=field,
        names=names,
        transitions=transitions,
        routes=MappingProxyType({mode: _routes(handlers, mode) for mode in names}),
        postponing=MappingProxyType(
            {mode: _reached(mode, names, transitions) for mode in _postponing(where, words.unhandled, names)}
        ),
    )


def _postponing(where: str, said: object, names: tuple[str, ...]) -> list[str]:
    """The modes whose word is ``postpone``."""
    if not isinstance(said, Mapping):
        return [mode for mode in names if _word(where, said) == "postpone"]
    words = cast("Mapping[object, object]", said)
    found = {_check_name(f"{where}: unhandled_in_mode", mode, names): word for mode, word in words.items()}
    return [mode for mode, word in found.items() if _word(f"{where}: mode {mode!r}", word) == "postpone"]


def _word(where: str, said: object) -> str:
    if said is not None and said not in _WORDS:
        raise BadDefinition(
            f"{where}: unhandled_in_mode={said!r:.80} must be {' or '.join(map(repr, _WORDS))}"
        )
    return cast("str", said or "dead_letter")


def _reached(
    mode: str, names: tuple[str, ...], transitions: Mapping[str, frozenset[str]] | None
) -> tuple[str, ...]:
    """The modes that may follow, sooner or later."""
    if transitions is None:
        return tuple(name for name in names if name != mode)
    reached: set[str] = set()
    new = {mode}
    while new:
        new = {follow for name in new for follow in transitions[name]} - reached
        reached |= new
    return tuple(name for name in names if name in reached)


def _routes(handlers: Sequence[Handler], mode: str) -> RouteTable[Handler]:
    """Those that name the mode come first among equal patterns."""
    fitting = [handler for handler in handlers if not handler.modes or mode in handler.modes]
    fitting.sort(key=lambda handler: not handler.modes)
    return RouteTable((handler.pattern, handler) for handler in fitting)


def _field(where: str, state_type: type[State], field: object) -> str:
    fields = state_type.model_fields
    if not isinstance(field, str) or field not in fields:
        hint = did_you_mean(field, fields) if isinstance(field, str) else ""
        raise BadDefinition(f"{where}: mode_field={field!r} is no field of {state_type.__name__}{hint}")
    return field


def _names(where: str, state_type: type[State], field: str) -> tuple[str, ...]:
    annotation: Any = state_type.model_fields[field].annotation
    if get_origin(annotation) is Literal:
        values: Iterable[object] = get_args(annotation)
    elif isinstance(annotation, type) and issubclass(annotation, Enum):
        values = [member.value for member in annotation]
    else:
        values = ()
    names = tuple(value for value in values if isinstance(value, str))
    if not names or len(names) != len(list(values)):
        raise BadDefinition(
            f"{where}: mode_field={field!r}: annotate {state_type.__name__}.{field} with the modes there are, "
            'Literal["draft", "open"] or an Enum of texts'
        )
    return names


def _transitions(where: str, said: object, names: tuple[str, ...]) -> Mapping[str, frozenset[str]] | None:
    if said is None:
        return None
    if not isinstance(said, Mapping):
        raise BadDefinition(
            f'{where}: modes={said!r:.80} must say what may follow: {{"draft": ["open"], ...}}'
        )
    found = dict.fromkeys(names, frozenset[str]())
    for mode, follow in cast("Mapping[object, object]", said).items():
        name = _check_name(f"{where}: modes", mode, names)
        if isinstance(follow, str) or not isinstance(follow, Iterable):
            raise BadDefinition(f"{where}: modes: {mode!r}: {follow!r:.80} must be a list of modes")
        listed = cast("Iterable[object]", follow)
        found[name] = frozenset(_check_name(f"{where}: modes: {mode!r}", one, names) for one in listed)
    return MappingProxyType(found)


def _check_name(where: str, mode: object, names: tuple[str, ...]) -> str:
    text = mode.value if isinstance(mode, Enum) else mode
    if text not in names:
        hint = did_you_mean(text, dict.fromkeys(names)) if isinstance(text, str) else ""
        raise BadDefinition(f"{where} {mode!r:.80} is no mode{hint}")
    return cast("str", text)
