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
    max_descriptors: int = 1024
    """Most open descriptors of a worker: the spawner itself has more, one for each worker."""

    def to_message(self) -> Message:
        return {
            "application": self.application,
            "url": self.url,
            "namespace": self.namespace,
            "limits": asdict(self.limits),
            "settings": self.settings.to_json(),
            "kind": self.kind,
            "max_descriptors": self.max_descriptors,
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
            max_descriptors=message["max_descriptors"],
        )
