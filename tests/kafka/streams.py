"""Streams of events for the connector, and what a KeyedMonitor makes of the same ones."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from stream_leip_connectors.config import KafkaSettings
from stream_leip_connectors.kafka import KafkaMonitor

from stream_leip import KeyedMonitor, SourceProfile
from tests.kafka.topics import read

Update = dict[str, Any]


def draw(seed: int, events: int, keys: int) -> tuple[list[str], NDArray[Any], NDArray[Any]]:
    """Keys, scores of three classes whose mix drifts, and times in milliseconds."""
    rng = np.random.default_rng(seed)
    names = [f"shop-{number}" for number in rng.integers(keys, size=events)]
    drift = np.linspace(0.2, 0.8, events)
    scores = rng.dirichlet(np.full(3, 0.5), events) * np.stack(
        [drift, 1 - drift, np.full(events, 0.3)], axis=1
    )
    scores /= scores.sum(axis=1, keepdims=True)
    times = 1_700_000_000_000 + np.cumsum(rng.integers(0, 40, events))
    times -= rng.choice([0, 300, 3000], events, p=[0.9, 0.08, 0.02])
    return names, scores, times


def messages(names: list[str], scores: NDArray[Any], times: NDArray[Any]) -> Iterator[Any]:
    for name, row, at in zip(names, scores, times.tolist(), strict=True):
        value = msgspec.json.encode({"scores": row.tolist()})
        yield {"key": name.encode(), "value": value, "timestamp_ms": at}


def expected(
    bootstrap: str,
    topic: str,
    profile: SourceProfile,
    window: Any,
    *,
    until: float | None = None,
    **options: Any,
) -> list[Update]:
    """The updates of a KeyedMonitor for each partition, fed its events in their order.

    Then, if asked, its time moves on so many seconds.
    """
    found: list[Update] = []
    partitions: dict[int, list[Any]] = {}
    for record in read(bootstrap, topic):
        partitions.setdefault(record.partition, []).append(record)
    for records in partitions.values():
        keyed = KeyedMonitor(profile, window, **options)
        names = [record.key.decode() for record in records]
        scores = np.array([msgspec.json.decode(record.value)["scores"] for record in records])
        times = np.array([record.timestamp for record in records]) / 1000.0
        updates = keyed.update_many(names, scores, times)
        if until is not None:
            updates += keyed.advance(times.max() + until)
        found += [update.to_dict() for update in updates]
    return in_order(found)


def written(bootstrap: str, topic: str) -> list[Update]:
    """The updates of a topic, as they were committed."""
    return in_order([msgspec.json.decode(record.value) for record in read(bootstrap, topic)])


def in_order(updates: list[Update]) -> list[Update]:
    return sorted(updates, key=lambda update: (update["key"], update["sequence"]))


class Running:
    """A connector in a thread of its own; what it raises comes where one waits, or at the end."""

    def __init__(self, monitor: KafkaMonitor) -> None:
        self.monitor = monitor
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.monitor.run()
        except BaseException as error:
            self._failure = error

    def until(self, true: Callable[[], bool], seconds: float = 40.0) -> None:
        """Wait for something to come true."""
        until = time.monotonic() + seconds
        while not true():
            if self._failure is not None:
                return
            assert time.monotonic() < until, "it did not come to that in time"
            time.sleep(0.02)

    def __enter__(self) -> "Running":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.monitor.stop()
        self._thread.join(30)
        assert not self._thread.is_alive(), "the connector did not stop"
        if self._failure is not None:
            raise self._failure


def settings(bootstrap: str, topic: str, **more: Any) -> KafkaSettings:
    """Of an application of its own, on a topic."""
    given = {
        "bootstrap": bootstrap,
        "input": topic,
        "updates": f"{topic}-priors",
        "group": f"{topic}-group",
        "create_topics": True,
        "commit_every": 0.2,
        "session_timeout": 6.0,
        **more,
    }
    return KafkaSettings(**given)


def all_taken(monitor: KafkaMonitor, events: int) -> Callable[[], bool]:
    return lambda: sum(counts.events for counts in monitor.counts.values()) >= events


def differences(found: list[Update], wanted: list[Update]) -> list[str]:
    """Where updates are not the same: key, sequence, field and both values."""
    ours = {(update["key"], update["sequence"]): update for update in found}
    theirs = {(update["key"], update["sequence"]): update for update in wanted}
    odd = [f"{each}: only in one of both" for each in sorted(ours.keys() ^ theirs.keys())]
    if len(ours) < len(found):
        odd.append(f"{len(found) - len(ours)} updates came twice")
    for each in sorted(ours.keys() & theirs.keys()):
        for name, value in ours[each].items():
            if value != theirs[each][name]:
                odd.append(f"{each} {name}: {value} is not {theirs[each][name]}")
    return odd
