"""A worker finds out that a handler closed what is its own, or used it all up, and takes its stop signal back."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
from collections.abc import Iterator

import pytest

from regrow_signals.connection import Connection
from regrow_signals.errors import DescriptorsLost
from regrow_workers.own_descriptors import OwnDescriptors
from regrow_workers.stop_request import StopRequest


class Connected(Connection):
    """With a socket, and nobody at its other end."""

    def __init__(self) -> None:
        super().__init__("unix:///nowhere")
        self._made: list[socket.socket] = []
        self.reconnect()

    def reconnect(self) -> None:
        pair = socket.socketpair()
        self._made += pair
        self._socket = pair[0]
        self.generation += 1

    def close_all(self) -> None:
        self._socket = None
        for made in self._made:
            with contextlib.suppress(OSError):
                made.close()


@pytest.fixture
def connection() -> Iterator[Connected]:
    made = Connected()
    yield made
    made.close_all()


@pytest.fixture
def stop() -> Iterator[StopRequest]:
    before = signal.getsignal(signal.SIGUSR1)
    request = StopRequest.on(signal.SIGUSR1)
    yield request
    signal.set_wakeup_fd(-1)
    request.let_go()
    signal.signal(signal.SIGUSR1, before)


def test_a_reconnect_is_no_loss(stop: StopRequest, connection: Connected) -> None:
    own = OwnDescriptors(stop.fileno(), connection)

    own.check()
    connection.reconnect()
    own.check()
    own.check()


@pytest.mark.parametrize("taken", [True, False], ids=["number taken", "number free"])
def test_a_closed_connection_is_found_even_if_its_number_is_another_files(
    stop: StopRequest, connection: Connected, *, taken: bool
) -> None:
    own = OwnDescriptors(stop.fileno(), connection)
    own.check()
    number = connection.fileno() or -1
    other = os.open(os.devnull, os.O_RDONLY)
    os.close(number)
    if taken:
        os.dup2(other, number)

    with pytest.raises(DescriptorsLost, match="connection"):
        own.check()
    os.close(other)


def test_a_closed_request_is_found(connection: Connected) -> None:
    reader = os.open(os.devnull, os.O_RDONLY)
    own = OwnDescriptors(reader, connection)
    os.close(reader)

    with pytest.raises(DescriptorsLost, match="worker's own"):
        own.check()


def test_no_descriptor_left_is_told_from_a_server_that_is_away(
    stop: StopRequest, connection: Connected
) -> None:
    own = OwnDescriptors(stop.fileno(), connection)
    own.check_room()
    free = os.dup(stop.fileno())
    os.close(free)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
        with pytest.raises(DescriptorsLost, match="no descriptor is left"):
            own.check_room()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_another_signal_ends_the_wait_once_and_is_no_request(stop: StopRequest) -> None:
    before = signal.signal(signal.SIGALRM, lambda number, frame: None)
    os.kill(os.getpid(), signal.SIGALRM)

    stop.look()

    assert not stop.requested
    with pytest.raises(BlockingIOError):
        os.read(stop.fileno(), 1)
    signal.signal(signal.SIGALRM, before)


def test_a_handler_of_its_own_keeps_no_request_from_coming_in(stop: StopRequest) -> None:
    signal.signal(signal.SIGUSR1, lambda number, frame: None)
    os.kill(os.getpid(), signal.SIGUSR1)

    stop.look()

    assert stop.requested
    assert os.read(stop.fileno(), 1)


@pytest.mark.parametrize("how", ["ignored", "blocked"])
def test_a_signal_that_a_handler_ignored_or_blocked_is_taken_back(stop: StopRequest, how: str) -> None:
    if how == "ignored":
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    else:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGUSR1,))

    stop.rearm()
    os.kill(os.getpid(), signal.SIGUSR1)

    assert stop.requested
