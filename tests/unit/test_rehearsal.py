"""The rehearsed first signal: its canned answers are such as the scripts give."""

from __future__ import annotations

from regrow import Supervisor
from regrow_signals.limits import Limits
from regrow_workers.application import Application
from regrow_workers.rehearsal import rehearse
from regrow_workers.settings import NodeSettings
from regrow_workers.worker_config import WorkerConfig


def test_it_goes_through_without_a_server() -> None:
    application = Application("nobody:tree", Supervisor("nobody"), {}, {}, ())
    config = WorkerConfig("nobody:tree", "unix:///nowhere/redis.sock", "regrow", Limits(), NodeSettings())

    rehearse(config, application)
