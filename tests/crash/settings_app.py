"""An agent whose spec says nothing of its bounds: the settings' count."""

from __future__ import annotations

from regrow import Agent, Payload, State, Step, Supervisor, handles


class Note(Payload, type="settings.note"):
    n: int


class Spin(Payload, type="settings.spin"):
    pass


class Notes(State):
    numbers: tuple[int, ...] = ()


class Keeper(Agent[Notes], name="keeper"):
    @handles(Note)
    def note(self, notes: Notes, note: Note) -> Step[Notes]:
        return notes.evolve(numbers=(*notes.numbers, note.n))

    @handles(Spin)
    def spin(self, notes: Notes, _spin: Spin) -> Step[Notes]:
        while True:
            pass


tree = Supervisor("plain", [Keeper.child("a")], max_restarts=100, max_seconds=5)
