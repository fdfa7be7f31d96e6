"""The user's application: ``"module:attribute"`` loaded once, its agent types and effects found by name."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

from regrow_signals.errors import ApplicationError, BadDefinition
from regrow_workers.agent import Agent
from regrow_workers.child_spec import SupervisorLike
from regrow_workers.effects.effect import Effect, registered_effects
from regrow_workers.tracebacks import exception_line, exception_place
from regrow_workers.validation import did_you_mean

__all__ = ["Application", "load", "on_worker_start", "types_by_name"]

WorkerStart = Callable[[], object]
F = TypeVar("F", bound=WorkerStart)

_on_worker_start: list[WorkerStart] = []


@dataclass(frozen=True, slots=True)
class Application:
    """What a process needs of the user's code. ``agent_types`` has every name and every alias."""

    name: str
    """As it was asked for, ``module:attribute``."""
    tree: SupervisorLike
    agent_types: Mapping[str, type[Agent[Any]]]
    effects: Mapping[str, Effect[..., Any]]
    on_worker_start: Sequence[WorkerStart]


def on_worker_start(function: F) -> F:
    """Have a function called in each worker process after its fork: open what must not be shared."""
    _on_worker_start.append(function)
    return function


def load(target: str) -> Application:
    """Import the module and find the tree. ``ApplicationError`` says in a line what is missing and where."""
    module_name, colon, attribute = target.partition(":")
    if (
        not colon
        or not module_name
        or not attribute
        or not all(map(str.isidentifier, module_name.split(".")))
    ):
        raise ApplicationError(
            f'{target!r} names no application; write "module:attribute", such as helpdesk:tree'
        )
    tree = _attribute(_imported(module_name), module_name, attribute)
    if not _is_tree(tree):
        shown = f"the class {tree.__name__}" if isinstance(tree, type) else f"a {type(tree).__name__}"
        raise ApplicationError(f"{target}: {shown} is no tree; it must be a Supervisor(...)")
    return Application(
        name=target,
        tree=tree,
        agent_types=types_by_name(tree.agent_types().values()),
        effects=registered_effects(),
        on_worker_start=tuple(_on_worker_start),
    )


def types_by_name(kinds: Iterable[type[Agent[Any]]]) -> dict[str, type[Agent[Any]]]:
    """Agent types by name and alias. ``BadDefinition`` where two answer to one name."""
    found: dict[str, type[Agent[Any]]] = {}
    for kind in kinds:
        definition = kind.defined()
        for name in (definition.name, *definition.aliases):
            other = found.setdefault(name, kind)
            if other is not kind:
                raise BadDefinition(
                    f"agent types {_place(other)} and {_place(kind)} both answer to {name!r}; give one another name"
                )
    return found


def _imported(name: str) -> object:
    here = str(Path.cwd())
    if here not in sys.path:
        # As `python -m` does: the command's own folder is where people keep their module.
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ApplicationError(f"no module {error.name!r} in {here} or on the Python path") from error
        raise ApplicationError(
            f"importing {name} failed: {exception_line(error)}{exception_place(error)}"
        ) from error
    except Exception as error:
        raise ApplicationError(
            f"importing {name} failed: {exception_line(error)}{exception_place(error)}"
        ) from error
    except SystemExit as error:
        raise ApplicationError(f"importing {name} ended the process: SystemExit({error.code!r})") from error


def _attribute(module: object, module_name: str, attribute: str) -> object:
    found = module
    for name in attribute.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            known = {key: None for key in vars(module) if not key.startswith("_")}
            trees = {key: None for key in known if _is_tree(getattr(module, key))}
            raise ApplicationError(
                f"module {module_name} has no attribute {name!r}{did_you_mean(name, trees or known)}"
            ) from None
    return found


def _is_tree(value: object) -> TypeGuard[SupervisorLike]:
    return not isinstance(value, type) and isinstance(value, SupervisorLike)


def _place(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
