"""Placement classes: what a node must offer to run a pooled agent, as a short text; and which run queues a slot serves.

    support                      any node that has the agent type
    support[disk=ssd,zone=a]     ... and these labels

An agent waits in the run queue of its class and of its stored state's schema, ``support@1``: a node with older code
does not look there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from urllib.parse import quote, unquote

__all__ = ["placement_class", "queues_of"]

_PLAIN = "._:/@ -"


def placement_class(agent_type: str, labels: Mapping[str, str]) -> str:
    """The class of a child that asks for ``labels``; a label with an empty value asks for its name alone."""
    if not labels:
        return agent_type
    words = [
        f"{_quoted(name)}={_quoted(value)}" if value else _quoted(name)
        for name, value in sorted(labels.items())
    ]
    return f"{agent_type}[{','.join(words)}]"


def queues_of(classes: Iterable[str], schemas: Mapping[str, int], labels: Mapping[str, str]) -> list[str]:
    """Run queues that a node serves with these agent types (name -> schema of its code) and labels."""
    offered = {*labels, *(f"{name}={value}" for name, value in labels.items())}
    return [
        f"{each}@{schema}" for each in classes for schema in range(1, _schema_for(each, schemas, offered) + 1)
    ]


def _schema_for(placement: str, schemas: Mapping[str, int], offered: Collection[str]) -> int:
    """Up to which schema the node can run this class; -1: not at all."""
    agent_type, bracket, rest = placement.partition("[")
    asked = [_label(word) for word in rest.removesuffix("]").split(",")] if bracket else []
    return schemas.get(agent_type, -1) if all(label in offered for label in asked) else -1


def _label(word: str) -> str:
    name, equals, value = word.partition("=")
    return f"{unquote(name)}={unquote(value)}" if equals else unquote(name)


def _quoted(text: str) -> str:
    return quote(text, safe=_PLAIN)
