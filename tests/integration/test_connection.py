"""The connection policy on a real server: losses, time-outs, interrupts, refusals, repeats."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from regrow_signals.async_connection import AsyncConnection
from regrow_signals.calls import Call, Command, Op
from regrow_signals.connection import Connection, Interrupted, wait_for_store
from regrow_signals.errors import (
    BadInput,
    CorruptKey,
    FateUnknown,
    NoSuchAgent,
    StoreUnavailable,
    WrongServer,
)
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.mailbox import Receipt, send, status
from regrow_signals.signal import Signal
from tests.conftest import PrivateServer

PING: Command[str] = Command(("PING",), str)


def add(key: str, *, repeatable: bool = False) -> Command[int]:
    return Command(("INCR", key), int, repeatable=repeatable)


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class LosingProxy:
    """A server before the server: passes commands on, and can keep the answers to itself or hang up instead."""

    def __init__(self, folder: Path, target: str) -> None:
        self.path = folder / "proxy.sock"
        self.url = f"unix://{self.path}"
        self.lose_answers = 0
        self._stopping = False
        self._target = target
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            client, _ = self._listener.accept()
            if self._stopping:
                client.close()
                return
            with client, socket.socket(socket.AF_UNIX) as server:
                server.connect(self._target)
                while data := client.recv(65536):
                    server.sendall(data)
                    answer = server.recv(65536)
                    if self.lose_answers and (b"INCR" in data or b"EVALSHA" in data):
                        self.lose_answers -= 1
                        break
                    client.sendall(answer)

    def close(self) -> None:
        self._stopping = True
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(str(self.path))
        self._thread.join()
        self._listener.close()


@pytest.fixture
def proxy(tmp_path: Path, redis_url: str) -> Iterator[LosingProxy]:
    found = LosingProxy(tmp_path, redis_url.removeprefix("unix://"))
    yield found
    found.close()


@pytest.fixture
def tcp_url(redis_url: str) -> Iterator[str]:
    """The server on a loopback port, by a proxy."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        client, _ = listener.accept()
        with client, socket.socket(socket.AF_UNIX) as server:
            server.connect(redis_url.removeprefix("unix://"))
            while data := client.recv(65536):
                server.sendall(data)
                client.sendall(server.recv(65536))

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"redis://localhost:{listener.getsockname()[1]}"
    thread.join()
    listener.close()


@pytest.fixture
def frozen(own_server: PrivateServer) -> Iterator[PrivateServer]:
    """A server that a test may stop with SIGSTOP."""
    yield own_server
    if own_server.process is not None:
        own_server.process.send_signal(signal.SIGCONT)


def test_nothing_is_sent_before_the_first_use() -> None:
    connection = Connection.open("unix:///nowhere/redis.sock")
    assert connection.fileno() is None and connection.generation == 0


def test_no_server_is_unavailable_and_says_where() -> None:
    with pytest.raises(StoreUnavailable, match=r"unix:///nowhere/redis\.sock cannot be reached"):
        Connection.open("unix:///nowhere/redis.sock").command(PING)


def test_connection_carries_its_name(connection: Connection) -> None:
    assert connection.command(Command(("CLIENT", "GETNAME"), str)) == "test"


def test_connection_closed_by_the_server_while_idle_is_made_again_unseen(
    connection: Connection, raw: Any
) -> None:
    for generation in range(1, 6):
        connection.command(add("n"))
        assert connection.generation == generation
        raw.client_kill_filter(skipme=True, _type="normal")
    assert raw.get("n") == "5"


def test_lost_answer_of_a_change_is_unknown_and_not_repeated(proxy: LosingProxy, raw: Any) -> None:
    proxy.lose_answers = 1
    with Connection.open(proxy.url) as connection:
        with pytest.raises(FateUnknown, match="INCR was sent and not answered"):
            connection.command(add("n"))
        assert raw.get("n") == "1"
        assert connection.command(add("n")) == 2
        assert connection.generation == 2


def test_lost_answer_of_what_may_be_repeated_is_repeated_once(proxy: LosingProxy, raw: Any) -> None:
    with Connection.open(proxy.url) as connection:
        proxy.lose_answers = 1
        assert connection.command(add("n", repeatable=True)) == 2
        proxy.lose_answers = 2
        with pytest.raises(StoreUnavailable):
            connection.command(add("n", repeatable=True))
        assert raw.get("n") == "4"


def test_send_repeated_after_a_lost_answer_is_one_signal(
    proxy: LosingProxy, raw: Any, keys: Keys, limits: Limits
) -> None:
    raw.hset(keys.agent("support"), mapping={"birth": "b", "type": "desk"})
    proxy.lose_answers = 1
    with Connection.open(proxy.url) as connection:
        receipt = connection.call(send(keys, limits, "support", Signal.of("a.b", 1)))

    assert receipt.duplicate
    assert raw.xlen(keys.mailbox("support")) == 1


def test_answer_lost_twice_leaves_a_send_of_unknown_fate_that_can_be_asked_about(
    proxy: LosingProxy, raw: Any, keys: Keys, limits: Limits
) -> None:
    raw.hset(keys.agent("support"), mapping={"birth": "b", "type": "desk"})
    proxy.lose_answers = 2
    with Connection.open(proxy.url) as connection:
        with pytest.raises(FateUnknown):
            connection.call(send(keys, limits, "support", Signal.of("a.b", 1, id="t-1")))

        assert connection.call(status(keys, Receipt("support", "t-1"))).state == "pending"
        assert connection.call(status(keys, Receipt("support", "t-2"))).state == "unknown"


def test_silent_server_times_out_once_and_the_next_answer_is_ones_own(frozen: PrivateServer) -> None:
    with Connection.open(frozen.url, timeout=0.3) as connection:
        connection.command(Command(("SET", "n", "0"), str))
        assert frozen.process is not None
        frozen.process.send_signal(signal.SIGSTOP)
        with pytest.raises(FateUnknown, match="no answer in time"):
            connection.command(add("n"))
        frozen.process.send_signal(signal.SIGCONT)

        assert connection.command(Command(("ECHO", "mine"), str)) == "mine"
        assert connection.command(Command(("GET", "n"), str)) == "1"


def test_server_started_again_is_found_again(own_server: PrivateServer) -> None:
    with Connection.open(own_server.url) as connection:
        connection.command(add("n"))
        own_server.kill()
        with pytest.raises(StoreUnavailable):
            connection.command(PING)
        own_server.start()
        assert connection.command(PING) == "PONG"
        assert connection.generation == 2


def test_script_forgotten_by_the_server_is_loaded_again(
    connection: Connection, raw: Any, keys: Keys, limits: Limits
) -> None:
    raw.hset(keys.agent("support"), mapping={"birth": "b", "type": "desk"})
    connection.call(send(keys, limits, "support", Signal.of("a.b", 1)))
    raw.script_flush()

    results = connection.pipeline(
        [
            send(keys, limits, "support", Signal.of("a.b", 2)),
            PING,
            send(keys, limits, "nobody", Signal.of("a.b", 3)),
        ]
    )

    assert isinstance(results[0], Receipt) and results[1] == "PONG" and isinstance(results[2], NoSuchAgent)
    assert raw.xlen(keys.mailbox("support")) == 2


def test_pipeline_hands_over_each_failure_in_its_place(connection: Connection, raw: Any) -> None:
    raw.set("text", "x")
    results = connection.pipeline([PING, add("text"), Command(("LLEN", "text"), int), PING])

    assert results[0] == results[3] == "PONG"
    assert type(results[2]) is CorruptKey
    assert connection.pipeline([]) == []


def test_wrong_type_names_the_key(connection: Connection, raw: Any, keys: Keys) -> None:
    raw.set(keys.agent("support"), "by hand")
    with pytest.raises(CorruptKey, match=r"\{regrow\}:agent:support is a string, not a hash"):
        connection.call(status(keys, Receipt("support", "t-1", "1-1", "b")))


def test_reply_that_cannot_be_read_is_a_corrupt_key_not_a_crash(connection: Connection, raw: Any) -> None:
    raw.set("version", "seven")
    with pytest.raises(CorruptKey, match="GET"):
        connection.command(Command(("GET", "version"), int))


def test_bytes_that_are_not_utf8_do_not_stop_a_reader(connection: Connection, redis_url: str) -> None:
    client = redis.Redis.from_url(redis_url)
    client.xadd("s", {"id": "1", "data": b"\xff\xfe"})
    client.xadd("s", {b"caf\xe9": "x", "data": "ü\0", "empty": ""})
    client.close()

    first, second = connection.read_stream("s", "0-0", count=10)

    assert first[1] == {"id": "1", "data": b"\xff\xfe"}
    assert second[1]["data"] == "ü\0" and second[1]["empty"] == ""


def test_bytes_read_go_back_as_they_were(connection: Connection, redis_url: str) -> None:
    client = redis.Redis.from_url(redis_url)
    client.set("a", b"\xff\xc3\xbc")
    connection.command(Command(("SET", "b", connection.command(Command(("GET", "a"), str))), str))
    assert client.get("b") == b"\xff\xc3\xbc"
    client.close()


def test_blocking_read_waits_for_the_first_entry(connection: Connection, raw: Any) -> None:
    connection.command(PING)
    timer = threading.Timer(0.1, lambda: raw.xadd("s", {"n": "1"}))
    timer.start()
    [(_, fields)] = connection.read_stream("s", "0-0", count=10, block_ms=5000)
    timer.join()
    assert fields == {"n": "1"}


def test_blocking_read_ends_empty_in_its_time(connection: Connection) -> None:
    begun = time.monotonic()
    assert connection.read_stream("s", "0-0", count=10, block_ms=60) == []
    assert time.monotonic() - begun < 1
    assert connection.generation == 1


def test_blocking_read_longer_than_the_timeout_is_allowed(redis_url: str) -> None:
    with Connection.open(redis_url, timeout=0.2) as connection:
        assert connection.read_stream("s", "0-0", count=1, block_ms=500) == []
        assert connection.generation == 1


def test_interrupt_ends_a_blocking_read_at_once_and_drops_the_socket(redis_url: str, raw: Any) -> None:
    read_end, write_end = os.pipe()
    try:
        with Connection.open(redis_url, interrupt_fd=read_end) as connection:
            timer = threading.Timer(0.1, lambda: os.write(write_end, b"x"))
            timer.start()
            begun = time.monotonic()
            with pytest.raises(Interrupted):
                connection.read_stream("s", "0-0", count=1, block_ms=30_000)
            timer.join()
            assert time.monotonic() - begun < 5
            assert connection.fileno() is None

            raw.xadd("s", {"n": "1"})
            assert connection.command(Command(("ECHO", "mine"), str)) == "mine"
            assert len(connection.read_stream("s", "0-0", count=1)) == 1
    finally:
        os.close(read_end)
        os.close(write_end)


class Cancelled(BaseException):
    pass


def test_exception_from_a_signal_handler_drops_the_socket(redis_url: str) -> None:
    def handler(*_: object) -> None:
        raise Cancelled

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with Connection.open(redis_url) as connection:
            connection.command(PING)
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(Cancelled):
                connection.command(Command(("BLPOP", "nothing", 2), list, wait=2))
            assert connection.fileno() is None
            assert connection.command(Command(("ECHO", "mine"), str)) == "mine"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_child_after_a_fork_has_a_socket_of_its_own(connection: Connection) -> None:
    client_id = Command(("CLIENT", "ID"), int)
    mine = connection.command(client_id)
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if connection.command(client_id) != mine else 1)
        finally:
            os._exit(2)
    _, wait_status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(wait_status) == 0
    assert connection.command(client_id) == mine


def test_descriptors_do_not_leak_over_reconnects(connection: Connection, raw: Any) -> None:
    connection.command(PING)
    raw.ping()
    before = open_descriptors()
    for _ in range(30):
        raw.client_kill_filter(skipme=True, _type="normal")
        connection.command(PING)
    assert open_descriptors() == before


def test_missing_right_is_named(redis_url: str, raw: Any, keys: Keys, limits: Limits) -> None:
    raw.execute_command("ACL", "SETUSER", "weak", "on", ">hunter2", "~*", "+@all", "-xread", "-evalsha")
    try:
        path = redis_url.removeprefix("unix://")
        with Connection.open(f"unix://weak:hunter2@{path}", name="x") as connection:
            with pytest.raises(WrongServer, match="may not run XREAD"):
                connection.read_stream("s", "0-0", count=1)
            with pytest.raises(WrongServer, match="may not run EVALSHA"):
                connection.call(send(keys, limits, "support", Signal.of("a.b")))
        with Connection.open(f"unix://weak:wrong-secret@{path}") as connection:
            with pytest.raises(WrongServer) as caught:
                connection.command(PING)
            assert "secret" not in str(caught.value)
            assert "secret" not in repr(connection.__dict__["where"])
    finally:
        raw.execute_command("ACL", "DELUSER", "weak")


def test_replica_and_busy_server_are_unavailable(own_server: PrivateServer) -> None:
    person = redis.Redis.from_url(own_server.url)
    with Connection.open(own_server.url) as connection:
        person.execute_command("REPLICAOF", "127.0.0.1", "1")
        with pytest.raises(StoreUnavailable, match="READONLY"):
            connection.command(add("n"))
        person.execute_command("REPLICAOF", "NO", "ONE")
        assert connection.command(add("n")) == 1

        person.config_set("maxmemory", "1")
        with pytest.raises(StoreUnavailable, match="OOM"):
            connection.command(add("n"))
    person.close()


def test_waiting_logs_one_line_for_each_change_of_state(
    own_server: PrivateServer, caplog: pytest.LogCaptureFixture
) -> None:
    own_server.kill()
    tries: list[float] = []

    def pause(seconds: float) -> None:
        tries.append(seconds)
        if len(tries) == 8:
            own_server.start()

    with Connection.open(own_server.url) as connection:
        assert wait_for_store(connection, lambda: False, pause=pause)

    assert len(tries) == 8 and tries[0] < tries[-1] <= 2.0
    assert len(caplog.records) == 2


def test_waiting_ends_when_told_so() -> None:
    with Connection.open("unix:///nowhere/redis.sock") as connection:
        answers = iter([False, False, True])
        assert not wait_for_store(connection, lambda: next(answers), pause=lambda _: None)


def test_op_gets_a_refusal_at_its_yield(connection: Connection, keys: Keys, limits: Limits) -> None:
    def op() -> Op[str]:
        try:
            yield send(keys, limits, "nobody", Signal.of("a.b"))
        except NoSuchAgent:
            return str((yield PING))
        return "no refusal"

    assert connection.run(op()) == "PONG"


async def async_run(url: str, op: Any) -> Any:
    async with AsyncConnection.open(url, name="async") as connection:
        return await connection.run(op)


def test_first_command_of_a_connection_may_block_for_longer_than_its_timeout(redis_url: str) -> None:
    with Connection.open(redis_url, name="patient", timeout=0.2) as connection:
        assert connection.command(Command(("BLPOP", "nothing", "0.5"), bool, wait=0.5)) is False


def test_awaited_connection_drives_the_same_ops(redis_url: str, keys: Keys, limits: Limits) -> None:
    def op() -> Op[tuple[str, str]]:
        name = yield Command(("CLIENT", "GETNAME"), str)
        try:
            yield send(keys, limits, "nobody", Signal.of("a.b"))
        except NoSuchAgent as error:
            return name, str(error)
        return name, ""

    assert asyncio.run(async_run(redis_url, op())) == ("async", "no agent nobody is registered")


def test_awaited_lost_answers_follow_the_same_rules(proxy: LosingProxy, raw: Any) -> None:
    async def scenario() -> None:
        async with AsyncConnection.open(proxy.url) as connection:
            proxy.lose_answers = 1
            with pytest.raises(FateUnknown):
                await connection.command(add("n"))
            proxy.lose_answers = 1
            assert await connection.command(add("n", repeatable=True)) == 3
            assert connection.generation == 3

    asyncio.run(scenario())
    assert raw.get("n") == "3"


def test_cancelled_task_leaves_no_answer_for_the_next(redis_url: str) -> None:
    async def scenario() -> None:
        async with AsyncConnection.open(redis_url) as connection:
            await connection.command(PING)
            for _ in range(20):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.01):
                        await connection.command(Command(("BLPOP", "nothing", 1), list, wait=1))
                assert await connection.command(Command(("ECHO", "mine"), str)) == "mine"

    asyncio.run(scenario())


def test_tasks_sharing_a_connection_get_their_own_answers(redis_url: str) -> None:
    async def scenario() -> None:
        async with AsyncConnection.open(redis_url) as connection:
            asked = [connection.command(Command(("ECHO", str(n)), str)) for n in range(100)]
            assert await asyncio.gather(*asked) == [str(n) for n in range(100)]

    asyncio.run(scenario())


def test_awaited_connection_closed_while_idle_is_made_again(redis_url: str, raw: Any) -> None:
    async def scenario() -> None:
        async with AsyncConnection.open(redis_url) as connection:
            await connection.command(add("n"))
            raw.client_kill_filter(skipme=True, _type="normal")
            await asyncio.sleep(0)  # the loop hears of the end of file
            while connection.is_connected():
                await asyncio.sleep(0)
            assert await connection.command(add("n")) == 2

    asyncio.run(scenario())


def test_what_was_sent_ahead_is_answered_when_it_is_asked_for(connection: Connection) -> None:
    sent = connection.send([add("n", repeatable=True), PING])

    assert connection.receive(sent) == [1, "PONG"]
    assert connection.command(add("n")) == 2


def test_lost_answer_of_what_was_sent_ahead_is_asked_for_again(proxy: LosingProxy, raw: Any) -> None:
    proxy.lose_answers = 1
    with Connection.open(proxy.url) as connection:
        sent = connection.send([add("n", repeatable=True)])

        assert connection.receive(sent) == [2]
        assert raw.get("n") == "2" and connection.generation == 2


def test_fate_of_what_was_sent_ahead_is_unknown_when_every_answer_is_lost(proxy: LosingProxy) -> None:
    proxy.lose_answers = 3
    with Connection.open(proxy.url) as connection:
        sent = connection.send([Call("send", (), (), int, repeatable=True)])

        with pytest.raises(FateUnknown, match="may have run or not"):
            connection.receive(sent)


def test_no_server_is_told_when_the_answer_to_what_was_sent_ahead_is_asked_for() -> None:
    connection = Connection.open("unix:///nowhere/redis.sock")
    sent = connection.send([PING])

    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        connection.receive(sent)


def test_what_may_not_be_repeated_is_not_sent_ahead(connection: Connection, raw: Any) -> None:
    with pytest.raises(BadInput, match="repeatable"):
        connection.send([add("n")])
    assert raw.get("n") is None


def test_scripts_that_the_server_was_believed_to_have_are_given_to_it(
    redis_url: str, raw: Any, keys: Keys, limits: Limits
) -> None:
    raw.script_flush()
    with Connection.open(redis_url, scripts=["send"]) as connection, pytest.raises(NoSuchAgent):
        connection.call(send(keys, limits, "nobody", Signal.of("a.b", 1)))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("unix://:wrong@{path}", "asks for none"),
        ("unix://somebody:wrong@{path}", "does not know this user and password"),
    ],
)
def test_a_refused_login_is_a_wrong_server_before_anything_is_sent(
    redis_url: str, raw: Any, url: str, why: str
) -> None:
    with Connection.open(url.format(path=redis_url.removeprefix("unix://"))) as connection:
        with pytest.raises(WrongServer, match=why):
            connection.command(add("n"))
        assert connection.fileno() is None
    assert raw.get("n") is None


def test_a_database_that_is_not_there_is_refused_before_anything_is_sent(tcp_url: str) -> None:
    with Connection.open(f"{tcp_url}/99999") as connection, pytest.raises(WrongServer, match="SELECT"):
        connection.command(PING)


def test_call_type_is_kept() -> None:
    call: Call[int] = Call("send", (), (), int)
    assert call.parse("5") == 5
