"""What all processes of a spawner are told, and how it is handed down."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from regrow_signals.limits import Limits
from regrow_workers.settings import NodeSettings
from regrow_workers.spawner_link import Message

__all__ = ["WorkerConfig"]


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """What all workers of a spawner are told."""

    application: str
    url: str
    namespace: str
    limits: Limits
    settings: NodeSettings
    kind: str = "worker"
    """Of the node: ``effects`` has executors instead of agents' workers."""

    def to_message(self) -> Message:
        return {
            "application": self.application,
            "url": self.url,
            "namespace": self.namespace,
            "limits": asdict(self.limits),
            "settings": self.settings.to_json(),
            "kind": self.kind,
        }

    @classmethod
    def from_message(cls, message: Message) -> WorkerConfig:
        return cls(
            application=message["application"],
            url=message["url"],
            namespace=message["namespace"],
            limits=Limits(**message["limits"]),
            settings=NodeSettings.from_json(message["settings"]),
            kind=message["kind"],
        )
