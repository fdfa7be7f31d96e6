"""Key names: one hash tag, no two ids in one key, each kind documented."""

from __future__ import annotations

import inspect
import itertools

import pytest

from regrow_signals.errors import BadNamespace
from regrow_signals.keys import KEY_TABLE, Keys

METHODS = [
    name
    for name, _ in inspect.getmembers(Keys, inspect.isfunction)
    if not name.startswith("_") and name != "kind"
]
SINGLE = [
    "agents",
    "nodes",
    "exits",
    "supervisors",
    "leader",
    "held",
    "counters",
    "events",
    "effects",
    "effects_async",
    "cancelling",
    "limits",
    "buckets",
    "bell",
    "bell_async",
    "subscriptions",
    "wildcards",
    "timers",
    "timer_bell",
    "classes",
    "class_bell",
]


def test_all_keys_share_the_namespaces_hash_tag() -> None:
    keys = Keys("shop")
    built = [getattr(keys, name)("x") for name in METHODS] + [getattr(keys, name) for name in SINGLE]
    assert all(key.startswith("{shop}:") for key in built)


def test_no_two_kinds_or_ids_share_a_key() -> None:
    keys = Keys()
    ids = ["a", "a:old", "old:a", "a:b", "agent:a", "s"]
    built = [getattr(keys, name)(agent) for name, agent in itertools.product(METHODS, ids)]
    built += [getattr(keys, name) for name in SINGLE]
    assert len(set(built)) == len(built)


def test_every_key_has_a_documented_kind() -> None:
    keys = Keys()
    kinds = {keys.kind(getattr(keys, name)("a:b")) for name in METHODS} | {
        keys.kind(getattr(keys, name)) for name in SINGLE
    }
    assert kinds == set(KEY_TABLE)


def test_strangers_keys_have_no_kind() -> None:
    keys = Keys()
    assert keys.kind("other") is None
    assert keys.kind("{other}:agent:a") is None
    assert keys.kind("{regrow}:nonsense:a") is None


def test_namespace_is_checked() -> None:
    with pytest.raises(BadNamespace):
        Keys("a}b")
