"""What became of an effect, as the payload its agent is sent: ``Done[R]``, ``Failed``, ``InDoubt`` or ``Cancelled``."""

from __future__ import annotations

import types
from typing import Any, Generic, TypeVar, cast

from pydantic import ConfigDict

from regrow_signals.signal import Payload

__all__ = ["Cancelled", "Done", "Failed", "InDoubt", "named"]

R = TypeVar("R")
O = TypeVar("O", bound=Payload)  # noqa: E741

# An outcome may have been written by newer code: what it says besides is no reason to refuse it.
_CONFIG = ConfigDict(extra="ignore", arbitrary_types_allowed=False)


class Done(Payload, Generic[R]):
    """The effect returned ``result``. Handle it with ``@handles(charge.done)``."""

    model_config = _CONFIG

    effect: str
    """The effect's id, the same on every try."""
    result: R


class Failed(Payload):
    """The effect raised on its last try. Handle it with ``@handles(charge.failed)``."""

    model_config = _CONFIG

    effect: str
    error: str
    attempts: int


class InDoubt(Payload):
    """The process died inside an effect that must not be repeated: whether it took place is not known."""

    model_config = _CONFIG

    effect: str
    attempts: int


class Cancelled(Payload):
    """The agent, or an operator, cancelled the effect. Handle it with ``@handles(charge.cancelled)``."""

    model_config = _CONFIG

    effect: str
    tag: str
    attempts: int
    """0: it never began. Else this try was told to stop: what of it took place is not known."""


def named(base: type[O], type_name: str) -> type[O]:
    """The outcome class of one effect: ``base`` with a signal type of its own."""
    made: Any = types.new_class(
        f"{base.__name__.partition('[')[0]}_{type_name.rpartition('.')[0].replace('.', '_').replace('-', '_')}",
        (base,),
        {"type": type_name},
        lambda body: body.update({"__module__": base.__module__, "__doc__": base.__doc__}),
    )
    return cast("type[O]", made)
