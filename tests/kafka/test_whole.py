"""One mix for a whole topic: exact against a batch over all partitions."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from stream_leip_connectors.kafka import KafkaMonitor
from stream_leip_connectors.kafka.errors import StateError
from stream_leip_connectors.kafka.slices import Slice

from stream_leip import Adaptive, Fading, InputError, Monitor, Sliding, Tumbling
from tests.commands import run
from tests.kafka.conftest import NewTopic
from tests.kafka.streams import Running, all_taken, draw, messages, settings
from tests.kafka.topics import read, write
from tests.strategies import make_profile
from tests.streams import PROFILE

pytestmark = pytest.mark.needs_kafka


def feed(bootstrap: str, topic: str, seed: int = 0, events: int = 2000) -> None:
    """Events of many keys; times go on from seed to seed."""
    names, scores, times = draw(seed, events, 40)
    write(bootstrap, topic, messages(names, scores, times + 60_000 * seed))


def reference(
    bootstrap: str, topic: str, window: Any, lateness: float
) -> tuple[list[dict[str, Any]], int]:
    """The updates of one monitor fed with all events in order, and how many were late.

    The slow way: event by event, partition by partition.
    """
    newest: dict[int, float] = {}
    kept: list[tuple[float, int, int, list[float]]] = []
    late = 0
    for record in read(bootstrap, topic):
        at = record.timestamp / 1000.0
        before = newest.get(record.partition, -np.inf)
        if at < before - lateness:
            late += 1
        else:
            scores = msgspec.json.decode(record.value)["scores"]
            kept.append((at, record.partition, record.offset, scores))
        newest[record.partition] = max(before, at)
    mark = min(newest.values()) - lateness
    monitor = Monitor(PROFILE, window)
    updates = []
    for at, _, _, scores in sorted(kept):
        if at < mark:
            updates += monitor.update(np.array(scores), at)
    if window.needs_time:
        updates += monitor.advance(mark)
    return [{**update.to_dict(), "key": topic} for update in updates], late


def by_sequence(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    found = [msgspec.json.decode(record.value) for record in read(bootstrap, f"{topic}-priors")]
    return sorted(found, key=lambda update: int(update["sequence"]))


def check(bootstrap: str, topic: str, window: Any, lateness: float) -> int:
    wanted, late = reference(bootstrap, topic, window, lateness)
    found = by_sequence(bootstrap, topic)
    assert len(wanted) > 5
    assert found == msgspec.json.decode(msgspec.json.encode(wanted))
    return late


def merged(monitor: KafkaMonitor, number: int) -> Callable[[], bool]:
    return lambda: monitor.total.updates >= number


WINDOWS = [
    (Tumbling(seconds=5.0, lateness=1.0), Tumbling(seconds=5.0), 1.0),
    (Sliding(seconds=6.0, every=2.0, lateness=0.5), Sliding(seconds=6.0, every=2.0), 0.5),
    (Adaptive(every=100), Adaptive(every=100), 2.0),
]


@pytest.mark.parametrize(("window", "ordered", "lateness"), WINDOWS, ids=str)
def test_it_is_a_batch_over_all_partitions(
    bootstrap: str, new_topic: NewTopic, window: Any, ordered: Any, lateness: float
) -> None:
    topic = new_topic(3)
    given = settings(bootstrap, topic, scope="topic", lateness=2.0)
    done = 0
    for seed in range(2):  # the second run goes on where the first ended
        feed(bootstrap, topic, seed)
        done = len(reference(bootstrap, topic, ordered, lateness)[0]) - done
        monitor = KafkaMonitor(PROFILE, given, window)
        with Running(monitor) as one:
            one.until(all_taken(monitor, 2000 * (seed + 1)))
            one.until(merged(monitor, done))
    late = check(bootstrap, topic, ordered, lateness)
    letters = read(bootstrap, f"{topic}-dead-letters")
    assert len(letters) == late > 0


@pytest.mark.usefixtures("client")
def test_the_number_of_workers_makes_no_difference(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(4)
    window = Tumbling(seconds=3.0, lateness=1.0)
    given = settings(bootstrap, topic, scope="topic")
    first, second = (KafkaMonitor(PROFILE, given, window) for _ in range(2))
    feed(bootstrap, topic, 0)
    with Running(first) as one:
        one.until(lambda: first.total.events >= 2000)
        with Running(second) as two:
            two.until(lambda: len(first.counts) == 2 and len(second.counts) == 2)
            feed(bootstrap, topic, 1)
            two.until(lambda: first.total.events + second.total.events >= 4000)
        # Whichever merged, the one that stays goes on.
        feed(bootstrap, topic, 2)
        one.until(lambda: first.total.events + second.total.events >= 6000)
        wanted = len(reference(bootstrap, topic, Tumbling(seconds=3.0), 1.0)[0])
        one.until(lambda: first.total.updates + second.total.updates >= wanted)
    check(bootstrap, topic, Tumbling(seconds=3.0), 1.0)


def test_partitions_without_events_are_waited_for_unless_idle(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    names, scores, times = draw(0, 1000, 1)  # one key, so one partition
    times = np.sort(times)
    write(bootstrap, topic, messages(names, scores, times))
    window = Tumbling(seconds=2.0)
    waits = KafkaMonitor(PROFILE, settings(bootstrap, topic, scope="topic"), window)
    with Running(waits) as one:
        one.until(lambda: waits.total.events >= 1000)
    assert by_sequence(bootstrap, topic) == []
    goes_on = KafkaMonitor(PROFILE, settings(bootstrap, topic, scope="topic", idle=0.5), window)
    with Running(goes_on) as one:
        one.until(merged(goes_on, 5))
    monitor = Monitor(PROFILE, window)
    updates = monitor.update_many(scores, times / 1000.0)
    wanted = [{**update.to_dict(), "key": topic} for update in updates]
    found = by_sequence(bootstrap, topic)
    assert found[: len(wanted)] == msgspec.json.decode(msgspec.json.encode(wanted))


def test_what_has_no_meaning_is_refused(bootstrap: str, tmp_path: Path) -> None:
    given = settings("localhost:9", "t", scope="topic")
    for window in (Tumbling(count=100), Sliding(count=100, every=50), Fading(half_life=100)):
        with pytest.raises(InputError, match="have no common one"):
            KafkaMonitor(PROFILE, given, window)
    more = settings("localhost:9", "t", scope="topic", model_field="model")
    with pytest.raises(InputError, match="several models; run each by itself"):
        KafkaMonitor({"a": PROFILE}, more)
    with pytest.raises(InputError, match="adopt"):
        KafkaMonitor(PROFILE, given, adopt=True)


def test_another_profile_is_refused_until_a_reset(
    bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    feed(bootstrap, topic)
    given = settings(bootstrap, topic, scope="topic")
    monitor = KafkaMonitor(PROFILE, given, Tumbling(seconds=5.0))
    with Running(monitor) as one:
        one.until(merged(monitor, 3))
    other = KafkaMonitor(
        make_profile(PROFILE.soft_prior[::-1].copy()), given, Tumbling(seconds=5.0)
    )
    with pytest.raises(StateError, match="the state of profile"), Running(other) as one:
        one.until(merged(other, 1))
    flags = ["--bootstrap", bootstrap, "--input", topic, "--group", given.group, "--yes"]
    done = run("kafka", "reset", *flags, "--scope", "topic", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    again = KafkaMonitor(PROFILE, given, Tumbling(seconds=5.0))
    with Running(again) as one:
        one.until(merged(again, 3))


def test_slices_that_are_too_large_for_a_record_are_parted() -> None:
    rng = np.random.default_rng(0)
    n, m = 5000, 100
    times = np.cumsum(rng.normal(1.0, 2.0, n))
    rows = rng.random((n, m), np.float32)
    whole = Slice(3, 0.0, False, rows, times, np.arange(n))
    parts = list(whole.parts(lateness=2.0, before=10.0))
    assert len(parts) > 2
    assert max(len(part.to_bytes()) for part in parts) < 800_000
    read_back = [Slice.from_bytes(part.to_bytes()) for part in parts]
    np.testing.assert_array_equal(np.concatenate([each.rows for each in read_back]), rows)
    np.testing.assert_array_equal(np.concatenate([each.times for each in read_back]), times)
    seen = 10.0
    for each in read_back:
        seen = max(seen, float(each.times.max()))
        assert each.mark == seen - 2.0
