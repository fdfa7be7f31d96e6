"""``send(..., create=Support.child(under="helpdesk/chats"))``: the spec as what the store needs, checked beforehand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from regrow_signals.creation import Creation
from regrow_signals.errors import BadInput, TooLarge
from regrow_signals.limits import Limits
from regrow_supervisor.definition import SpecError, full_child
from regrow_supervisor.requests import MAX_SPEC_CHARS
from regrow_supervisor.spec import child_definition
from regrow_workers.child_spec import ChildSpec
from regrow_workers.state import encode_state
from regrow_workers.stored_child import InitialState, register_agent

__all__ = ["creation"]

_DYNAMIC: Final = {"strategy": "dynamic"}


def creation(agent: str, spec: ChildSpec, limits: Limits) -> Creation:
    """What makes ``agent`` where it is not there yet. ``BadInput`` kinds name what no supervisor would take."""
    if not isinstance(cast("object", spec), ChildSpec) or not spec.under:
        raise BadInput(
            f"create: {spec!r:.200} does not say under which supervisor; give YourAgent.child(under='its/path')"
        )
    child = spec.named(agent)
    stored = child_definition(child)
    try:
        full_child(stored, _DYNAMIC)
    except SpecError as error:
        raise BadInput(f"create: agent {agent} cannot be a child of {spec.under}: {error}") from None
    record = register_agent(agent, spec.under, stored, _initial(child, limits))
    text = json.dumps(stored)
    if len(text) > MAX_SPEC_CHARS:
        raise TooLarge(
            f"create: the spec of {agent} has {len(text)} characters, {MAX_SPEC_CHARS} is the bound"
        )
    return Creation(record, text)


def _initial(child: ChildSpec, limits: Limits) -> InitialState:
    """How the state begins: by the sender's class, which is at hand."""

    def initial(type_name: str, init: Mapping[str, Any]) -> tuple[str, int]:
        del type_name  # of the class that is at hand
        if child.agent is None:
            raise BadInput("create: a send creates an agent, not a supervisor")
        state = child.agent.initial_state(dict(init))
        return encode_state(state, max_bytes=limits.max_state_bytes), child.agent.definition.schema

    return initial
