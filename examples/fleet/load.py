"""What is sent, and what must come of it: pure. Readings are made from device and number, so both ends agree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from regrow import Payload

from .app import LIMIT, Reading, SetLimit

__all__ = ["Due", "Load", "device_id"]

COLD, SPAN = 20, 65
COMMANDED = 10
"""Every so many-th device is told another limit."""

LOWER = 60.0


def device_id(number: int) -> str:
    return f"device-{number:05}"


@dataclass(frozen=True)
class Due:
    """What a device's twin must say once all is applied."""

    readings: int = 0
    celsius: float = 0.0
    limit: float = LIMIT
    alarms: int = 0
    commands: int = 0


@dataclass(frozen=True)
class Load:
    """``rounds`` readings of each of ``devices`` devices; in the middle some are told a lower limit."""

    devices: int
    rounds: int

    @property
    def signals(self) -> int:
        return self.devices * self.rounds + len(range(0, self.devices, COMMANDED))

    def round(self, number: int) -> Iterator[tuple[str, Payload]]:
        """To whom, and what, from 1; the command comes before that round's reading."""
        for device in range(self.devices):
            if number == self._command_round and device % COMMANDED == 0:
                yield device_id(device), SetLimit(celsius=LOWER)
            yield device_id(device), Reading(n=number, celsius=celsius(device, number))

    def due(self, rounds: int) -> dict[str, Due]:
        """After so many rounds, for each device."""
        return {device_id(device): self._due(device, rounds) for device in range(self.devices)}

    @property
    def _command_round(self) -> int:
        return max(1, self.rounds // 2)

    def _due(self, device: int, rounds: int) -> Due:
        commanded = device % COMMANDED == 0 and rounds >= self._command_round
        alarms = 0
        for number in range(1, rounds + 1):
            limit = LOWER if commanded and number >= self._command_round else LIMIT
            alarms += celsius(device, number) > limit
        return Due(
            readings=rounds,
            celsius=celsius(device, rounds) if rounds else 0.0,
            limit=LOWER if commanded else LIMIT,
            alarms=alarms,
            commands=int(commanded),
        )


def celsius(device: int, number: int) -> float:
    """Between 20 and 85, and for each device another row."""
    return float(COLD + (device * 31 + number * 17) % (SPAN + 1))
