"""A short storm of starts; ``python -m benchmarks.fork_soak`` is the long one."""

from __future__ import annotations

import pytest

from tests.crash.fork_storm import ForkStorm
from tests.crash.node_harness import Decisions, StartNode

pytestmark = [pytest.mark.crash, pytest.mark.timeout(150)]


@pytest.mark.parametrize(("starts", "threads"), [(60, ""), (6, "1")])
def test_no_start_hangs_or_shares_a_socket(
    decisions: Decisions, start_node: StartNode, node_server: str, starts: int, threads: str
) -> None:
    environment = {"REGROW_TEST_URL": node_server, "REGROW_TEST_THREADS": threads}
    node = start_node(
        application="tests.crash.busy_app:tree",
        environment=environment,
        start_timeout=60.0,
        node_timeout=30.0,
    )

    verdict = ForkStorm(decisions, node, agents=6).rage(starts)

    assert verdict.wrong == []
    assert verdict.starts == starts
    assert ("fork_unsafe" in node.said()) == bool(threads)
