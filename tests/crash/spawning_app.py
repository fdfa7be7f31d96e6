"""A parent that spawns children and writes down what it is told of them; for the tests of families over processes."""

from __future__ import annotations

from regrow import (
    Agent,
    AgentDown,
    AgentOrphaned,
    ChildExit,
    ChildStarted,
    Context,
    Emit,
    Monitor,
    Payload,
    Signal,
    Spawn,
    State,
    Step,
    Stop,
    StopChild,
    Supervisor,
    handles,
)

__all__ = ["Boss", "Hire", "Hired", "Job", "Worker", "tree"]


class Hire(Payload, type="hire"):
    """Spawn a child with this tag and give it its first job, in one step."""

    tag: str
    on_parent_death: str = "stop"


class Job(Payload, type="job"):
    n: int


class Hired(State):
    hired: tuple[str, ...] = ()
    told: tuple[str, ...] = ()


class Jobs(State):
    done: tuple[int, ...] = ()
    orphan: bool = False


class Worker(Agent[Jobs], name="family-storm-worker"):
    @handles(Job)
    def job(self, jobs: Jobs, job: Job) -> Step[Jobs]:
        return jobs.evolve(done=(*jobs.done, job.n))

    @handles(AgentOrphaned)
    def orphaned(self, jobs: Jobs, orphaned: AgentOrphaned, ctx: Context) -> Step[Jobs]:
        return jobs.evolve(orphan=ctx.parent is None)


class Boss(Agent[Hired], name="family-storm-boss"):
    @handles(Hire)
    def hire(self, hired: Hired, hire: Hire, ctx: Context) -> Step[Hired]:
        id_ = f"{ctx.agent_id}/{hire.tag}"
        spec = Worker.child(id_, restart="transient", max_restarts=100_000, max_seconds=1)
        spawn = Spawn(spec, tag=hire.tag, on_parent_death=hire.on_parent_death)  # type: ignore[arg-type]
        return hired.evolve(hired=(*hired.hired, hire.tag)), [spawn, Emit(Job(n=1), to=id_)]

    @handles("fire")
    def fire(self, hired: Hired, signal: Signal) -> Step[Hired]:
        return StopChild(str(signal.value), reason="fired")

    @handles("watch")
    def watch(self, hired: Hired, signal: Signal) -> Step[Hired]:
        return Monitor(str(signal.value))

    @handles("retire")
    def retire(self, hired: Hired, signal: Signal) -> Step[Hired]:
        return Stop()

    @handles(ChildStarted)
    def started(self, hired: Hired, child: ChildStarted) -> Step[Hired]:
        return self._note(hired, f"+{child.tag}#{child.incarnation}")

    @handles(ChildExit)
    def exited(self, hired: Hired, child: ChildExit) -> Step[Hired]:
        return self._note(hired, f"-{child.tag}#{child.incarnation}{'' if child.will_restart else ' gone'}")

    @handles(AgentDown)
    def down(self, hired: Hired, down: AgentDown) -> Step[Hired]:
        return self._note(hired, f"down {down.id} {down.reason}")

    def _note(self, hired: Hired, line: str) -> Hired:
        return hired.evolve(told=(*hired.told, line))


tree = Supervisor(
    "stage",
    [
        Boss.child(boss, restart="transient", max_attempts=100_000, max_kills=100_000)
        for boss in ("stormy", "gap", "ended", "watching")
    ],
    agents=[Worker],
    max_restarts=100_000,
    max_seconds=1,
)
