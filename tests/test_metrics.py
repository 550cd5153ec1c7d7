import json
import re
import socket
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from stream_leip_connectors.metrics import Metrics, PartitionReading, Reading
from stream_leip_connectors.status import StatusServer

from stream_leip import InputError, KeyedMonitor, Tumbling, Update
from tests.strategies import make_profile

EXAMPLES = Path(__file__).parents[1] / "examples"
ALARM = {"value": 1.0, "warning": True, "raised": True, "since": 3, "classes": []}
CHECK = {"p": 0.001, "flagged": True, "validation_share": 0.1, "message": "odd"}
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def some_updates(keys: list[str]) -> list[Update]:
    rows = np.random.default_rng(0).dirichlet([1.0, 0.3, 0.3], 50 * len(keys))
    times = 1.7e9 + np.arange(len(rows))
    monitor = KeyedMonitor(make_profile(np.array([0.5, 0.3, 0.2])), Tumbling(count=50))
    return monitor.update_many(keys * 50, rows, times)


def samples(metrics: Metrics) -> Samples:
    return samples_of(metrics.text().decode())


def samples_of(text: str) -> Samples:
    """What Prometheus would read, by its own parser."""
    families = text_string_to_metric_families(text)
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def value(found: Samples, name: str, **labels: str) -> float | None:
    return found.get((f"stream_leip_{name}", frozenset(labels.items())))


def full() -> Metrics:
    partition = PartitionReading(1000, 3, 2, 20, 7, keys=4, lag=12, behind=0.5)
    metrics = Metrics(lambda: Reading("in", {0: partition, 11: partition}, 9, 0.3, 2, 1.5))
    (update,) = some_updates(["a"])
    metrics.note([replace(update, alarm=ALARM, check=CHECK, memory=812.5)])
    return metrics


def test_what_is_known_of_partitions() -> None:
    found = samples(full())
    for partition in ("0", "11"):
        at = {"topic": "in", "partition": partition}
        assert value(found, "events_total", **at) == 1000
        assert value(found, "bad_events_total", **at) == 3
        assert value(found, "late_events_total", **at) == 2
        assert value(found, "lost_events_total", **at) == 7
        assert value(found, "updates_total", **at) == 20
        assert value(found, "keys", **at) == 4
        assert value(found, "lag_events", **at) == 12
        assert value(found, "lag_seconds", **at) == 0.5
    assert value(found, "commit_seconds_count") == 9
    assert value(found, "commit_seconds_sum") == pytest.approx(0.3)
    assert value(found, "restore_seconds_count") == 2
    assert value(found, "ready") == 1
    assert ("process_resident_memory_bytes", frozenset()) in found


def test_what_is_not_known_is_not_there() -> None:
    metrics = Metrics(lambda: Reading("in", {0: PartitionReading(5)}))
    metrics.note(some_updates(["a"]))
    found = samples(metrics)
    at = {"topic": "in", "partition": "0"}
    assert value(found, "events_total", **at) == 5
    assert value(found, "lag_events", **at) is None
    assert value(found, "alarm_raised", key="a") is None
    assert value(found, "memory_events", key="a") is None


def test_the_newest_update_of_each_key() -> None:
    metrics = Metrics(lambda: Reading("in"))
    odd = 'a"b\\c\nd'
    old, update = some_updates(["a", odd])
    metrics.note([replace(old, key=odd), update])
    found = samples(metrics)
    assert update.prior is not None
    assert update.low is not None
    assert update.high is not None
    for j, name in enumerate(update.classes):
        at = {"key": odd, "class": name}
        assert value(found, "prior", **at) == pytest.approx(update.prior[j])
        assert value(found, "prior_low", **at) == pytest.approx(update.low[j])
        assert value(found, "prior_high", **at) == pytest.approx(update.high[j])
    assert value(found, "update_end_seconds", key=odd) == update.end


def test_keys_beyond_the_cap_are_counted_only() -> None:
    metrics = Metrics(lambda: Reading("in"), most_keys=2)
    updates = [replace(each, alarm=ALARM, check=CHECK) for each in some_updates(["a", "b", "c"])]
    metrics.note(updates)
    found = samples(metrics)
    shown = {dict(labels)["key"] for name, labels in found if name == "stream_leip_alarm_raised"}
    assert shown == {"a", "b"}
    assert value(found, "keys_raised") == 3
    metrics.note([replace(updates[0], alarm=ALARM | {"raised": False}, check=None)])
    found = samples(metrics)
    assert value(found, "keys_raised") == 2
    assert value(found, "keys_warning") == 3
    assert value(found, "keys_flagged") == 2
    metrics.forget(["a", "c"])
    found = samples(metrics)
    assert value(found, "keys_warning") == 1
    assert value(found, "alarm_warning", key="a") is None


def test_an_update_without_a_prior() -> None:
    metrics = Metrics(lambda: Reading("in"))
    (update,) = some_updates(["a"])
    metrics.note([replace(update, prior=None, low=None, high=None, end=None)])
    assert not [name for name, _ in samples(metrics) if name.startswith("stream_leip_prior")]


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_the_port_for_operators() -> None:
    metrics = full()
    wrong: list[str | None] = [None, "restoring partitions 0, 1"]
    server = StatusServer(metrics.text, metrics.content_type, lambda: wrong[0], lambda: wrong[1])
    with server:
        assert server.url.startswith("http://127.0.0.1:")
        assert get(server.url + "/health") == (200, "ok\n")
        assert get(server.url + "/ready") == (503, "restoring partitions 0, 1\n")
        wrong[:] = ["no poll for 60 s", None]
        assert get(server.url + "/health?verbose") == (503, "no poll for 60 s\n")
        assert get(server.url + "/ready") == (200, "ok\n")
        assert get(server.url + "/metrics")[1].count("# HELP") > 15
        status, text = get(server.url + "/")
        assert (status, "/metrics" in text) == (404, True)
        with pytest.raises(InputError, match=r"metrics: cannot listen on 127.0.0.1:\d+: .*another"):
            StatusServer(metrics.text, "", lambda: None, lambda: None, port=server.port)
    with socket.socket() as probe:
        assert probe.connect_ex((server.host, server.port)) != 0


def test_a_reading_that_fails_is_said() -> None:
    def fail() -> Reading:
        raise RuntimeError("no worker")

    metrics = Metrics(fail)
    with StatusServer(metrics.text, "", lambda: None, lambda: None) as server:
        assert get(server.url + "/metrics") == (500, "RuntimeError: no worker\n")
        assert get(server.url + "/health") == (200, "ok\n")


@pytest.mark.parametrize("name", ["grafana-dashboard.json", "prometheus-alerts.yml"])
def test_examples_name_metrics_that_exist(name: str) -> None:
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    if name.endswith(".json"):
        assert len(json.loads(text)["panels"]) >= 8
    named = set(re.findall(r"\b(?:stream_leip|process)_\w+", text))
    assert len(named) > 3
    assert named <= {name for name, _ in samples(full())}
