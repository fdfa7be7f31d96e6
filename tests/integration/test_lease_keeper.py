"""The thread that keeps the lease of a leader that is at a long piece of work, on a real server."""

from __future__ import annotations

from regrow_signals.calls import Command
from regrow_signals.connection import Connection
from regrow_signals.keys import Keys
from regrow_supervisor.leader import Lease, Standing
from regrow_supervisor.lease_keeper import LeaseKeeper
from tests.conftest import wait_until

LEASE_MS = 60_000


def test_the_lease_of_a_leader_at_work_is_renewed_there_and_here(
    connection: Connection, redis_url: str, keys: Keys
) -> None:
    now = [0.0]
    lease = Lease(keys, LEASE_MS, lambda: now[0])
    assert connection.call(lease.acquire_call())
    lease.acquired(now[0])
    keeper = LeaseKeeper(
        lambda: Connection.open(redis_url, name="keeper"), lease, every=0.01, clock=lambda: now[0]
    )
    keeper.start()
    try:
        connection.command(Command(("PEXPIRE", keys.leader, LEASE_MS // 2), int))
        now[0] = 45.0  # the leader has renewed nothing for so long
        wait_until(lambda: keeper.renewals, "the keeper has renewed")

        assert connection.command(Command(("PTTL", keys.leader), int)) > LEASE_MS // 2
        now[0] = 100.0
        assert lease.standing() is Standing.HELD
    finally:
        keeper.end()
        keeper.join()
