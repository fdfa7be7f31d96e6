"""``EffectExecutor`` as users import it: made from the environment as well."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from regrow import client
from regrow_workers.effects import own_executor
from regrow_workers.effects.effect import Effect

__all__ = ["EffectExecutor"]


class EffectExecutor(own_executor.EffectExecutor):
    __doc__ = own_executor.EffectExecutor.__doc__

    @classmethod
    def from_env(
        cls,
        *,
        namespace: str | None = None,
        effects: Iterable[Effect[..., Any]] | None = None,
        name: str = "own",
    ) -> Self:
        """At the server that ``REDIS_URL`` names, else at the one that ``regrow up`` runs here.

        Raises ``BadSetting`` when there is neither, or when a setting is wrong.
        """
        from regrow.settings import load_settings  # large: a worker imports regrow and never reads settings

        settings = load_settings(namespace=namespace)
        return cls(
            client.server_url(settings),
            namespace=settings.namespace,
            effects=effects,
            name=name,
            limits=settings.limits,
        )
