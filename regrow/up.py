"""Everything on one machine: an embedded Redis (unless one is named) and the four services as child processes."""

from __future__ import annotations

import contextlib
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, TracebackType

from regrow.child_environment import child_environment
from regrow.child_process import ChildProcess
from regrow.embedded_redis import EmbeddedRedis, running
from regrow.settings import Settings, variable_of
from regrow_signals.errors import ApplicationError, StoreError
from regrow_signals.server_url import mask_url
from regrow_workers.first_process import is_first_process, reap_orphans
from regrow_workers.os_signals import TOLD_TO_END, WRAPPER_ENDED, install

__all__ = ["SERVICES", "Stack", "run_up"]

#: In the order of their start; they are ended in the reverse.
SERVICES = ("watchdog", "worker", "effects", "metrics")

_GIVE_UP_CODES = (2, 78)  # wrong input, application cannot be loaded: a restart would only say it again
_UNLOADABLE = 78
_LOAD = f"""
import sys
from regrow_signals.errors import RegrowError
from regrow_workers.application import load
try:
    load(sys.argv[1])
except RegrowError as error:
    print(" ".join(str(error).split()), file=sys.stderr)
    sys.exit({_UNLOADABLE})
"""
_DISPENSABLE = ("metrics",)  # its port may be taken: the work goes on without it, and says so
_LOOK_SECONDS = 0.2
HURRY_SECONDS = 1.5
TWICE_SECONDS = 0.2  # some launchers send one signal twice at the same time
_SERVER_LOOK_SECONDS = 1.0

Output = Callable[[str, str], None]


def _silent(_name: str, _line: str) -> None:
    """Lines go nowhere."""


class Stack:
    """The server and its services, tended by one thread of this process from ``start`` to ``stop``.

    A service that dies is started again after a pause that doubles up to 10 s. Should this process be killed, the
    kernel ends the children: with SIGKILL when their server goes at the same time, else with SIGTERM, so that a node
    hands its agents over. ``output(name, line)`` gets every line; it is called from that thread. ``command`` gives the
    words that start a service, where they are not ``python -m regrow NAME``.
    """

    def __init__(
        self,
        application: str,
        *,
        settings: Settings,
        output: Output = _silent,
        services: Sequence[str] = SERVICES,
        environment: Mapping[str, str] | None = None,
        command: Callable[[str], Sequence[str]] | None = None,
    ) -> None:
        self.application = application
        self.settings = settings
        self.exit_code: int | None = None
        """Set when a service ended with a code that no restart can help; the stack is then ending."""
        self.url = settings.redis_url
        self.server = (
            None
            if settings.redis_url
            else EmbeddedRedis(settings.state_folder, program=settings.redis_server)
        )
        self._output = output
        self._names = tuple(services)
        self._extra = dict(environment or {})
        self._command = command or self._service_command
        self._children: list[ChildProcess] = []
        self._ending = threading.Event()
        self._hurry = threading.Event()
        self._thread: threading.Thread | None = None
        self._server_looked_at = 0.0

    def start(self) -> None:
        """Returns when the server answers and every service has been started. Raises StoreError, and leaves nothing."""
        if self._thread is not None:
            return
        if self.server is not None:
            self.url = self.server.start().url
        self._ending.clear()
        self._hurry.clear()
        self.exit_code = None
        self._children = [self._child(name) for name in self._names]
        started = threading.Event()
        self._thread = threading.Thread(target=self._tend, args=(started,), name="regrow-up", daemon=True)
        self._thread.start()
        started.wait()

    def stop(self, *, hurry: bool = False) -> None:
        """Services in reverse order: SIGTERM, SIGKILL when time is up (``hurry``: in a moment); then the server."""
        self._ending.set()
        if hurry:
            self._hurry.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self.server is not None:
            self.server.stop()

    def hurry(self) -> None:
        """Let ``stop``, already under way, wait for nobody longer than a moment. Safe in a signal handler."""
        self._hurry.set()

    def wait(self, timeout: float) -> bool:
        """True once the stack ends by itself (``exit_code`` says why); False after ``timeout``."""
        return self._ending.wait(timeout)

    def processes(self) -> dict[str, int]:
        """The pids of what runs now, by name; ``redis`` is the embedded server, if it is ours."""
        found = {child.name: pid for child in self._children if (pid := child.pid) is not None}
        if self.server is not None and (pid := self.server.pid) is not None:
            found["redis"] = pid
        return found

    def __enter__(self) -> Stack:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- the thread

    def _child(self, name: str) -> ChildProcess:
        environment = child_environment(self.url, self.settings.namespace, self._extra)
        death_signal = signal.SIGTERM if self.server is None else signal.SIGKILL
        return ChildProcess(name, self._command(name), environment, death_signal)

    def _service_command(self, name: str) -> Sequence[str]:
        words = [sys.executable, "-m", "regrow", name]
        return words if name == "metrics" else [*words, self.application]

    def _tend(self, started: threading.Event) -> None:
        try:
            for child in self._children:
                child.start()
            started.set()
            while not self._ending.is_set():
                self._pass_lines_on()
                self._look_at_server()
                for child in self._children:
                    self._look_at(child)
                if is_first_process():
                    reap_orphans(self.processes().values())
        except Exception as error:  # noqa: BLE001  # whatever it is, the children must not be left behind
            self._output("up", f"ending: {type(error).__name__}: {error}")
            self.exit_code = 1
        finally:
            self._ending.set()
            started.set()
            for child in reversed(self._children):
                self._end(child)

    def _pass_lines_on(self) -> None:
        """Waits for output, a short while at most."""
        with selectors.DefaultSelector() as selector:
            for child in self._children:
                if child.output >= 0:
                    selector.register(child.output, selectors.EVENT_READ, child)
            if not selector.get_map():
                self._ending.wait(_LOOK_SECONDS)
            for key, _ in selector.select(_LOOK_SECONDS):
                self._emit(key.data)

    def _emit(self, child: ChildProcess, *, last: bool = False) -> None:
        for line in child.take_lines(last=last):
            self._output(child.name, line)

    def _look_at(self, child: ChildProcess) -> None:
        if child.pid is None:
            if time.monotonic() >= child.due:
                child.start()
            return
        code = child.died()
        if code is None:
            return
        self._emit(child, last=True)
        if code in _GIVE_UP_CODES and child.name not in _DISPENSABLE:
            self._output(
                "up", f"{child.name} ended with code {code}: nothing that a restart could mend, ending"
            )
            self.exit_code = code
            self._ending.set()
            return
        how = f"code {code}" if code >= 0 else signal.Signals(-code).name
        self._output(
            "up", f"{child.name} ended ({how}), starting it again in {child.due - time.monotonic():.1f} s"
        )

    def _look_at_server(self) -> None:
        """A server of ours that died, or another's that we shared and that is gone, is started (again)."""
        now = time.monotonic()
        if self.server is None or now - self._server_looked_at < _SERVER_LOOK_SECONDS:
            return
        self._server_looked_at = now
        if self.server.alive or (self.server.shared and running(self.server.folder) is not None):
            return
        self._output("up", "the embedded Redis is gone, starting it again")
        try:
            self.server.stop()
            self.server.start()
        except StoreError as error:
            self._output("up", f"{error}")

    def _end(self, child: ChildProcess) -> None:
        """SIGTERM, and once more in a hurry (a node then hands back at once what it holds); SIGKILL in the end."""
        child.send(signal.SIGTERM)
        deadline = time.monotonic() + max(self.settings.drain, self.settings.shutdown) + 2.0
        hurried = killed = False
        while child.pid is not None:
            if not hurried and self._hurry.is_set():
                hurried = True
                deadline = min(deadline, time.monotonic() + HURRY_SECONDS)
                child.send(signal.SIGTERM)
            if not killed and time.monotonic() > deadline:
                killed = True
                self._output("up", f"{child.name} did not end in time: killed")
                child.send(signal.SIGKILL)
            if child.died() is None:
                time.sleep(0.01)
            self._emit(child)
        self._emit(child, last=True)


def run_up(application: str, settings: Settings) -> int:
    """``regrow up``: until SIGINT, SIGTERM or SIGHUP; a second one hurries. Returns the exit code.

    An application that cannot be loaded is said in one line before anything is started (``ApplicationError``).
    """
    printer = _Printer(SERVICES)
    # Run by hand, while an application is written: every handler is watched, where a service takes samples.
    watched = {
        variable_of(name): strictly
        for name, strictly in {"check_every": "1", "guard": "enforce"}.items()
        if name not in settings.model_fields_set
    }
    stack = Stack(application, settings=settings, output=printer, environment=watched)
    asked = threading.Event()
    asked_at = 0.0

    def handle(number: int, frame: FrameType | None) -> None:
        del frame
        nonlocal asked_at
        if not asked.is_set():
            asked_at = time.monotonic()
        elif number != WRAPPER_ENDED and time.monotonic() - asked_at > TWICE_SECONDS:
            stack.hurry()
        asked.set()

    before = {number: signal.getsignal(number) for number in TOLD_TO_END}
    install(TOLD_TO_END, handle)
    try:
        if check_application(application, asked.is_set):
            stack.start()
            _tell(stack, printer)
        while not asked.is_set() and not stack.wait(_LOOK_SECONDS):
            pass
        printer("up", "ending")
    finally:
        stack.stop()
        for number, handler in before.items():
            signal.signal(number, handler)
    return stack.exit_code or 0


def check_application(application: str, stop: Callable[[], bool] = lambda: False) -> bool:
    """Load it once, in a process of its own: what its import starts or prints does not concern this one.

    Raises ``ApplicationError``. False: ``stop`` said so before it was loaded.
    """
    words = [sys.executable, "-c", _LOAD, application]
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as loader:
        while True:
            try:
                said = loader.communicate(timeout=_LOOK_SECONDS)[1]
            except subprocess.TimeoutExpired:
                if stop():
                    loader.kill()
                    return False
            else:
                break
    if loader.returncode == _UNLOADABLE:
        raise ApplicationError(said.strip().rpartition("\n")[2])
    return not stop()


def _tell(stack: Stack, say: Output) -> None:
    """Where everything is, and what to type to look at it."""
    settings, server = stack.settings, stack.server
    if server is None:
        say("up", f"Redis: {mask_url(stack.url)}")
    else:
        info = server.info
        shared = ", which another `regrow up` runs and which ends with it" if info.reused else ""
        say("redis", f"{info.program} {info.version}, data in {server.folder}{shared}")
        for warning in info.warnings:
            say("redis", warning)
        say("up", f"  {info.cli}")
    for line in (
        "regrow tree",
        "regrow events",
        f"regrow redis HGETALL '{{{settings.namespace}}}:agent:<id>'",
        *([f"curl http://{settings.metrics_host}:{port}/metrics"] if (port := settings.metrics_port) else []),
    ):
        say("up", f"  {line}")
    say(
        "up",
        f"starting {stack.application} in namespace {settings.namespace}; Ctrl-C ends it, the data stays",
    )


class _Printer:
    """Lines of several processes under each other, each after its process's name; coloured on a terminal."""

    def __init__(self, names: Sequence[str]) -> None:
        self._width = max(len(name) for name in names)
        self._colours = {name: 31 + place for place, name in enumerate((*names, "redis"), start=1)}
        self._lock = threading.Lock()

    def __call__(self, name: str, line: str) -> None:
        head = f"{name:<{self._width}} |"
        if name in self._colours and sys.stdout.isatty():
            head = f"\033[{self._colours[name]}m{head}\033[0m"
        with self._lock, contextlib.suppress(BrokenPipeError, ValueError):
            print(head, line, flush=True)
