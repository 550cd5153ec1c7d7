"""Metrics for Prometheus: read when somebody asks, so that the stream does nothing for them."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from stream_leip import Update
from stream_leip_connectors import extras


@dataclass(frozen=True)
class PartitionReading:
    """What is known of a partition now.

    Parameters
    ----------
    events, bad, late, updates, lost
        Counts since the partition's first event, over all processes that had it. `lost` were
        deleted by the topic's retention before they were read.
    keys
        That have a monitor.
    lag
        Events that are there and not yet read; None if that is not known.
    behind
        Seconds from the newest event read to now, 0 where there is no lag; None if not known.
    """

    events: int = 0
    bad: int = 0
    late: int = 0
    updates: int = 0
    lost: int = 0
    keys: int = 0
    lag: int | None = None
    behind: float | None = None


@dataclass(frozen=True)
class Reading:
    """What is known of a process now.

    Parameters
    ----------
    topic
        The input.
    partitions
        Those that this process has.
    commits, commit_seconds
        How many there were, and how long they took together.
    restores, restore_seconds
        The same of restores.
    ready
        Whether it works; if not, it waits for the brokers, or for its partitions.
    """

    topic: str
    partitions: Mapping[int, PartitionReading] = field(default_factory=dict)
    commits: int = 0
    commit_seconds: float = 0.0
    restores: int = 0
    restore_seconds: float = 0.0
    ready: bool = True


_BY_PARTITION = {
    "events": "Events read.",
    "bad": "Events that could not be used.",
    "late": "Events too late for their window.",
    "updates": "Prior updates made.",
    "lost": "Events deleted by the topic's retention before they were read.",
}
_NOW = {
    "keys": ("keys", "Keys that have a monitor."),
    "lag": ("lag_events", "Events that are there and not yet read."),
    "behind": ("lag_seconds", "From the newest event read to now; 0 without a lag."),
}
_OF_KEYS = {
    "warning": ("alarm", "Keys of which a change is likely."),
    "raised": ("alarm", "Keys of which a change is proven."),
    "flagged": ("check", "Keys of which more than the class mix has changed."),
}
_PRIOR, _LOW, _HIGH = attrgetter("prior"), attrgetter("low"), attrgetter("high")
_MEMORY, _END = attrgetter("memory"), attrgetter("end")


class Metrics:
    """What a process tells Prometheus.

    Parameters
    ----------
    read
        What is known now; called when metrics are asked for, in another thread.
    most_keys
        Keys that have series of their own, the first that come.

    Examples
    --------
    >>> from stream_leip_connectors.metrics import Metrics, PartitionReading, Reading
    >>> metrics = Metrics(lambda: Reading("predictions", {3: PartitionReading(events=1200)}))
    >>> [line for line in metrics.text().decode().splitlines() if "events_total{" in line][0]
    'stream_leip_events_total{partition="3",topic="predictions"} 1200.0'
    """

    def __init__(self, read: Callable[[], Reading], *, most_keys: int = 100) -> None:
        self._client = extras.prometheus_client()
        self._read = read
        self._most = most_keys
        self._newest: dict[str, Update] = {}
        self._of_keys: dict[str, set[str]] = {name: set() for name in _OF_KEYS}
        self._lock = threading.Lock()
        self._registry = self._client.CollectorRegistry()
        self._registry.register(self)
        self._client.ProcessCollector(registry=self._registry)
        self.content_type: str = self._client.CONTENT_TYPE_LATEST

    def note(self, updates: Iterable[Update]) -> None:
        """Remember updates, the newest of each key."""
        with self._lock:
            for update in updates:
                key = update.key or ""
                if key in self._newest or len(self._newest) < self._most:
                    self._newest[key] = update
                for name, (part, _) in _OF_KEYS.items():
                    told = getattr(update, part)
                    if told is not None and told[name]:
                        self._of_keys[name].add(key)
                    else:
                        self._of_keys[name].discard(key)

    @property
    def keys(self) -> set[str]:
        """Keys of which something is held."""
        with self._lock:
            return set(self._newest).union(*self._of_keys.values())

    def forget(self, keys: Iterable[str]) -> None:
        """Say no more of keys that have expired, or went to another process."""
        with self._lock:
            for key in keys:
                self._newest.pop(key, None)
                for held in self._of_keys.values():
                    held.discard(key)

    def text(self) -> bytes:
        """The metrics, as Prometheus reads them."""
        found: bytes = self._client.generate_latest(self._registry)
        return found

    def describe(self) -> list[Any]:
        """Nothing: a registry would otherwise collect when this is made."""
        return []

    def collect(self) -> Iterator[Any]:
        """The metrics, for a registry of prometheus_client."""
        reading = self._read()
        yield from self._partitions(reading)
        family = self._client.metrics_core.SummaryMetricFamily
        for name, text, count, seconds in (
            ("commit", "Seconds that commits took.", reading.commits, reading.commit_seconds),
            ("restore", "Seconds that restores took.", reading.restores, reading.restore_seconds),
        ):
            yield family(f"stream_leip_{name}_seconds", text, count, seconds)
        yield self._gauge("ready", "Whether it works, as /ready.", [], [([], reading.ready)])
        with self._lock:
            newest = dict(self._newest)
            counts = {name: len(keys) for name, keys in self._of_keys.items()}
        for name, number in counts.items():
            yield self._gauge(f"keys_{name}", _OF_KEYS[name][1], [], [([], number)])
        yield from self._keys(newest)

    def _partitions(self, reading: Reading) -> Iterator[Any]:
        names = ["topic", "partition"]
        known = [([reading.topic, str(k)], each) for k, each in sorted(reading.partitions.items())]
        for name, text in _BY_PARTITION.items():
            stem = name if name in ("events", "updates") else f"{name}_events"
            counter = self._client.metrics_core.CounterMetricFamily(
                f"stream_leip_{stem}", text, labels=names
            )
            for labels, partition in known:
                counter.add_metric(labels, getattr(partition, name))
            yield counter
        for name, (shown, text) in _NOW.items():
            values = [(labels, getattr(partition, name)) for labels, partition in known]
            yield self._gauge(shown, text, names, values)

    def _keys(self, newest: Mapping[str, Update]) -> Iterator[Any]:
        for name, text, shares in (
            ("prior", "Share of a class.", _PRIOR),
            ("prior_low", "Lower end of its interval.", _LOW),
            ("prior_high", "Upper end of its interval.", _HIGH),
        ):
            values = [
                ([key, label], float(share))
                for key, update in newest.items()
                if shares(update) is not None
                for label, share in zip(update.classes, shares(update), strict=True)
            ]
            yield self._gauge(name, text, ["key", "class"], values)
        for name, text, value in (
            ("memory_events", "How many events back an adaptive window looks.", _MEMORY),
            ("update_end_seconds", "Event time at which the newest update ends.", _END),
            ("alarm_warning", "Whether a change is likely.", _state("alarm", "warning")),
            ("alarm_raised", "Whether a change is proven.", _state("alarm", "raised")),
            ("check_flagged", "Whether more than the mix changed.", _state("check", "flagged")),
        ):
            held = [([key], value(update)) for key, update in newest.items()]
            yield self._gauge(name, text, ["key"], held)

    def _gauge(
        self,
        name: str,
        text: str,
        labels: list[str],
        values: Iterable[tuple[list[str], float | None]],
    ) -> Any:
        gauge = self._client.metrics_core.GaugeMetricFamily(
            f"stream_leip_{name}", text, labels=labels
        )
        for held, value in values:
            if value is not None:
                gauge.add_metric(held, value)
        return gauge


def _state(part: str, name: str) -> Callable[[Update], float | None]:
    def held(update: Update) -> float | None:
        told = getattr(update, part)
        return None if told is None else float(bool(told[name]))

    return held
