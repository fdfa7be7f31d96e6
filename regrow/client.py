"""The two clients as users import them: made from the environment, as every process of regrow is."""

from __future__ import annotations

from typing import Self

from regrow.embedded_redis import running
from regrow.settings import Settings, load_settings
from regrow_signals import client
from regrow_signals.errors import BadSetting

__all__ = ["AsyncClient", "Client", "server_url"]


class Client(client.Client):
    __doc__ = client.Client.__doc__

    @classmethod
    def from_env(cls, *, namespace: str | None = None) -> Self:
        """A client of the server that ``REDIS_URL`` names, else of the one that ``regrow up`` runs here.

        Raises BadSetting when there is neither, or when a setting is wrong. Connects at first use.
        """
        settings = load_settings(namespace=namespace)
        return cls(server_url(settings), namespace=settings.namespace, limits=settings.limits)

    def __enter__(self) -> Self:
        return self


class AsyncClient(client.AsyncClient):
    __doc__ = client.AsyncClient.__doc__

    @classmethod
    def from_env(cls, *, namespace: str | None = None) -> Self:
        """As ``Client.from_env``."""
        settings = load_settings(namespace=namespace)
        return cls(server_url(settings), namespace=settings.namespace, limits=settings.limits)

    async def __aenter__(self) -> Self:
        return self


def server_url(settings: Settings) -> str:
    """``REDIS_URL``, else the embedded server that ``regrow up`` runs for this namespace, else BadSetting."""
    if settings.redis_url:
        return settings.redis_url
    found = running(settings.state_folder)
    if found is None:
        raise BadSetting(
            f"REDIS_URL is not set and no embedded server runs for namespace {settings.namespace!r}: "
            "set REDIS_URL, or start one with `regrow up`"
        )
    return found.url
