"""What a node is told at the door: plain values, checked together. Durations are seconds, as everywhere in Python."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Literal

from regrow_signals.errors import BadSetting
from regrow_workers.fail_points import life_of, step_of
from regrow_workers.purity import GuardMode

__all__ = ["FAIL_STEPS", "NodeSettings"]

FAIL_STEPS = ("before_claim", "before_read", "after_read", "in_handler", "before_commit", "after_commit")


def _processors() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """Settings of one node (``regrow worker``), handed down to its spawner and workers.

    ``fail_points`` is a seam for crash tests alone: ``{"after_read": 3}`` makes each worker whose incarnation is 1 kill
    itself (SIGKILL) when it reaches that step for the third time. Nobody sets it but a test's constructor call.
    """

    heartbeat: float = 1.0
    node_timeout: float = 3.0
    start_timeout: float = 10.0
    drain: float = 4.0
    deadline: float = 5.0
    shutdown: float = 5.0
    lower_after: float = 0.02
    """Seconds in one transition after which a worker's priority is lowered; 0: never."""
    read_count: int = 100
    read_block: float = 1.0
    check_every: int = 100
    """Every n-th transition it is checked that the handler did not change its input; 1: always, 0: never."""
    guard: GuardMode = "warn"
    """What happens where a handler is found impure; a child's and an agent type's own ``guard`` come first."""
    max_memory: int = 512 << 20
    """Most private memory of an agent's worker, bytes; a child's and a type's own come first."""
    max_processes: int = 16
    """Most processes that an agent's worker may start; likewise."""
    max_workers: int = 4096
    spares: int = 1
    """Processes kept ready for an agent, beside those that have one."""
    pool_slots: int = field(default_factory=_processors)
    """Slot processes for pooled agents, once there are any."""
    pool_extra_slots: int = 16
    """So many more at most, while slots are stuck in long transitions."""
    pool_claims: int = 32
    """Most pooled agents that a slot takes at once."""
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    log_format: Literal["text", "json"] = "text"
    log_level: str = "INFO"
    die_with_parent: bool = False
    fail_points: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        for name in ("heartbeat", "node_timeout", "start_timeout", "deadline", "read_block"):
            if getattr(self, name) <= 0:
                raise BadSetting(f"{name} must be more than 0 seconds, not {getattr(self, name)}")
        if self.max_memory < 1 or self.max_processes < 0:
            raise BadSetting(
                f"max_memory must be at least 1 byte, not {self.max_memory}; max_processes at least 0"
            )
        for name in ("drain", "shutdown", "lower_after"):
            if getattr(self, name) < 0:
                raise BadSetting(f"{name} must not be negative, not {getattr(self, name)}")
        if self.node_timeout < 2 * self.heartbeat:
            raise BadSetting(
                f"node_timeout ({self.node_timeout} s) must be at least twice heartbeat ({self.heartbeat} s), "
                "or one slow beat would declare a living node lost"
            )
        for name in ("read_count", "max_workers", "pool_slots", "pool_claims"):
            if getattr(self, name) < 1:
                raise BadSetting(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0 <= self.spares <= self.max_workers:
            raise BadSetting(f"spares must be from 0 to max_workers ({self.max_workers}), not {self.spares}")
        if self.pool_extra_slots < 0:
            raise BadSetting(f"pool_extra_slots must not be negative, not {self.pool_extra_slots}")
        unknown = sorted(
            point for point in self.fail_points if step_of(point) not in FAIL_STEPS or life_of(point) < 1
        )
        if unknown:
            raise BadSetting(f"fail_points: no step {unknown[0]!r}; there are {', '.join(FAIL_STEPS)}")

    def to_json(self) -> dict[str, Any]:
        """As plain JSON data, for the spawner."""
        plain = {name: getattr(self, name) for name in (each.name for each in fields(self))}
        return {**plain, "labels": dict(self.labels), "fail_points": dict(self.fail_points)}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> NodeSettings:
        return cls(**plain)
