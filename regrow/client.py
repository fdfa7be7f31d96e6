"""The two clients as users import them: made from the environment, and able to speak to supervisors.

The rooms below know signals; calls to supervisors take child specs, so they are added here. Both clients run the same
Ops (``regrow/control.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from regrow import control
from regrow.control import TIMEOUT, ChildCounts, ChildInfo, StartedChild
from regrow_signals import client
from regrow_signals.deletion import Deleted, delete_agent
from regrow_signals.durations import Duration
from regrow_signals.errors import BadSetting
from regrow_supervisor.spec import Supervisor
from regrow_workers.child_spec import ChildSpec

if TYPE_CHECKING:
    from regrow.settings import Settings

__all__ = ["AsyncClient", "Client", "server_url"]


class Client(client.Client):
    __doc__ = client.Client.__doc__

    @classmethod
    def from_env(cls, *, namespace: str | None = None) -> Self:
        """A client of the server that ``REDIS_URL`` names, else of the one that ``regrow up`` runs here.

        Raises BadSetting when there is neither, or when a setting is wrong. Connects at first use.
        """
        settings = _settings(namespace)
        return cls(server_url(settings), namespace=settings.namespace, limits=settings.limits)

    def __enter__(self) -> Self:
        return self

    def start_child(
        self, supervisor: str, spec: ChildSpec | Supervisor, *, timeout: Duration = TIMEOUT
    ) -> StartedChild:
        """Put a child under a running supervisor (its path: ``"helpdesk/chats"``) and start it.

        Returns when it runs, or waits for a node. Raises ``AlreadyStarted``, ``AlreadyPresent``, ``MaxChildren``,
        ``StartFailed`` (nothing stays on record), ``SupervisorNotFound``; ``FateUnknown`` when nobody answered in time.
        """
        return self.connection.run(control.start_child(self.keys, supervisor, spec, timeout=timeout))

    def terminate_child(self, supervisor: str, child: str, *, timeout: Duration = TIMEOUT) -> None:
        """Stop a child; returns when it has ended. It stays on record (not a temporary one, nor a dynamic child).

        As in OTP a group restart may bring it back: ``regrow stop`` is what keeps a child down. ``ChildNotFound``.
        """
        self.connection.run(
            control.child_call(self.keys, "terminate_child", supervisor, child, timeout=timeout)
        )

    def restart_child(self, supervisor: str, child: str, *, timeout: Duration = TIMEOUT) -> StartedChild:
        """Start a child that was terminated. ``ChildNotFound``, ``StillRunning``, ``StillRestarting``."""
        return self.connection.run(control.restart_child(self.keys, supervisor, child, timeout=timeout))

    def delete_child(self, supervisor: str, child: str, *, timeout: Duration = TIMEOUT) -> None:
        """Forget the spec of a child that does not run; its agent stays registered, with state and mailbox."""
        self.connection.run(control.child_call(self.keys, "delete_child", supervisor, child, timeout=timeout))

    def which_children(self, supervisor: str, *, timeout: Duration = TIMEOUT) -> list[ChildInfo]:
        """Every child, the one started last first."""
        return self.connection.run(control.which_children(self.keys, supervisor, timeout=timeout))

    def count_children(self, supervisor: str, *, timeout: Duration = TIMEOUT) -> ChildCounts:
        """How many specs, living children, supervisors, workers."""
        return self.connection.run(control.count_children(self.keys, supervisor, timeout=timeout))

    def delete(self, agent: str, *, force: bool = False) -> Deleted:
        """Forget an agent that no supervisor has on record any more: state, mailbox, dead letters, all.

        ``Refused`` while it is on record or may run; without ``force`` also while it has signals, letters or effects.
        """
        return self.connection.run(delete_agent(self.keys, self._calls.limits, agent, force=force))


class AsyncClient(client.AsyncClient):
    __doc__ = client.AsyncClient.__doc__

    @classmethod
    def from_env(cls, *, namespace: str | None = None) -> Self:
        """As ``Client.from_env``."""
        settings = _settings(namespace)
        return cls(server_url(settings), namespace=settings.namespace, limits=settings.limits)

    async def __aenter__(self) -> Self:
        return self

    async def start_child(
        self, supervisor: str, spec: ChildSpec | Supervisor, *, timeout: Duration = TIMEOUT
    ) -> StartedChild:
        """As ``Client.start_child``."""
        return await self.connection.run(control.start_child(self.keys, supervisor, spec, timeout=timeout))

    async def terminate_child(self, supervisor: str, child: str, *, timeout: Duration = TIMEOUT) -> None:
        """As ``Client.terminate_child``."""
        await self.connection.run(
            control.child_call(self.keys, "terminate_child", supervisor, child, timeout=timeout)
        )

    async def restart_child(
        self, supervisor: str, child: str, *, timeout: Duration = TIMEOUT
    ) -> StartedChild:
        """As ``Client.restart_child``."""
        return await self.connection.run(control.restart_child(self.keys, supervisor, child, timeout=timeout))

    async def delete_child(self, supervisor: str, child: str, *, timeout: Duration = TIMEOUT) -> None:
        """As ``Client.delete_child``."""
        await self.connection.run(
            control.child_call(self.keys, "delete_child", supervisor, child, timeout=timeout)
        )

    async def which_children(self, supervisor: str, *, timeout: Duration = TIMEOUT) -> list[ChildInfo]:
        """As ``Client.which_children``."""
        return await self.connection.run(control.which_children(self.keys, supervisor, timeout=timeout))

    async def count_children(self, supervisor: str, *, timeout: Duration = TIMEOUT) -> ChildCounts:
        """As ``Client.count_children``."""
        return await self.connection.run(control.count_children(self.keys, supervisor, timeout=timeout))

    async def delete(self, agent: str, *, force: bool = False) -> Deleted:
        """As ``Client.delete``."""
        return await self.connection.run(delete_agent(self.keys, self._calls.limits, agent, force=force))


def _settings(namespace: str | None) -> Settings:
    # Large: a worker imports regrow and never reads settings.
    from regrow.settings import load_settings

    return load_settings(namespace=namespace)


def server_url(settings: Settings) -> str:
    """``REDIS_URL``, else the embedded server that ``regrow up`` runs for this namespace, else BadSetting."""
    if settings.redis_url:
        return settings.redis_url
    from regrow.embedded_redis import running  # as below

    found = running(settings.state_folder)
    if found is None:
        raise BadSetting(
            f"REDIS_URL is not set and no embedded server runs for namespace {settings.namespace!r}: "
            "set REDIS_URL, or start one with `regrow up`"
        )
    return found.url
