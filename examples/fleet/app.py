"""The tree: a dynamic supervisor of devices, and who hears of their alarms. ``regrow up examples.fleet.app:tree``.

A device is a pooled agent that is made by the first message to it: idle, it costs its keys in Redis and nothing else.
"""

from __future__ import annotations

from regrow import Agent, Context, Emit, Payload, State, Step, Supervisor, handles

__all__ = [
    "DEVICE",
    "LIMIT",
    "Device",
    "Overheated",
    "Reading",
    "SetLimit",
    "Twin",
    "Operations",
    "Seen",
    "tree",
]

LIMIT = 80.0
"""Degrees above which a device raises an alarm, until it is told another limit."""


class Reading(Payload, type="device.reading"):
    """Telemetry: the ``n``-th reading of a device."""

    n: int
    celsius: float


class SetLimit(Payload, type="device.set_limit"):
    """A command: from now on the alarm is at so many degrees."""

    celsius: float


class Overheated(Payload, type="device.overheated"):
    """An alarm."""

    n: int
    celsius: float


class Twin(State):
    """What is known of one device. ``misplaced`` counts readings that did not follow the one before."""

    readings: int = 0
    last: int = 0
    misplaced: int = 0
    celsius: float = 0.0
    limit: float = LIMIT
    alarms: int = 0
    commands: int = 0


class Device(Agent[Twin], name="device"):
    @handles(Reading)
    def reading(self, twin: Twin, reading: Reading) -> Step[Twin]:
        hot = reading.celsius > twin.limit
        twin = twin.evolve(
            readings=twin.readings + 1,
            last=reading.n,
            misplaced=twin.misplaced + (reading.n != twin.last + 1),
            celsius=reading.celsius,
            alarms=twin.alarms + hot,
        )
        if not hot:
            return twin
        return twin, Emit(Overheated(n=reading.n, celsius=reading.celsius), to="operations")

    @handles(SetLimit)
    def set_limit(self, twin: Twin, command: SetLimit) -> Step[Twin]:
        return twin.evolve(limit=command.celsius, commands=twin.commands + 1)


class Seen(State):
    """Alarms of all devices, and the last one."""

    alarms: int = 0
    device: str = ""
    celsius: float = 0.0


class Operations(Agent[Seen], name="operations"):
    """In a process of its own: one word moves an agent between the two."""

    @handles(Overheated)
    def overheated(self, seen: Seen, alarm: Overheated, ctx: Context) -> Step[Seen]:
        return seen.evolve(alarms=seen.alarms + 1, device=ctx.signal.source, celsius=alarm.celsius)


DEVICE = Device.child(under="fleet/devices", isolation="pool")
"""What the first message to a device makes."""

tree = Supervisor(
    "fleet",
    [
        Operations.child("operations"),
        Supervisor("devices", strategy="dynamic", agents=[Device]),
    ],
)
