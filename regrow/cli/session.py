"""What a command needs: settings, the server's URL, a connection, a client. Made when first asked for."""

from __future__ import annotations

from functools import cached_property

from regrow.client import Client, server_url
from regrow.settings import Settings, load_settings
from regrow_signals.connection import Connection
from regrow_signals.errors import BadSetting
from regrow_signals.keys import Keys
from regrow_workers import log

__all__ = ["Session"]


class Session:
    """One command's view of the system. Nothing is read, opened or asked before a command uses it."""

    def __init__(self, *, namespace: str | None, redis_url: str | None) -> None:
        self._given = {"namespace": namespace, "redis_url": redis_url}

    @cached_property
    def settings(self) -> Settings:
        """Settings from the command line, the environment and the defaults, in this order."""
        return load_settings(**self._given)

    @cached_property
    def url(self) -> str:
        """The server: ``REDIS_URL``, else the embedded one that ``regrow up`` runs for this namespace."""
        return server_url(self.settings)

    def service_url(self) -> str:
        """The server of a long-lived process: always named, since a service must not guess. Sets its log up, too."""
        log.configure(self.settings.log_format, self.settings.log_level)
        if not self.settings.redis_url:
            raise BadSetting(
                "REDIS_URL is not set: this process serves a system and must be told which "
                "(`regrow up` brings its own server)"
            )
        return self.settings.redis_url

    @cached_property
    def keys(self) -> Keys:
        """The key names of the namespace."""
        return Keys(self.settings.namespace)

    @cached_property
    def connection(self) -> Connection:
        """A connection of this command's own."""
        return Connection.open(self.url, name="regrow-cli")

    @cached_property
    def client(self) -> Client:
        """A client of this command's own."""
        return Client(self.url, namespace=self.settings.namespace, limits=self.settings.limits)

    def close(self) -> None:
        """Drop what was opened."""
        for opened in ("connection", "client"):
            if opened in self.__dict__:  # a cached property that was asked for
                self.__dict__[opened].close()
