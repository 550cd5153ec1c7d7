"""The second stage on a stream: buckets in Spark's state store, released by timers."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StructField, StructType

from stream_leip import KeyedMonitor, Update
from stream_leip_connectors.events import encode_update
from stream_leip_connectors.spark.bucket import Note, Plan, next_timer, release, take_in
from stream_leip_connectors.spark.held import Held
from stream_leip_connectors.spark.profiles import Known
from stream_leip_connectors.spark.shelf import KEY, VALUE, MapShelf

# State is bytes: an array in a map state cannot be read again.
_BYTES = StructType([StructField("value", BinaryType())])
# Where the note is among the snapshots: no stream has that key.
_NOTE = ""
_NONE = pd.DataFrame({"value": pd.Series([], dtype=object)})


class BucketProcessor(StatefulProcessor):  # type: ignore[misc]  # pyspark is not looked into
    """Holds a bucket's events, and its keys' monitors as snapshots.

    Parameters
    ----------
    known
        Gives the profile.
    plan
        How monitors are made.
    """

    def __init__(self, known: Known, plan: Plan) -> None:
        self._known = known
        self._plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._handle = handle
        self._held = handle.getListState("held", _BYTES)
        self._shelf = MapShelf(handle.getMapState("monitors", KEY, VALUE))

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """Let events wait."""
        parts = [Held.from_bytes(each) for frame in rows for each in frame["held"]]
        note, before = self._read_note()
        found = take_in(note, Held.join(parts, self._m))
        if len(found):
            self._held.appendList([(found.to_bytes(),)])
            self._wait(note, float(found.times.min()))
        self._write_note(note, before)
        return iter([_NONE])

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Any]:
        """Let go on what the watermark has passed."""
        note, before = self._read_note()
        edge = self._plan.edge(timerValues.getCurrentWatermarkInMs() / 1e3)
        expired = expiredTimerInfo.getExpiryTimeInMs()
        if note.timer is not None and note.timer <= expired:
            note.timer = None
        updates: list[Update] = []
        if edge > note.released:
            held = Held.join(
                [Held.from_bytes(bytes(value[0])) for value in self._held.get()], self._m
            )
            ready = held.times < edge
            rest = held.some(~ready).compact()
            updates = release(self._plan, note, self._monitors, self._shelf, held.some(ready), edge)
            if len(rest):
                self._held.put([(rest.to_bytes(),)])
            else:
                self._held.clear()
            self._wait(note, float(rest.times.min()) if len(rest) else None)
        self._write_note(note, before)
        values = [encode_update(update).decode() for update in updates]
        return iter([pd.DataFrame({"value": np.array(values, object)}) if values else _NONE])

    def close(self) -> None:
        """Nothing is open."""

    @cached_property
    def _monitors(self) -> KeyedMonitor:
        """With no keys, between two releases."""
        return self._plan.monitors(self._known())

    @property
    def _m(self) -> int:
        return len(self._known().classes)

    def _wait(self, note: Note, earliest: float | None) -> None:
        """Ask for a timer, unless one goes off soon enough."""
        wanted = next_timer(self._plan, note, earliest)
        if wanted is not None and (note.timer is None or wanted < note.timer):
            self._handle.registerTimer(wanted)
            note.timer = wanted

    def _read_note(self) -> tuple[Note, bytes]:
        data = self._shelf.get(_NOTE)
        return (Note(), b"") if data is None else (Note.from_bytes(data), data)

    def _write_note(self, note: Note, before: bytes) -> None:
        data = note.to_bytes()
        if data != before:
            self._shelf.put(_NOTE, data)
