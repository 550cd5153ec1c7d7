"""The second stage on a DataFrame that is no stream: slices in the order of their times."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from stream_leip import SourceProfile, Update
from stream_leip_connectors.events import encode_update
from stream_leip_connectors.spark.bucket import Note, Plan, close, feed, finished
from stream_leip_connectors.spark.held import Held
from stream_leip_connectors.spark.profiles import Known
from stream_leip_connectors.spark.slicing import Stage

# What both second stages give: the JSON of an update.
VALUE = "value string"


def merger(known: Known, plan: Plan) -> Stage:
    """A function for mapInArrow: slices, sorted by bucket and start, to updates."""

    def updates(batches: Iterator[Any]) -> Iterator[Any]:
        bucket: int | None = None
        merging = _Merging(known(), plan)
        for batch in batches:
            found: list[Update] = []
            for number, part in _parts(batch):
                if number != bucket and bucket is not None:
                    found += merging.finish()
                    merging = _Merging(known(), plan)
                bucket = number
                found += merging.take(part)
            yield _encoded(found)
        yield _encoded(merging.finish())

    return updates


class _Merging:
    """The streams of one bucket."""

    def __init__(self, profile: SourceProfile, plan: Plan) -> None:
        self._plan = plan
        self._m = len(profile.classes)
        self._monitors = plan.monitors(profile)
        self._waiting: list[Held] = []
        self._last = -float("inf")

    def take(self, batch: Any) -> list[Update]:
        """Take slices: no slice to come has an event from before the last one's start."""
        starts, slices = (batch.column(name).to_pylist() for name in ("start", "held"))
        held = Held.join([Held.from_bytes(each) for each in slices], self._m)
        self._last = max(self._last, float(held.times.max()))
        joined = Held.join([*self._waiting, held], self._m)
        edge = self._plan.edge(starts[-1])
        before = joined.times < edge
        self._waiting = [joined.some(~before)]
        if not before.any():
            return []
        found = feed(self._plan, self._monitors, joined.some(before))
        if self._plan.every is not None:
            found += self._monitors.advance(edge)
        return self._finished(found)

    def finish(self) -> list[Update]:
        """Take what is left, and end all windows."""
        if not self._waiting:
            return []
        found = feed(self._plan, self._monitors, Held.join(self._waiting, self._m))
        return self._finished([*found, *close(self._plan, self._monitors, self._last)])

    def _finished(self, updates: list[Update]) -> list[Update]:
        nothing_late = Note()
        return [finished(self._plan, nothing_late, update) for update in updates]


def _parts(batch: Any) -> Iterator[tuple[int, Any]]:
    """The slices of each bucket, which are together."""
    numbers = batch.column("bucket").to_numpy(zero_copy_only=False)
    begin = 0
    while begin < len(numbers):
        end = begin
        while end < len(numbers) and numbers[end] == numbers[begin]:
            end += 1
        yield int(numbers[begin]), batch.slice(begin, end - begin)
        begin = end


def _encoded(updates: list[Update]) -> Any:
    values = pa.array([encode_update(update).decode() for update in updates], pa.string())
    return pa.RecordBatch.from_arrays([values], names=["value"])
