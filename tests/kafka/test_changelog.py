"""What a task writes is what the next one reads."""

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_leip_connectors.kafka import changelog
from stream_leip_connectors.kafka.blueprint import Blueprint, Identity
from stream_leip_connectors.kafka.changelog import Head, Held, Log, Place, head_bytes
from stream_leip_connectors.kafka.decoding import RecordDecoder
from stream_leip_connectors.kafka.errors import RetentionLoss, StateError
from stream_leip_connectors.kafka.records import Message, OneRecord, Records
from stream_leip_connectors.kafka.restoring import Restorer, Situation
from stream_leip_connectors.kafka.task import Task

from stream_leip import Adaptive, KeyedMonitor, Sliding, SnapshotError, Tumbling
from tests.kafka.streams import draw
from tests.strategies import make_profile
from tests.streams import PROFILE, plain

IDENTITY = Identity("app", "predictions", 4, 3)
DECODER = RecordDecoder(PROFILE)
OTHER = make_profile(np.array([0.3, 0.3, 0.4]))


def records(events: int, keys: int = 4, first: int = 0, bad: int | None = None) -> Records:
    """Every so many of them are bad."""
    names, scores, times = draw(1, events, keys)
    if bad is not None:
        scores[::bad] += 1.0
    return Records(
        "predictions",
        3,
        list(range(first, first + events)),
        times.tolist(),
        [name.encode() for name in names],
        [msgspec.json.encode({"scores": row.tolist()}) for row in scores],
    )


def read(written: Iterable[Message]) -> Records:
    """Messages as they come out of a topic."""
    return Records.of(
        [OneRecord("log", 3, i, 0, key, value, []) for i, (key, value, _) in enumerate(written)]
    )


class Topic:
    """A changelog's partition in memory, compacted or not."""

    def __init__(self) -> None:
        self.records: list[Message] = []

    def write(self, task: Task) -> int:
        task.updates.clear()
        new = list(task.changes())
        self.records += new
        return sum(len(each.value or b"") for each in new)

    def held(self) -> Held:
        held = Held()
        if self.records:
            held.take(read(self.records))
        return held

    def live(self) -> dict[bytes, bytes]:
        return self.held()._values

    def restore(self, restorer: Restorer, offset: int, end: int = 10**6, first: int = 0) -> Task:
        return restorer.task(IDENTITY, Situation(offset, first, end), self.held().contents())


def restorer(window: Any = None, profile: Any = PROFILE, **more: Any) -> Restorer:
    options = more.pop("options", {})
    return Restorer(
        Blueprint(profile, window or Sliding(count=40, every=10), "auto", options),
        DECODER, "log", **more,
    )  # fmt: skip


def batches(all_records: Records, cuts: set[int]) -> Iterator[Records]:
    edges = [0, *sorted(cut for cut in cuts if cut < len(all_records)), len(all_records)]
    return (all_records.some(range(a, b)) for a, b in itertools.pairwise(edges) if a < b)


CASES: list[tuple[Any, dict[str, Any]]] = [
    (Tumbling(count=20), {}),
    (Sliding(count=40, every=10), {}),
    (Sliding(count=40, every=10), {"max_keys": 3}),
    (Tumbling(seconds=2.0, lateness=0.5), {}),
    (Adaptive(every=50), {"max_rows": 100}),
    (Tumbling(count=30), {"alarm": 0.05, "top_k": 2}),
]


@pytest.mark.parametrize(("window", "options"), CASES, ids=str)
@settings(max_examples=8)
@given(cuts=st.sets(st.integers(1, 500), max_size=10))
def test_a_task_restored_at_every_commit_is_the_same(
    window: Any, options: dict[str, Any], cuts: set[int]
) -> None:
    keyed = KeyedMonitor(PROFILE, window, on_bad="skip", **options)
    topic = Topic()
    restore = restorer(window, options=options)
    task = Task(IDENTITY, restore.blueprint, DECODER, 0)
    for batch in batches(records(500, bad=7), cuts):
        task.take(batch)
        expected = keyed.update_many(*arrays(batch))
        assert plain(task.updates) == plain(expected)
        topic.write(task)
        task = topic.restore(restore, task.offset)
        assert list(task.keyed) == list(keyed)
        for key in keyed:
            assert task.keyed.monitor(key).snapshot() == keyed.monitor(key).snapshot()


def arrays(batch: Records) -> tuple[list[str], list[Any], Any]:
    """Keys, scores and times of records, one by one."""
    names = [(each.key or b"").decode() for each in batch]
    scores = [msgspec.json.decode(each.value or b"")["scores"] for each in batch]
    return names, scores, np.array([each.timestamp for each in batch]) / 1000.0


@pytest.mark.parametrize(
    "window",
    [
        Tumbling(seconds=2.0, lateness=0.5),
        Tumbling(seconds=0.5, emit_empty=True),
        Sliding(seconds=3.0, every=1.0),
    ],
    ids=str,
)
@settings(max_examples=12)
@given(cuts=st.sets(st.integers(1, 500), max_size=10), idle=st.sampled_from([0.0, 0.3, 2.0]))
def test_idle_keys_are_closed_and_stay_so_over_restores(
    window: Any, cuts: set[int], idle: float
) -> None:
    keyed = KeyedMonitor(PROFILE, window, on_bad="skip")
    topic = Topic()
    restore = restorer(window, idle=idle)
    task = Task(IDENTITY, restore.blueprint, DECODER, 0, idle=idle)
    latest = 0.0

    def check(task: Task, expected: Any) -> Task:
        assert plain(task.updates) == plain(expected)
        topic.write(task)
        restored = topic.restore(restore, task.offset)
        assert not restored.updates
        assert not restored.dirty
        for key in keyed:
            assert restored.keyed.monitor(key).snapshot() == keyed.monitor(key).snapshot()
        return restored

    for batch in batches(records(500, keys=6), cuts):
        task.take(batch)
        names, scores, times = arrays(batch)
        latest = max(latest, times.max())
        task.advance(7.0, at_end=False)
        expected = keyed.update_many(names, scores, times)
        task = check(task, [*expected, *keyed.advance(latest - idle)])
    # No more events: the clock goes on.
    task.advance(100.0, at_end=True)
    assert not task.updates
    task.advance(101.5, at_end=True)
    task = check(task, keyed.advance(latest + 1.5 - idle))
    task.advance(300.0, at_end=True)  # which does not know since when there were none
    assert not task.updates
    task.advance(400.0, at_end=True)
    check(task, keyed.advance(latest + 100.0 - idle))
    assert all(not keyed.estimate(key).n for key in keyed)


def test_a_restore_tells_what_a_key_of_old_events_has_to_say() -> None:
    """A key that is new since the last advance, written by a commit before partitions go."""
    topic = Topic()
    restore = restorer(Tumbling(seconds=2.0), idle=1.0)
    task = Task(IDENTITY, restore.blueprint, DECODER, 0, idle=1.0)
    task.take(records(300))
    task.advance(0.0, at_end=False)
    late = records(1)
    task.take(Records("predictions", 3, [300], late.timestamps, [b"new"], late.values))
    topic.write(task)
    restored = topic.restore(restore, 301)
    assert [update.key for update in restored.updates] == ["new"]
    assert restored.dirty
    topic.write(restored)
    assert not topic.restore(restore, 301).updates


def test_only_what_changed_is_written_and_what_is_over_taken_back() -> None:
    topic = Topic()
    restore = restorer(Sliding(count=400, every=10))
    task = Task(IDENTITY, restore.blueprint, DECODER, 0)
    sizes = []
    for batch in batches(records(8000, 2), set(range(100, 8000, 100))):
        task.take(batch)
        sizes.append(topic.write(task))
    # The profile goes with the first; then 100 rows of 12 bytes, and small states.
    assert max(sizes[1:]) < 100 * 12 + 2 * 4500
    chunks = list(topic.held().contents().chunks().values())
    assert sum(len(chunk) for each in chunks for chunk in each["window"]) <= 2 * 600
    assert len(topic.live()) < 40


def test_large_values_are_split_and_shrink(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changelog, "PART", 100)
    log, held = Log(), Held()
    place = Place("key", "a")
    for data in (b"x" * 950, b"y" * 101, b""):
        log.put(place, data)
        held.take(read(log.drain()))
        assert held.contents()._data == {place: data}
    log.take_back(place)
    held.take(read(log.drain()))
    assert not held._values


def committed(window: Any = None, profile: Any = PROFILE) -> tuple[Topic, Task]:
    restore = restorer(window, profile)
    task = Task(IDENTITY, restore.blueprint, DECODER, 0)
    task.take(records(300))
    topic = Topic()
    topic.write(task)
    return topic, task


def test_a_state_at_another_offset_is_refused() -> None:
    topic, task = committed()
    with pytest.raises(StateError, match=r"at input offset 300, but group 'app' has committed 299"):
        topic.restore(restorer(), task.offset - 1)
    with pytest.raises(StateError, match="there is no state, but group 'app' has committed"):
        Topic().restore(restorer(), 5)


def test_the_state_of_something_else_is_refused() -> None:
    topic, task = committed()
    found = Situation(task.offset, 0, 10**6)
    contents = topic.held().contents()
    other = {
        "group 'app' on topic": Identity("other", "predictions", 4, 3),
        "on topic 'predictions', not": Identity("app", "others", 4, 3),
        "keys may have moved": Identity("app", "predictions", 8, 3),
    }
    for words, identity in other.items():
        with pytest.raises(StateError, match=words):
            restorer().task(identity, found, contents)
    with pytest.raises(StateError, match="--adopt"):
        topic.restore(restorer(profile=OTHER), task.offset)
    with pytest.raises(StateError, match=r"made with window '.*', not '"):
        topic.restore(restorer(Tumbling(count=10)), task.offset)


def test_events_that_are_gone_are_noticed() -> None:
    topic, task = committed()
    with pytest.raises(RetentionLoss, match="offsets 300 to 349 were deleted"):
        topic.restore(restorer(), task.offset, first=350)
    restored = topic.restore(restorer(on_loss="continue"), task.offset, first=350)
    assert (restored.offset, restored.counts.lost, restored.dirty) == (350, 50, True)
    with pytest.raises(StateError, match="made anew"):
        topic.restore(restorer(), task.offset, end=100)


@pytest.mark.parametrize("settings", [{"profile": OTHER}, {"window": Tumbling(count=10)}])
def test_adopting_closes_panes_and_starts_clean(settings: dict[str, Any]) -> None:
    topic, task = committed()
    last = [task.keyed.estimate(key) for key in task.keyed]
    adopted = topic.restore(restorer(adopt=True, **settings), task.offset)
    assert plain(adopted.updates) == plain(last)
    assert len(adopted.keyed) == 0
    assert adopted.counts.updates == task.counts.updates + len(last)
    topic.write(adopted)
    again = topic.restore(restorer(**settings), adopted.offset)
    assert (len(again.keyed), again.offset, again.updates) == (0, 300, [])
    kinds = sorted(Place(*msgspec.msgpack.decode(key)[:4]).kind for key in topic.live())
    assert kinds == ["head", "profile"]


def test_corrupt_records_are_refused() -> None:
    topic, task = committed()
    for number, record in enumerate(topic.records):
        broken = Topic()
        broken.records = list(topic.records)
        value = bytearray(record.value or b"")
        value[len(value) // 2] ^= 1
        broken.records[number] = record._replace(value=bytes(value))
        kind = msgspec.msgpack.decode(record.key or b"")[0]
        if kind == "profile":  # read only by who adopts another
            with pytest.raises(SnapshotError, match="checksum"):
                broken.held().contents().profile()
            continue
        with pytest.raises(StateError, match=r"checksum.*kafka reset"):
            broken.restore(restorer(), task.offset)
    topic.records.append(Message(b"hello", b"world", []))
    with pytest.raises(SnapshotError, match="no key of stream-leip"):
        topic.held().contents()


def test_a_head_is_read_as_it_was_written() -> None:
    head = Head(7, "app", "t", 4, "f" * 64, {"window": "x"}, 3, {"events": 9})
    log, held = Log(), Held()
    log.put(Place("head"), head_bytes(head))
    held.take(read(log.drain()))
    assert held.contents().head() == head


def test_late_events_become_dead_letters() -> None:
    task = Task(IDENTITY, restorer(Tumbling(seconds=1.0)).blueprint, DECODER, 0)
    task.take(records(400))
    monitors = [task.keyed.monitor(key) for key in task.keyed]
    assert task.counts.late == sum(monitor.late for monitor in monitors) > 0
    assert len(task.letters) == task.counts.late
    offsets = [int(dict(letter.headers)["stream-leip.offset"]) for letter in task.letters]
    assert len(set(offsets)) == len(offsets)
    seen: dict[bytes | None, float] = {}
    late = []
    for each in records(400):
        newest = seen[each.key] = max(seen.get(each.key, 0), each.timestamp)
        if each.timestamp // 1000 < newest // 1000:
            late.append(each.offset)
    assert sorted(offsets) == late
