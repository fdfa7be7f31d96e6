"""``@upcast``: steps that lead a stored state from one schema to the next, checked when its class is defined.

A step is a pure function of the state's JSON: it gets what ``json.loads`` would give, a value of its own that it may
change, and returns the same for the next schema. It runs under the guard, as a handler does.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from regrow_signals.errors import BadDefinition, RegrowError, UnreadableState
from regrow_workers.marked_methods import MarkedMethods
from regrow_workers.purity import GuardMode, guarded
from regrow_workers.tracebacks import exception_line
from regrow_workers.validation import one_line

__all__ = ["Stored", "UpcastSteps", "run_upcasts", "upcast", "upcasts_of"]

Stored = dict[str, Any]

if TYPE_CHECKING:
    # A static or class method as type checkers see it through its decorators; at run time these take no parameters.
    M = TypeVar(
        "M",
        bound=Callable[[Stored], Mapping[str, Any]]
        | Callable[[Any, Stored], Mapping[str, Any]]
        | staticmethod[[Stored], Mapping[str, Any]]
        | classmethod[Any, [Stored], Mapping[str, Any]],
    )
else:
    M = TypeVar("M")

UpcastSteps = Mapping[int, str]
"""From schema -> the name of the method that leads to the next one."""

_MARK: Final = "__regrow_upcast__"
_marked: Final = MarkedMethods()
_NO_PLAIN_FUNCTION: Final = (
    inspect.iscoroutinefunction,
    inspect.isgeneratorfunction,
    inspect.isasyncgenfunction,
)
_ADVICE: Final = "a step computes from the stored state alone"


def upcast(from_schema: int, /) -> Callable[[M], M]:
    """Mark the step of a State class that leads from ``from_schema`` to the next one.

    Below it stands ``@staticmethod`` (or ``@classmethod``); it takes the stored state as a plain dict, as JSON has it,
    and returns the dict of the next schema. A field that it leaves in is kept, also one that the class does not know.
    """
    if type(from_schema) is not int or from_schema < 1:
        raise BadDefinition(
            f"@upcast({from_schema!r}): name the schema that it leads from, a whole number of 1 or more"
        )

    def mark(method: M) -> M:
        function = _function(method)
        if function is None:
            raise BadDefinition(
                f"@upcast({from_schema}) marks a static method or class method of a State class, "
                f"not {type(method).__name__} objects"
            )
        if hasattr(function, _MARK):
            raise BadDefinition(
                f"{function.__qualname__} is marked by @upcast twice; write one method for each step"
            )
        setattr(function, _MARK, from_schema)
        _marked.note(function)
        return method

    return mark


def upcasts_of(cls: type, schema: int, inherited: UpcastSteps) -> UpcastSteps:
    """The checked steps of a State class, inherited ones included: without a gap up to ``schema``."""
    who = f"state {cls.__name__}"
    own: dict[int, str] = {}
    for function in _marked.take(cls):
        start = cast("int", getattr(function, _MARK))
        if _function(vars(cls).get(function.__name__)) is not function:
            raise BadDefinition(
                f"{who}: the method {function.__name__}, marked @upcast({start}), is defined again below; "
                "give each step a name of its own"
            )
        if start in own:
            raise BadDefinition(
                f"{who}: {own[start]} and {function.__name__} are both @upcast({start}); keep one"
            )
        _check_shape(cls, function.__name__, start)
        own[start] = function.__name__
    steps = {**inherited, **own}
    beyond = [start for start in own if start >= schema]
    if beyond:
        raise BadDefinition(
            f"{who}: @upcast({beyond[0]}) leads to schema {beyond[0] + 1}, but the class is schema={schema}; write "
            f"class {cls.__name__}(State, schema={beyond[0] + 1})"
        )
    steps = {start: name for start, name in steps.items() if start < schema}
    for start in range(min(steps, default=schema - 1) or 1, schema):
        if start not in steps:
            raise BadDefinition(
                f"{who}: nothing leads from schema {start} to {start + 1}: add a step @upcast({start}) "
                "(one that changes nothing returns the dict as it is)"
            )
    return steps


def run_upcasts(
    cls: type, steps: UpcastSteps, stored: object, *, schema: int, to: int, mode: GuardMode | None
) -> Stored:
    """``stored`` of ``schema`` as it is at ``to``. ``UnreadableState`` says which step is missing or what it raised."""
    if not isinstance(stored, dict):
        raise UnreadableState(f"stored state is no JSON object but {type(stored).__name__}")
    state = cast("Stored", stored)
    for start in range(schema, to):
        name = steps.get(start)
        if name is None:
            raise UnreadableState(
                f"stored state is of schema {start}, and {cls.__name__} has no step @upcast({start}); add it back"
            )
        shown = f"{cls.__name__}.{name}()"
        try:
            found = guarded(getattr(cls, name), (state,), shown, mode, place="an upcast", advice=_ADVICE)
        except MemoryError:
            raise
        except RegrowError as error:
            raise UnreadableState(f"@upcast({start}): {one_line(error)}") from error
        except Exception as error:
            raise UnreadableState(f"@upcast({start}), {shown} raised {exception_line(error)}") from error
        if not isinstance(found, Mapping):
            raise UnreadableState(
                f"@upcast({start}), {shown} returned {type(found).__name__}; it must return the dict of schema "
                f"{start + 1}"
            )
        state = dict(cast("Mapping[str, Any]", found))
    return state


def _function(method: object) -> FunctionType | None:
    if isinstance(method, (staticmethod, classmethod)):
        method = cast("Any", method).__func__
    return method if isinstance(method, FunctionType) else None


def _check_shape(cls: type, name: str, start: int) -> None:
    who = f"state {cls.__name__}: {name}, @upcast({start})"
    method = vars(cls)[name]
    if not isinstance(method, (staticmethod, classmethod)):
        raise BadDefinition(f"{who}, must be a static method: put @staticmethod right below @upcast({start})")
    function = getattr(cls, name)
    if (
        inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
        or inspect.isasyncgenfunction(function)
    ):
        raise BadDefinition(
            f"{who}, must be a plain function that returns a dict, neither async nor a generator"
        )
    try:
        inspect.signature(function).bind({})
    except TypeError:
        raise BadDefinition(
            f"{who}, must take one argument, the stored state of schema {start} as a dict: "
            f"def {name}(old: dict[str, Any]) -> dict[str, Any]"
        ) from None
