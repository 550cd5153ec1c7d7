"""The first half of whole-topic scope: a partition's rows, checked, to the panes topic."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from stream_leip_connectors.kafka.changelog import Contents, Place, note_bytes
from stream_leip_connectors.kafka.dead_letters import dead_letter
from stream_leip_connectors.kafka.records import Message, Records
from stream_leip_connectors.kafka.slices import Slice
from stream_leip_connectors.kafka.task import Task

_LATE = (
    "older than its partition's newest event by more than the lateness; allow for it, with "
    "--lateness or as in --window 'tumbling 60s lateness 5s'"
)


class SliceTask(Task):
    """Takes a partition's records, in order, and has no monitors: rows go on to the panes topic.

    Parameters
    ----------
    lateness
        Seconds by which an event may be older than the newest of its partition.
    quiet
        Seconds without an event after which nobody need wait for the partition; None for ever.
    """

    def __init__(
        self, *given: Any, lateness: float = 0.0, quiet: float | None = None, **named: Any
    ) -> None:
        self._lateness = lateness
        self._patience = quiet
        self._newest_time = -np.inf
        self._is_idle = False
        self._since: float | None = None  # when the partition was first seen without a new event
        self._slices: list[Slice] = []
        super().__init__(*given, **named)

    def _restore(self, contents: Contents) -> None:
        note = contents.note()
        if note is not None:
            self._newest_time = note["newest"]
            self._is_idle = note["idle"]

    def take(self, records: Records) -> None:
        """Check the records; rows of those that can be used wait for the commit."""
        decoded = self._decoder.decode(records)
        self.offset = records.offsets[-1] + 1
        self.newest = records.timestamps[-1]
        self.dirty = True
        self.counts.events += len(records)
        self.counts.bad += len(decoded.bad)
        self.letters += [dead_letter(records[place], why) for place, why in decoded.bad]
        rows, times, good, _ = decoded.batch
        if times is None or not len(good):
            return
        # An event is late by what came before it, so that batches make no difference.
        newest = np.maximum.accumulate(np.concatenate([[self._newest_time], times]))
        late = times < newest[:-1] - self._lateness
        for place in good[late].tolist():
            self.letters.append(dead_letter(records[place], _LATE))
        self.counts.late += int(late.sum())
        offsets = np.array(records.offsets, np.int64)[good[~late]]
        rows, times = rows[~late], times[~late]
        whole = Slice(self.identity.partition, 0.0, False, rows, times, offsets)
        self._slices += whole.parts(self._lateness, self._newest_time)
        self._newest_time = float(newest[-1])
        self._is_idle = False
        self._since = None

    def advance(self, now: float, *, at_end: bool) -> None:
        """Say that the partition is idle, once it was for long enough."""
        if self._since is None or not at_end:
            self._since = now
        if self._patience is None or self._is_idle or now - self._since < self._patience:
            return
        self._is_idle = True
        self.dirty = True
        # All that it had may go: what comes now is newer, or late.
        mark = float(np.nextafter(self._newest_time, np.inf))
        nothing = np.empty((0, len(self._blueprint.profile.classes)), np.float32)
        self._slices.append(
            Slice(self.identity.partition, mark, True, nothing, np.empty(0), np.empty(0, np.int64))
        )

    def outputs(self, updates: str, letters: str | None) -> Iterator[tuple[str, Message]]:
        """The slices since the last commit, to the panes topic, and the dead letters."""
        taken, self._slices = self._slices, []
        for each in taken:
            yield updates, Message(str(each.partition).encode(), each.to_bytes(), [])
        yield from super().outputs(updates, letters)

    def changes(self) -> Iterator[Message]:
        """Where the partition's time is, and the head."""
        note = {"newest": self._newest_time, "idle": self._is_idle}
        self._log.put(Place("note"), note_bytes(note))
        yield from super().changes()
