"""What a worker prints: bounded, never waiting for long, never failing, never into a file that is somebody else's."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from regrow_workers.worker_output import BURST, BoundedOutput


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            continue


def test_what_is_within_the_bound_is_written_as_it_is(pipe: tuple[int, int]) -> None:
    output = BoundedOutput(pipe[1])

    assert output.write(b"one line\n") == 9
    assert os.read(pipe[0], 100) == b"one line\n"


def test_more_than_the_burst_is_dropped_and_told_with_the_next_line(pipe: tuple[int, int]) -> None:
    output = BoundedOutput(pipe[1])

    assert output.write(b"x" * (BURST + 1)) == BURST + 1
    output.write(b"after\n")

    assert os.read(pipe[0], 1000) == b"... %d bytes of output dropped\nafter\n" % (BURST + 1)


def test_a_reader_who_does_not_read_is_waited_for_a_moment_only(pipe: tuple[int, int]) -> None:
    output = BoundedOutput(pipe[1])
    os.set_blocking(pipe[0], False)

    for _ in range(10):  # a pipe holds 64 KiB: without a bound this would wait for ever
        output.write(b"y" * (64 << 10))

    assert os.read(pipe[0], 1 << 20) == b"y" * (64 << 10)
    with pytest.raises(BlockingIOError):
        os.read(pipe[0], 1)


def test_a_reader_who_is_gone_is_no_error(pipe: tuple[int, int]) -> None:
    output = BoundedOutput(pipe[1])
    os.close(pipe[0])

    assert output.write(b"to nobody\n") == 10


def test_a_closed_descriptor_whose_number_went_to_another_file_is_not_written_to(
    pipe: tuple[int, int],
) -> None:
    output = BoundedOutput(pipe[1])
    other = os.pipe()
    os.dup2(other[1], output.fileno())
    os.set_blocking(other[0], False)

    output.write(b"not for it\n")

    with pytest.raises(BlockingIOError):
        os.read(other[0], 100)
    for end in (*other, output.fileno()):
        os.close(end)


def test_its_own_copy_lies_where_nobody_closes_by_number(pipe: tuple[int, int]) -> None:
    assert BoundedOutput(pipe[1]).fileno() >= 64
