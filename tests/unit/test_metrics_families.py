"""Counters of Redis as Prometheus sees them: pure, from the text of their fields."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from regrow.metrics.catalogue import ALL, parse_field
from regrow.metrics.collector import Labelled, families


def shown(counted: dict[str, int], gauges: dict[str, Labelled] | None = None) -> dict[str, float]:
    """What a strict parser reads from the exposition: sample with labels -> value."""

    class Fixed(Collector):
        def collect(self) -> list[Family]:
            return list(families(counted, gauges or {}))

    registry = CollectorRegistry()
    registry.register(Fixed())
    text = generate_latest(registry).decode()
    return {
        sample.name
        + "".join(f"|{label}={value}" for label, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_field_is_a_name_and_labels() -> None:
    assert parse_field("signals_dead_total|type=desk|reason=bad_data") == (
        "signals_dead_total",
        {"type": "desk", "reason": "bad_data"},
    )
    assert parse_field("nodes_lost_total") == ("nodes_lost_total", {})


def test_counters_keep_their_labels() -> None:
    found = shown({"signals_applied_total|type=support": 7, "exits_total|reason=signal": 2})

    assert found["regrow_signals_applied_total|type=support"] == 7
    assert found["regrow_exits_total|reason=signal"] == 2


def test_counter_without_labels_is_zero_from_the_start() -> None:
    assert shown({})["regrow_nodes_lost_total"] == 0


def test_buckets_become_cumulative_and_microseconds_become_seconds() -> None:
    found = shown(
        {
            "recovery_seconds_bucket|le=0.05": 3,
            "recovery_seconds_bucket|le=0.01": 2,
            "recovery_seconds_bucket|le=+Inf": 1,
            "recovery_seconds_sum_us": 1_500_000,
        }
    )

    assert found["regrow_recovery_seconds_bucket|le=0.01"] == 2
    assert found["regrow_recovery_seconds_bucket|le=0.05"] == 5
    assert found["regrow_recovery_seconds_bucket|le=+Inf"] == 6
    assert found["regrow_recovery_seconds_count"] == 6
    assert found["regrow_recovery_seconds_sum"] == 1.5


def test_a_field_of_no_known_metric_makes_no_series() -> None:
    assert not any("stranger" in name for name in shown({"stranger_total|id=x": 1, "": 3, "|||": 4}))


def test_label_values_that_would_break_a_scrape_are_spelled_out_and_cut() -> None:
    found = shown(
        {'signals_applied_total|type=a"b\n' + "x" * 500: 1, "signals_accepted_total|type=\udcff": 1}
    )

    assert any(
        name.startswith('regrow_signals_applied_total|type=a"b\n') and len(name) < 200 for name in found
    )
    assert any("\\xff" in name for name in found)


def test_every_metric_of_the_catalogue_has_help_and_a_name_of_its_own() -> None:
    names = [metric.name for metric in ALL]

    assert len(names) == len(set(names))
    assert all(metric.help.endswith(".") for metric in ALL)
    assert all(metric.name.endswith("_total") == (metric.kind == "counter") for metric in ALL)
