"""What both stages do, without Spark itself: slices, waiting, release."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stream_leip import Adaptive, InputError, Sliding, Tumbling
from tests.spark.streams import Events, Update, differences, draw, expected, in_order
from tests.streams import PROFILE

pytestmark = pytest.mark.needs_spark


class Shelf(dict[str, bytes]):
    """Snapshots in memory."""

    def put(self, key: str, snapshot: bytes) -> None:
        self[key] = snapshot

    def remove(self, key: str) -> None:
        self.pop(key, None)


class Bucket:
    """A bucket in memory, with the watermark in our hands."""

    def __init__(self, window: Any, *, idle: float | None = None, keyed: bool = True) -> None:
        from stream_leip_connectors.spark.bucket import Note, Plan
        from stream_leip_connectors.spark.slicing import slicer

        self.plan = Plan(window, "auto", {}, keyed, idle)
        self.note = Note()
        self.shelf: Any = Shelf()
        self.waiting: list[bytes] = []
        self._slices = slicer(lambda: PROFILE, "json", 1, keyed=keyed)

    def take(self, events: Events) -> None:
        from stream_leip_connectors.spark.bucket import Note, take_in
        from stream_leip_connectors.spark.held import Held

        lists = pa.array(list(events.scores))
        micros, keys = pa.array(events.micros), pa.array([key.encode() for key in events.keys])
        batch = pa.RecordBatch.from_arrays([lists, micros, keys], names=["scores", "micros", "key"])
        for slices in self._slices(iter([batch])):
            parts = [Held.from_bytes(each) for each in slices.column("held").to_pylist()]
            note = Note.from_bytes(self.note.to_bytes())  # as it comes from the store
            self.waiting.append(take_in(note, Held.join(parts, 3)).to_bytes())
            self.note = note

    def advance(self, mark: float) -> list[Update]:
        from stream_leip_connectors.spark.bucket import release
        from stream_leip_connectors.spark.held import Held

        edge = self.plan.edge(mark)
        if edge <= self.note.released:
            return []
        held = Held.join([Held.from_bytes(data) for data in self.waiting], 3)
        ready = held.times < edge
        self.waiting = [held.some(~ready).to_bytes()]
        monitors = self.plan.monitors(PROFILE)
        found = release(self.plan, self.note, monitors, self.shelf, held.some(ready), edge)
        assert not len(monitors)
        return [update.to_dict() for update in found]


@pytest.mark.parametrize(
    "window",
    [
        Tumbling(seconds=10.0),
        Tumbling(seconds=0.5, emit_empty=True),
        Sliding(seconds=20.0, every=5.0),
        Tumbling(count=40),
        Adaptive(every=50),
    ],
    ids=str,
)
@pytest.mark.parametrize("batches", [1, 7])
def test_micro_batches_make_no_difference(window: Any, batches: int) -> None:
    events = draw(5, 600)
    rng = np.random.default_rng(batches)
    arrival = np.argsort(events.times + rng.uniform(0, 10.0, len(events.keys)))
    bucket = Bucket(window)
    ours: list[Update] = []
    latest = 0.0
    for which in np.array_split(arrival, batches):
        ours += bucket.advance(latest - 10.0)
        bucket.take(events.some(which))
        latest = max(latest, float(events.times[which].max()))
    until = float(events.times.max()) + 30.0
    ours += bucket.advance(until)
    assert not differences(in_order(ours), expected(events, window, until))
    assert bucket.note.late == {}


def test_events_of_the_same_time_have_an_order_of_their_own() -> None:
    events = draw(6, 400)._replace(micros=np.repeat(1_700_000_000_000_000, 400))
    found = []
    for seed in (0, 1):
        bucket = Bucket(Tumbling(seconds=10.0))
        mixed = np.random.default_rng(seed).permutation(400)
        for which in np.array_split(mixed, 3 + seed):
            bucket.take(events.some(which))
        found.append(in_order(bucket.advance(1_700_000_010.0)))
    assert len(found[0]) == 6
    assert found[0] == found[1]


def test_bad_events_count_in_their_window() -> None:
    events = draw(7, 300, keys=2)
    events.scores[::10] = np.nan
    whole, parts = Bucket(Tumbling(seconds=10.0)), Bucket(Tumbling(seconds=10.0))
    whole.take(events)
    once = whole.advance(events.times.max() + 10.0)
    several: list[Update] = []
    for which in np.array_split(np.arange(300), 6):
        parts.take(events.some(which))
        several += parts.advance(events.times[which].max())
    several += parts.advance(events.times.max() + 10.0)
    assert in_order(once) == in_order(several)
    assert sum(update["bad"] for update in in_order(once)[5::6]) in range(25, 31)


def test_late_events_are_counted_and_bad_ones_are_not_late() -> None:
    events = draw(8, 200, keys=1)
    bucket = Bucket(Tumbling(seconds=10.0))
    bucket.take(events.some(slice(100, 200)))
    bucket.advance(events.times[120])
    late = events.some(slice(0, 20))
    late.scores[3] = np.nan
    bucket.take(late)
    last = bucket.advance(events.times.max() + 10.0)[-1]
    assert (last["late"], last["bad"]) == (19, 1)


def test_keys_are_forgotten_when_idle() -> None:
    events = draw(9, 200, keys=4)
    bucket = Bucket(Tumbling(seconds=10.0), idle=100.0)
    bucket.take(events)
    bucket.advance(events.times.max() + 20.0)
    assert len(bucket.shelf) == 4
    bucket.advance(events.times.max() + 200.0)
    assert len(bucket.shelf) == 0


def test_a_tumbling_window_leaves_no_rows_in_the_state() -> None:
    events = draw(10, 3000, keys=1)
    bucket = Bucket(Tumbling(seconds=60.0))
    bucket.take(events)
    bucket.advance(events.times.max() + 60.0)
    (snapshot,) = bucket.shelf.values()
    assert len(snapshot) < 1500
    assert bucket.note.awake == []


def test_counts_have_no_meaning_over_partitions() -> None:
    from stream_leip_connectors.spark.bucket import check_window

    with pytest.raises(InputError, match="no common count"):
        check_window(Tumbling(count=10), keyed=False)
    check_window(Adaptive(), keyed=False)


def test_a_snapshot_is_kept_in_pieces() -> None:
    from stream_leip_connectors.spark.shelf import PIECE, MapShelf

    kept: dict[Any, Any] = {}
    state = SimpleNamespace(getValue=kept.get, updateValue=kept.__setitem__, removeKey=kept.pop)
    shelf = MapShelf(state)
    for size in (10, 3 * PIECE, 3 * PIECE + 1, PIECE, 5):
        data = np.random.default_rng(size).bytes(size)
        assert shelf.get("a") is None or size != 10
        shelf.put("a", data)
        assert MapShelf(state).get("a") == data
        assert len(kept) == -(-size // PIECE)
    shelf.remove("a")
    assert kept == {}
    assert shelf.get("a") is None
