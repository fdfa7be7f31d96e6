"""A Redis of one's own: started here, ended with its parent, its data found again at the next start.

Two locks in the state folder say who is alive, so no pid from a file is ever signalled or believed:

* ``launcher.lock`` is held by the process that started the server;
* ``server.lock`` is inherited by the server too: while it is held, a server has this folder open.

The server listens on a unix socket (for regrow) and on a loopback port (for people), both behind a generated password
that stands in files of mode 0600 only, never in an argument list.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from regrow.server_program import ServerProgram, find_program
from regrow.state_folder import (
    kept_password,
    kept_port,
    private_folder,
    read_record,
    shorten,
    socket_path,
    try_lock,
    unlock,
    write_private,
)
from regrow_signals.errors import StoreError

__all__ = ["EmbeddedRedis", "ServerInfo", "running"]

_TIED = Path(__file__).with_name("tied.py")
_PORT_TRIES = 20


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Where a running server is. ``url`` and ``password`` are secrets: environment and 0600 files only."""

    url: str = field(repr=False)
    socket: str
    port: int
    password: str = field(repr=False)
    password_file: str
    pid: int
    program: str
    version: str
    reused: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def cli(self) -> str:
        """What a person types to look into it; the password stays in its file, so this line may be logged."""
        return f"REDISCLI_AUTH=$(cat {shlex.quote(self.password_file)}) redis-cli -p {self.port}"


class EmbeddedRedis:
    """One server on one state folder. ``start`` and ``stop`` may be called again; also a context manager.

    If this process dies, by SIGKILL too, the server gets SIGTERM from the kernel, writes out its append-only file and
    ends. If another process runs the folder's server already, ``start`` shares it: ``info.reused`` is then true, and
    it ends with that other process.
    """

    def __init__(self, folder: Path, *, program: str = "", start_timeout: float = 60.0) -> None:
        self.folder = folder.expanduser().absolute()
        self._wanted_program = program
        self._start_timeout = start_timeout
        self._info: ServerInfo | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._locks: list[int] = []
        self._owner_pid = 0

    @property
    def info(self) -> ServerInfo:
        if self._info is None:
            raise StoreError("the embedded Redis is not started; call start() first")
        return self._info

    @property
    def alive(self) -> bool:
        """Whether the server that this object started still runs."""
        return self.pid is not None

    @property
    def pid(self) -> int | None:
        """Of the server that this object started; None while it does not run. May be asked from any thread."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    @property
    def shared(self) -> bool:
        """Whether ``start`` found another process's server."""
        return self._info is not None and self._info.reused

    def start(self) -> ServerInfo:
        """Returns when the server has loaded its data and answers. Raises StoreError with the server's own words."""
        if self._info is not None and (self.alive or self._info.reused):
            return self._info
        self.stop()
        private_folder(self.folder)
        deadline = time.monotonic() + self._start_timeout
        try:
            while not self._take_locks():
                shared = running(self.folder)
                if shared is not None and not self._launcher_gone():
                    self._info = shared
                    return shared
                self._wait_for_the_other(deadline)
            self._info = self._start_server(find_program(self._wanted_program), deadline)
        except BaseException:
            self.stop()
            raise
        return self._info

    def stop(self, timeout: float = 10.0) -> None:
        """SIGTERM, so that everything is written; SIGKILL after ``timeout``. Leaves a shared server alone."""
        process, self._process, self._info = self._process, None, None
        if process is not None and self._owner_pid == os.getpid():  # not in a fork of the launcher
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            try:
                process.wait(timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            with contextlib.suppress(OSError):
                (self.folder / "server.json").unlink()
        for lock in self._locks:
            if self._owner_pid in (0, os.getpid()):
                unlock(lock)
        self._locks = []

    def __enter__(self) -> EmbeddedRedis:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- who else is here

    def _take_locks(self) -> bool:
        """Both locks or none."""
        for name in ("launcher.lock", "server.lock"):
            lock = try_lock(self.folder / name)
            if lock is None:
                for taken in self._locks:
                    os.close(taken)
                self._locks = []
                return False
            self._locks.append(lock)
        return True

    def _launcher_gone(self) -> bool:
        """Then its server is ending: wait for it rather than share it."""
        lock = try_lock(self.folder / "launcher.lock")
        if lock is None:
            return False
        os.close(lock)
        return True

    def _wait_for_the_other(self, deadline: float) -> None:
        if time.monotonic() < deadline:
            time.sleep(0.02)
            return
        pid = read_record(self.folder).get("pid", "unknown")
        raise StoreError(
            f"{self.folder} is in use by a Redis that does not answer (pid {pid} by its record): end it, or name "
            "another state folder (REGROW_STATE_DIR)"
        )

    # -- the start

    def _start_server(self, program: ServerProgram, deadline: float) -> ServerInfo:
        data = self.folder / "data"
        data.mkdir(mode=0o700, exist_ok=True)
        password = kept_password(self.folder / "password")
        path = socket_path(self.folder)
        log = self.folder / "server.log"
        shorten(log)
        port = kept_port(self.folder)
        for _ in range(_PORT_TRIES):
            port = port or _free_port()
            config = self.folder / "redis.conf"
            write_private(config, _configuration(data, path, port, password))
            before = log.stat().st_size if log.exists() else 0
            self._process = self._launch(program.path, config, log)
            if _until(lambda: not self.alive or _answers(path, password), deadline) and self.alive:
                return self._announce(program, path, port, password, _lines(log, before))
            said = _lines(log, before)
            if self.alive:
                raise StoreError(
                    f"{program.path} did not answer within {self._start_timeout} s: {_tail(said)}"
                )
            if not any("Address already in use" in line or "Failed listening" in line for line in said):
                raise StoreError(f"{program.path} ended at its start (log: {log}): {_tail(said)}")
            port = 0
        raise StoreError(f"no free loopback port found for {program.path} in {_PORT_TRIES} tries")

    def _launch(self, program: str, config: Path, log: Path) -> subprocess.Popen[bytes]:
        """From a thread that lives as long as the server: the parent-death signal counts the thread's end too."""
        started: queue.Queue[subprocess.Popen[bytes] | BaseException] = queue.Queue()
        self._owner_pid = os.getpid()

        def keep() -> None:
            words = [sys.executable, "-I", "-S", str(_TIED), str(os.getpid()), str(int(signal.SIGTERM))]
            try:
                with log.open("ab") as output:
                    log.chmod(0o600)
                    process = subprocess.Popen(
                        [*words, program, str(config)],
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=output,
                        cwd=self.folder,
                        pass_fds=self._locks[1:],
                        start_new_session=True,  # Ctrl-C is for us; we end it when all who use it have ended
                    )
            except OSError as error:
                started.put(error)
                return
            started.put(process)
            process.wait()

        threading.Thread(target=keep, name="embedded-redis", daemon=True).start()
        result = started.get()
        if isinstance(result, BaseException):
            raise StoreError(f"cannot start {program}: {result}") from result
        return result

    def _announce(
        self, program: ServerProgram, path: Path, port: int, password: str, said: list[str]
    ) -> ServerInfo:
        assert self._process is not None
        info = ServerInfo(
            url=f"unix://:{quote(password, safe='')}@{quote(str(path))}",
            socket=str(path),
            port=port,
            password=password,
            password_file=str(self.folder / "password"),
            pid=self._process.pid,
            program=program.path,
            version=program.version,
            warnings=tuple(line for line in said if "!!!" in line or "aof-load-" in line),
        )
        record = {key: value for key, value in asdict(info).items() if key not in ("reused", "warnings")}
        write_private(self.folder / "server.json", json.dumps(record))
        write_private(self.folder / "port", str(port))
        return info


def running(folder: Path) -> ServerInfo | None:
    """The server that some process runs on this state folder, if it answers. Starts and changes nothing."""
    record = read_record(folder.expanduser().absolute())
    try:
        info = ServerInfo(**record, reused=True)
        return info if _answers(Path(info.socket), info.password) else None
    except TypeError:
        return None


def _configuration(data: Path, path: Path, port: int, password: str) -> str:
    def quoted(value: object) -> str:
        return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'

    return "\n".join(
        [
            "# Written at each start by regrow; changes here are lost.",
            "bind 127.0.0.1",
            f"port {port}",
            f"unixsocket {quoted(path)}",
            "unixsocketperm 700",
            f"requirepass {password}",
            f"dir {quoted(data)}",
            "daemonize no",
            'save ""',
            "appendonly yes",
            "appendfsync everysec",
            "maxmemory-policy noeviction",
            "tcp-backlog 128",
            "",
        ]
    )


def _answers(path: Path, password: str) -> bool:
    """PING, without a client library: false while the server loads, is gone, or is not the one of this password."""
    try:
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(1.0)
            link.connect(str(path))
            link.sendall(f"AUTH {password}\r\nPING\r\n".encode())
            got = b""
            while got.count(b"\r\n") < 2:
                more = link.recv(4096)
                if not more:
                    break
                got += more
    except (OSError, ValueError):
        return False
    return got == b"+OK\r\n+PONG\r\n"


def _until(condition: Callable[[], bool], deadline: float) -> bool:
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _free_port() -> int:
    """Free a moment ago; the server finds out whether it still is."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _lines(log: Path, start: int) -> list[str]:
    with log.open("rb") as file:
        file.seek(start)
        return [line for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]


def _tail(said: list[str]) -> str:
    """The server's last words, without pid, role and date."""
    words = [line.split(" # ", 1)[-1].split(" * ", 1)[-1].strip() for line in said]
    return " | ".join(words[-3:]) or "it said nothing"
