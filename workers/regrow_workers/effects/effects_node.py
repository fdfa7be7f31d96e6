"""``regrow effects``: a node whose processes are executors. It joins, beats, drains and leaves as every node does.

``Node`` is the loop. What differs: an ``ExecutorRoster`` keeps the executors at their number and gives back what a dead
one held, and a ``Ringer`` turns due effects into doorbells of RQ. One of the executors, if the application has effects
that are an ``async def``, runs an event loop, and rings for itself.
"""

from __future__ import annotations

from regrow_signals.errors import BadSetting
from regrow_signals.limits import Limits
from regrow_signals.server_url import connection_options
from regrow_workers.effects.executor_roster import ExecutorRoster
from regrow_workers.effects.ringer import Ringer
from regrow_workers.effects.rq_doorbell import Bells
from regrow_workers.node import Node
from regrow_workers.node_parts import NodeHelper, NodeRoster
from regrow_workers.os_signals import die_with_parent
from regrow_workers.settings import NodeSettings

__all__ = ["run_effects"]


def run_effects(
    settings: NodeSettings,
    *,
    url: str,
    rq_url: str,
    namespace: str,
    application: str,
    limits: Limits | None = None,
    executors: int = 4,
    async_calls: int = 1000,
    version: str = "",
) -> int:
    """Run an effects node until it is told to end; returns the process's exit code. Main thread only."""
    if not 1 <= executors <= settings.max_workers:
        raise BadSetting(f"executors must be from 1 to {settings.max_workers}, not {executors}")
    if async_calls != 0 and not 2 <= async_calls <= 100_000:
        raise BadSetting(f"async calls must be 0 (none here) or from 2 to 100,000, not {async_calls}")
    connection_options(rq_url)
    if settings.die_with_parent:
        die_with_parent()
    node = EffectsNode(
        settings,
        url=url,
        rq_url=rq_url,
        namespace=namespace,
        application=application,
        limits=limits,
        executors=executors,
        async_calls=async_calls,
        version=version,
    )
    return node.run()


class EffectsNode(Node):
    """A node of kind ``effects``."""

    kind = "effects"

    def __init__(
        self,
        settings: NodeSettings,
        *,
        url: str,
        rq_url: str,
        namespace: str,
        application: str,
        limits: Limits | None,
        executors: int,
        async_calls: int,
        version: str,
    ) -> None:
        self._rq_url = rq_url
        self._namespace = namespace
        self._executors = executors
        self._async_calls = async_calls
        super().__init__(
            settings, url=url, namespace=namespace, application=application, limits=limits, version=version
        )

    def _make_roster(self) -> NodeRoster:
        return ExecutorRoster(
            self._settings,
            self._keys,
            self._limits,
            self._reporter.hand_in,
            wanted=self._executors,
            async_calls=self._async_calls,
            rq_url=self._rq_url,
        )

    def _make_helper(self) -> NodeHelper:
        return Ringer(
            self._opener("ringer"),
            lambda: Bells(self._rq_url, self._namespace),
            self._keys,
            self._executors,
        )
