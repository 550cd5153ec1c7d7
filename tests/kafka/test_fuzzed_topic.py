"""Bad records among good ones, through the connector: none of either kind goes astray."""

from typing import Any

import numpy as np
import pytest
from stream_leip_connectors.events import FLOAT32, JSON, Fields
from stream_leip_connectors.kafka import KafkaMonitor
from stream_leip_connectors.kafka.local import LocalBroker

from stream_leip import KeyedMonitor, Tumbling
from tests.kafka.corrupting import batches, flip_a_byte, name_codec, segment
from tests.kafka.streams import Running, differences, in_order, settings, written
from tests.kafka.test_dead_letters import ours
from tests.kafka.test_decoding import slow
from tests.kafka.topics import read, write
from tests.test_events import PROFILE, M, plain
from tests.test_fuzzed_file import fuzz

pytestmark = pytest.mark.needs_kafka

WINDOW = Tumbling(count=100)
KEYS = [b"shop-%d" % number for number in range(20)]


def some(good: int, fuzzed: int) -> list[dict[str, Any]]:
    """Events with key, in JSON or float32, and what is left of such after a mishap."""
    rng = np.random.default_rng(0)
    rows = rng.dirichlet([0.4] * M, good)
    values = [
        row.astype("<f4").tobytes() if i % 5 == 0 else plain({"id": i, "scores": row.tolist()})
        for i, row in enumerate(rows)
    ]
    raw = [("content-type", FLOAT32.encode())]
    found: list[dict[str, Any]] = [
        {"key": KEYS[rng.integers(20)], "value": value, "headers": [] if i % 5 else raw}
        for i, value in enumerate(values)
    ]
    odd = [{"key": None}, {"key": b"\xff"}, {"headers": [("content-type", b"text/plain")]},
           {"value": None}]  # fmt: skip
    for i in rng.integers(good, size=fuzzed).tolist():
        change = odd[rng.integers(4)] if rng.random() < 0.1 else {"value": fuzz(values[i], rng)}
        spoilt = found[i] | change
        if spoilt["key"] is None and spoilt["value"] is None:
            spoilt["key"] = b"k"
        found.append(spoilt)
    return [found[i] for i in rng.permutation(len(found))]


@pytest.mark.parametrize(
    ("good", "fuzzed"), [(5_000, 5_000), pytest.param(50_000, 100_000, marks=pytest.mark.slow)]
)
def test_bad_records_are_buried_and_good_ones_counted(
    bootstrap: str, new_topic: Any, good: int, fuzzed: int
) -> None:
    topic = new_topic(4)
    write(bootstrap, topic, some(good, fuzzed), compression_type="lz4")
    monitor = KafkaMonitor(PROFILE, settings(bootstrap, topic, commit_every=1.0), WINDOW)
    with Running(monitor) as running:
        running.until(lambda: monitor.total.events >= good + fuzzed, 180.0)
    bad: dict[tuple[int, int], Any] = {}
    wanted: list[dict[str, Any]] = []
    taken: dict[int, list[Any]] = {}
    for record in read(bootstrap, topic):
        event = slow(record, Fields(), True, True, JSON)
        if event is None:
            bad[record.partition, record.offset] = record
        else:
            taken.setdefault(record.partition, []).append(event)
    for events in taken.values():
        rows, times, keys = zip(*events, strict=True)
        keyed = KeyedMonitor(PROFILE, WINDOW)
        wanted += [each.to_dict() for each in keyed.update_many(keys, np.array(rows), times)]
    assert len(bad) > 0.8 * fuzzed
    letters = read(bootstrap, f"{topic}-dead-letters")
    assert len(letters) == len(bad)
    for letter in letters:
        said = ours(letter.headers)
        record = bad.pop((int(said["partition"]), int(said["offset"])))
        assert (letter.key, letter.value) == (record.key, record.value or b"")
        assert said["reason"]
    assert not bad
    found = written(bootstrap, f"{topic}-priors")
    # Of bad events, those that named a key are that key's; the others are nobody's.
    for update in [*found, *wanted]:
        update.pop("bad")
    assert differences(found, in_order(wanted)) == []


def test_unreadable_batches_are_passed_over(broker: LocalBroker) -> None:
    from benchmarks.chaos_worker import create

    create(broker.bootstrap, "in", 1)
    rows = np.random.default_rng(0).dirichlet([0.4] * M, 300)
    values = [plain({"scores": row.tolist()}) for row in rows]
    for part in range(10):
        chunk = values[30 * part : 30 * part + 30]
        write(broker.bootstrap, "in", [{"key": b"k", "value": each} for each in chunk])
    broker.stop()
    file = segment(broker.folder, "in")
    data = bytearray(file.read_bytes())
    there = batches(bytes(data))
    flip_a_byte(data, there[0])
    name_codec(data, there[len(there) // 2], 6)  # of no codec
    name_codec(data, there[-2], 1)  # not gzip
    file.write_bytes(data)
    broker.start()
    lost = [
        offset
        for each in (there[0], there[len(there) // 2], there[-2])
        for offset in range(each.first, each.last + 1)
    ]

    monitor = KafkaMonitor(PROFILE, settings(broker.bootstrap, "in"), Tumbling(count=50))
    with Running(monitor) as running:
        running.until(lambda: monitor.total.events >= 300 - len(lost), 60.0)

    letters = [ours(each.headers) for each in read(broker.bootstrap, "in-dead-letters")]
    buried = [
        offset
        for said in letters
        for offset in range(int(said["offset"]), int(said["last-offset"]) + 1)
    ]
    assert buried == lost
    assert all(said["reason"] for said in letters)
    kept = np.delete(rows, lost, axis=0)
    keyed = KeyedMonitor(PROFILE, Tumbling(count=50))
    wanted = [each.to_dict() for each in keyed.update_many(["k"] * len(kept), kept)]
    found = written(broker.bootstrap, "in-priors")
    for update in [*found, *wanted]:
        for name in ("bad", "start", "end"):
            update.pop(name)
    assert differences(found, wanted) == []
