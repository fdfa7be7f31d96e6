"""Node settings are checked together, where they are made, and survive the way to the spawner."""

from __future__ import annotations

import json
from typing import Any

import pytest

from regrow_signals.errors import BadSetting
from regrow_workers.settings import NodeSettings


def test_settings_go_to_the_spawner_and_come_out_the_same() -> None:
    settings = NodeSettings(labels={"zone": "a"}, fail_points={"after_read": 2}, drain=1.5)

    again = NodeSettings.from_json(json.loads(json.dumps(settings.to_json())))

    assert again.to_json() == settings.to_json()


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"heartbeat": 0.0}, "heartbeat"),
        ({"deadline": -1.0}, "deadline"),
        ({"drain": -0.1}, "drain"),
        ({"heartbeat": 2.0, "node_timeout": 3.0}, "node_timeout"),
        ({"max_workers": 0}, "max_workers"),
        ({"fail_points": {"in_bed": 1}}, "in_bed"),
        ({"fail_points": {"in_handler#0": 1}}, "in_handler#0"),
        ({"fail_points": {"in_handler#x": 1}}, "in_handler#x"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_by_name(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(BadSetting, match=named):
        NodeSettings(**wrong)
