"""What the processes of benchmarks.chaos do."""

import logging
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

import msgspec
import numpy as np
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from stream_leip_connectors.config import KafkaSettings
from stream_leip_connectors.kafka.monitor import KafkaMonitor
from stream_leip_connectors.window_text import parse_window

from stream_leip import KeyedMonitor, Monitor, SourceProfile, fit_profile

log = logging.getLogger(__name__)

_CLASSES = 5


def _profile() -> SourceProfile:
    rng = np.random.default_rng(0)
    labels = rng.integers(_CLASSES, size=2000)
    scores = 3.0 * np.eye(_CLASSES)[labels] + rng.normal(size=(2000, _CLASSES))
    return fit_profile(scores, labels, seed=0)


# Once, before workers are forked.
PROFILE = _profile()
KeyedMonitor(PROFILE).update_many(["a"] * 200, np.zeros((200, _CLASSES)))


def messages(seed: int, keys: int) -> Iterator[dict[str, Any]]:
    """Events without end, of keys whose mixes drift; a few are late, by their timestamp."""
    rng = np.random.default_rng(seed)
    at = 1_700_000_000_000
    while True:
        labels = rng.choice(_CLASSES, 1000, p=rng.dirichlet(np.full(_CLASSES, 2.0)))
        scores = 3.0 * np.eye(_CLASSES)[labels] + rng.normal(size=(1000, _CLASSES))
        for row, key in zip(scores.round(6).tolist(), rng.integers(keys, size=1000), strict=True):
            at += 5
            late = 2000 if rng.random() < 0.02 else 0
            value = msgspec.json.encode({"scores": row})
            yield {"key": f"key-{key}".encode(), "value": value, "timestamp_ms": at - late}


def run(settings: dict[str, Any], window: str) -> None:
    """Be a worker until SIGTERM."""
    for client in ("kafka", "confluent_kafka"):
        logging.getLogger(client).setLevel(logging.CRITICAL)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(process)d %(message)s")
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())  # it may come before there is a monitor
    monitor = KafkaMonitor(PROFILE, KafkaSettings(**settings), parse_window(window))
    signal.signal(signal.SIGTERM, lambda *_: monitor.stop())
    if asked.is_set():
        return
    while True:
        try:
            monitor.run()
        except Exception as error:
            # As a supervisor would, start again: at first the broker may be away.
            log.error("a worker ended: %s", error)
            time.sleep(0.5)
        else:
            return


def reference(bootstrap: str, topic: str, window: str, scope: str, sender: Connection) -> None:
    """Send the updates of a KeyedMonitor for each partition, or of one monitor for all."""
    if scope == "topic":
        sender.send(_of_the_topic(bootstrap, topic, window))
        return
    found: list[dict[str, Any]] = []
    partitions: dict[int, list[Any]] = {}
    for record in read(bootstrap, topic):
        partitions.setdefault(record.partition, []).append(record)
    for records in partitions.values():
        keyed = KeyedMonitor(PROFILE, parse_window(window))
        names = [record.key.decode() for record in records]
        scores = np.array([msgspec.json.decode(record.value)["scores"] for record in records])
        times = np.array([record.timestamp for record in records]) / 1000.0
        found += [each.to_dict() for each in keyed.update_many(names, scores, times)]
    sender.send(found)


def _of_the_topic(bootstrap: str, topic: str, window: str) -> list[dict[str, Any]]:
    """Of all events that are not late in their partition, in order, up to the watermark."""
    given: Any = parse_window(window)
    lateness = float(given.lateness)
    newest: dict[int, float] = {}
    kept: list[tuple[float, int, int, list[float]]] = []
    for record in read(bootstrap, topic):
        at, before = record.timestamp / 1000.0, newest.get(record.partition, 0.0)
        if at >= before - lateness:
            row = msgspec.json.decode(record.value)["scores"]
            kept.append((at, record.partition, record.offset, row))
        newest[record.partition] = max(at, before)
    mark = min(newest.values()) - lateness
    events = [event for event in sorted(kept) if event[0] < mark]
    monitor = Monitor(PROFILE, replace(given, lateness=0.0))
    times = np.array([event[0] for event in events])
    updates = monitor.update_many(np.array([event[3] for event in events]), times)
    found = [*updates, *monitor.advance(mark)]
    return [{**update.to_dict(), "key": topic} for update in found]


def create(bootstrap: str, topic: str, partitions: int) -> None:
    """Make the input topic."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics({topic: {"num_partitions": partitions}}, wait_for_metadata=True)
    admin.close()


def updates(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    """What was committed to a topic."""
    return [msgspec.json.decode(record.value) for record in read(bootstrap, topic)]


def read(bootstrap: str, topic: str) -> list[Any]:
    """Every committed record of a topic."""
    settings = {"bootstrap_servers": bootstrap, "enable_auto_commit": False}
    consumer = KafkaConsumer(
        **settings, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    partitions = [TopicPartition(topic, each) for each in consumer.partitions_for_topic(topic)]
    with KafkaConsumer(**settings) as uncommitted:
        ends = uncommitted.end_offsets(partitions)
    consumer.assign(partitions)
    found: list[Any] = []
    while any(consumer.position(each) < end for each, end in ends.items()):
        for records in consumer.poll(500, max_records=10_000).values():
            found += records
    consumer.close()
    return found


def wait_until_written(bootstrap: str, topic: str, number: int, seconds: float = 40.0) -> None:
    """Until a topic has so many updates; it is for others to see if they never come."""
    until = time.monotonic() + seconds
    while len(read(bootstrap, topic)) < number and time.monotonic() < until:
        time.sleep(0.5)


def wait_until_read(bootstrap: str, topic: str, group: str, seconds: float = 40.0) -> None:
    """Until the group has committed all; TimeoutError if it gets no further for so long."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False)
    partitions = [TopicPartition(topic, each) for each in consumer.partitions_for_topic(topic)]
    ends = consumer.end_offsets(partitions)
    until, least = time.monotonic() + seconds, sum(ends.values())
    while True:
        committed = {each: consumer.committed(each) or 0 for each in partitions}
        behind = {each.partition: ends[each] - committed[each] for each in partitions}
        if not any(behind.values()):
            break
        if sum(behind.values()) < least:
            least, until = sum(behind.values()), time.monotonic() + seconds
        if time.monotonic() > until:
            raise TimeoutError(f"for {seconds:g} s partitions have been behind by {behind}")
        time.sleep(0.2)
    consumer.close()
