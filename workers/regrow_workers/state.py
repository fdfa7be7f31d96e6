"""``State``: an agent's whole memory as one frozen pydantic model, and its strict JSON form.

What is stored is text that can be read again: a state that could not be (NaN, a lone surrogate, too deep, a number
longer than Python reads back) is refused before the commit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import PydanticSerializationError

from regrow_signals.errors import (
    BadDefinition,
    BadInput,
    BadPayload,
    NotStrictJSON,
    TooLarge,
    UnreadableState,
)
from regrow_signals.finite import check_finite, may_hide_nonfinite
from regrow_signals.strict_json import dumps, loads
from regrow_workers.purity import GuardMode
from regrow_workers.upcasts import UpcastSteps, run_upcasts, upcasts_of
from regrow_workers.validation import did_you_mean, first_problem, may_nest, one_line

__all__ = ["State", "changed_fields", "encode_state", "parse_state"]

S = TypeVar("S", bound="State")

_DEPTH_BOUND: Final = 64
# CPython reads back integers of at most 4,300 digits; a shorter text cannot hold a longer one.
_LONGEST_NUMBER: Final = 4_300
_LONG_NUMBER: Final = re.compile(r"[0-9]{4301}")

_INHERITED: Final = cast("int", object())

# The four slots of a model, set past its ``__setattr__`` and without a look-up by name: it is done for every signal.
_set_values, _set_named, _set_extra, _set_private = (
    cast("Callable[[Any, Any], None]", vars(BaseModel)[slot].__set__)
    for slot in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)


class State(BaseModel):
    """An agent's memory: ``class Desk(State): open: int = 0``. Never changed in place, only by ``evolve``.

    ``class Desk(State, schema=2)`` numbers the shape; raise it when a field changes its meaning or goes away, and write
    the step that leads there from the schema before: ``@upcast(1)``.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_default=True,
        # Stored under the fields' names, whatever aliases the constructor takes.
        validate_by_name=True,
        validate_by_alias=True,
        # NaN must be seen, not written as null.
        ser_json_inf_nan="constants",
    )

    __regrow_schema__: ClassVar[int] = 1
    __regrow_upcasts__: ClassVar[UpcastSteps] = {}
    __regrow_shape__: ClassVar[_Shape | None] = None

    def __init_subclass__(cls, *, schema: int = _INHERITED, **config: Any) -> None:
        if schema is _INHERITED:
            schema = cls.__regrow_schema__
        elif type(schema) is not int or schema < 1:
            raise BadDefinition(
                f"state {cls.__name__}: schema={schema!r} must be a whole number of 1 or more"
            )
        cls.__regrow_upcasts__ = upcasts_of(cls, schema, cls.__regrow_upcasts__)
        cls.__regrow_schema__ = schema
        super().__init_subclass__(**config)

    @classmethod
    def __pydantic_init_subclass__(cls, **config: Any) -> None:
        super().__pydantic_init_subclass__(**config)
        _check_stored_form(cls)
        cls.__regrow_shape__ = None

    @classmethod
    def from_stored(cls, data: Mapping[str, Any], *, schema: int) -> Self:
        """A state that was stored under an earlier schema, as a worker reads it: for tests of ``@upcast`` steps.

        ``UnreadableState`` says why the agent would be parked.
        """
        return parse_state(cls, dumps(dict(data), what=cls.__name__), schema, guard="enforce")

    def evolve(self, **changes: Any) -> Self:
        """A copy with some fields replaced. ``BadPayload`` names an unknown field or one that does not fit."""
        cls = type(self)
        shape = cls.__regrow_shape__ or _shape_of(cls)
        if shape.whole:
            return _evolve_whole(self, changes)
        # What BaseModel.__copy__ does, without its deep looks: fields are frozen and private ones refused above.
        copy = cls.__new__(cls)
        _set_values(copy, self.__dict__.copy())
        _set_named(copy, self.__pydantic_fields_set__.copy())
        _set_extra(copy, None)
        _set_private(copy, None)
        validate = shape.assign
        try:
            for name, value in changes.items():
                validate(copy, name, value)
        except ValidationError as error:
            raise _refused_change(cls, changes, error) from None
        if self.__pydantic_extra__ is not None:
            # Only now: an assignment to a model that forbids extra fields drops them.
            _set_extra(copy, self.__pydantic_extra__)
        return copy


def encode_state(state: State, *, max_bytes: int | None = None) -> str:
    """The state as strict JSON text. ``NotStrictJSON`` or ``TooLarge`` if it cannot be stored and read back."""
    cls = type(state)
    shape = cls.__regrow_shape__ or _shape_of(cls)
    try:
        raw = shape.to_json(state, by_alias=False)
        text = raw.decode()
    except (PydanticSerializationError, UnicodeError, ValueError, RecursionError) as error:
        raise NotStrictJSON(f"{cls.__name__} is not strict JSON: {one_line(error)}") from None
    if state.__pydantic_extra__:
        text = dumps({**json.loads(text), **state.__pydantic_extra__})
    if max_bytes is not None and len(raw) > max_bytes:
        raise TooLarge(f"{cls.__name__} is {len(raw):,} bytes as JSON; max_state is {max_bytes:,}")
    if shape.may_hide_nonfinite:
        check_finite(state, cls.__name__)
    # Parsed again only where a quick look cannot rule out that it is unreadable.
    if (
        "NaN" in text
        or "Infinity" in text
        or (len(text) > _LONGEST_NUMBER and _LONG_NUMBER.search(text))
        or (shape.may_nest and text.count("[") + text.count("{") > _DEPTH_BOUND)
    ):
        loads(text, max_depth=_DEPTH_BOUND, what=cls.__name__)
    return text


def parse_state(cls: type[S], text: str, schema: int | None = None, *, guard: GuardMode | None = None) -> S:
    """A stored state of ``schema`` (None: this class's). ``UnreadableState`` names the step or the field at fault.

    An earlier schema's is led here by the class's ``@upcast`` steps, under ``guard``; a later one's is not read.
    Fields that the class does not know are kept beside and written back by ``encode_state``: code that is rolled back
    loses nothing of what newer code had stored. Fields of a model within the state follow that model's configuration.
    """
    if schema is not None and schema != cls.__regrow_schema__:
        text = _led_here(cls, text, schema, guard)
    try:
        return cast("S", cls.__pydantic_validator__.validate_json(text, by_alias=True, by_name=True))
    except ValidationError as error:
        known = error
    # Only now: with unknown fields allowed a union of models may be read as another of its members.
    try:
        return cast(
            "S", cls.__pydantic_validator__.validate_json(text, extra="allow", by_alias=True, by_name=True)
        )
    except ValidationError:
        raise UnreadableState(f"stored state does not fit {cls.__name__}: {first_problem(known)}") from None


def _led_here(cls: type[State], text: str, schema: int, mode: GuardMode | None) -> str:
    """The text of another schema as this class's."""
    here = cls.__regrow_schema__
    if schema > here:
        raise UnreadableState(
            f"stored state is of schema {schema}, newer than this code: {cls.__name__} is of schema {here}"
        )
    steps = cls.__regrow_upcasts__
    try:
        stored: object = loads(text, what="stored state")
        led = run_upcasts(cls, steps, stored, schema=schema, to=here, mode=mode)
        return dumps(led, what=f"{cls.__name__} after its upcast")
    except NotStrictJSON as error:
        raise UnreadableState(str(error)) from None


def changed_fields(before: str, after: str) -> list[str]:
    """Names of the top-level fields in which two encoded states differ."""
    old, new = cast("dict[str, Any]", json.loads(before)), cast("dict[str, Any]", json.loads(after))
    missing = object()
    return [name for name in {**old, **new} if old.get(name, missing) != new.get(name, missing)]


@dataclass(frozen=True, slots=True)
class _Shape:
    """What ``evolve`` and ``encode_state`` need to know of a class; found once, at its first use."""

    assign: Callable[[Any, str, Any], Any]
    to_json: Callable[..., bytes]
    whole: bool
    """A validator looks at several fields at once: changes are validated together."""
    may_nest: bool
    may_hide_nonfinite: bool


def _shape_of(cls: type[State]) -> _Shape:
    decorators = cls.__pydantic_decorators__
    shape = _Shape(
        assign=cls.__pydantic_validator__.validate_assignment,
        to_json=cls.__pydantic_serializer__.to_json,
        whole=bool(decorators.model_validators or decorators.root_validators),
        may_nest=may_nest(cls),
        may_hide_nonfinite=may_hide_nonfinite(cls),
    )
    cls.__regrow_shape__ = shape
    return shape


def _check_stored_form(cls: type[State]) -> None:
    """``BadDefinition`` for what would not come back from Redis as it went in."""
    who = f"state {cls.__name__}"
    for name in cls.__private_attributes__:
        raise BadDefinition(f"{who}: private attribute {name!r} would not survive a restart; make it a field")
    for name in cls.__pydantic_computed_fields__:
        raise BadDefinition(
            f"{who}: computed field {name!r} would be stored and read as unknown; use a property"
        )
    for name, field in cls.__pydantic_fields__.items():
        if field.exclude:
            raise BadDefinition(f"{who}: field {name!r} is excluded and would not survive a restart")
    config = cls.model_config
    if not config.get("frozen") or config.get("extra") != "forbid":
        raise BadDefinition(f"{who}: frozen=True and extra='forbid' cannot be turned off")


def _evolve_whole(state: S, changes: Mapping[str, Any]) -> S:
    cls = type(state)
    for name in changes:
        if name not in cls.__pydantic_fields__:
            raise _unknown_field(cls, name)
    try:
        new = cls.model_validate({**state.__dict__, **changes}, by_name=True)
    except ValidationError as error:
        raise BadPayload(f"{cls.__name__}: {first_problem(error)}") from None
    _set_extra(new, state.__pydantic_extra__)
    return new


def _refused_change(cls: type[State], changes: Mapping[str, Any], error: ValidationError) -> BadInput:
    for name in changes:
        if name not in cls.__pydantic_fields__:
            return _unknown_field(cls, name)
    return BadPayload(f"{cls.__name__}: {first_problem(error)}")


def _unknown_field(cls: type[State], name: str) -> BadInput:
    return BadPayload(f"{cls.__name__} has no field {name!r}{did_you_mean(name, cls.__pydantic_fields__)}")
