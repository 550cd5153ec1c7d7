"""The second half of whole-topic scope: the rows of all partitions, in one order, to one monitor.

Rows wait until every partition's watermark has passed them; then they go on in the order of
(time, partition, offset). That order is the same however many processes there are, whenever they
are killed, and so are the updates. Rows that wait are not written anywhere: the committed offset
stays at the first slice that has some, and a restore reads them again.
"""

import logging
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from stream_leip.entrance import Batch
from stream_leip_connectors.kafka.changelog import Contents, Place, note_bytes
from stream_leip_connectors.kafka.dead_letters import corrupt_letter
from stream_leip_connectors.kafka.records import Message, Records
from stream_leip_connectors.kafka.slices import Slice
from stream_leip_connectors.kafka.task import Task

log = logging.getLogger("stream_leip.kafka")

_LATE = "its partition was idle, and nobody waited for it any more; allow for it with --idle"
_AGAIN = 60.0


class MergeTask(Task):
    """Takes slices, and feeds one monitor with the rows that nothing older can come before.

    Parameters
    ----------
    topic
        The input's name, which is the key of the one stream.
    sources
        How many partitions the input has.
    """

    def __init__(self, *given: Any, topic: str, sources: int, **named: Any) -> None:
        self._topic = topic
        self._sources = sources
        self._marks: dict[int, tuple[float, bool]] = {}
        self._released = -np.inf  # rows that are older have gone on
        self._seen = 0  # slices before this offset were taken before a restore
        self._held: deque[tuple[int, Slice]] = deque()
        self._next = 0
        self._blocked: float | None = None
        super().__init__(*given, **named)
        self._next = self.offset

    def _restore(self, contents: Contents) -> None:
        super()._restore(contents)
        note = contents.note()
        if note is not None:
            self._released, self._seen = note["released"], note["seen"]
            self._marks = {number: (mark, idle) for number, mark, idle in note["marks"]}

    def take(self, records: Records) -> None:
        """Take slices in their order; what the watermarks have passed goes on."""
        for offset, value in zip(records.offsets, records.values, strict=True):
            self._take(offset, Slice.from_bytes(value or b""))
        self._next = records.offsets[-1] + 1
        self.newest = records.timestamps[-1]
        self.dirty = True
        self._release()
        self.offset = self._held[0][0] if self._held else self._next

    def _take(self, offset: int, found: Slice) -> None:
        older = found.times < self._released
        if offset >= self._seen:
            self._marks[found.partition] = found.mark, found.idle
            for late in found.offsets[older].tolist():
                self.counts.late += 1
                self.letters.append(corrupt_letter(self._topic, found.partition, late, late, _LATE))
        left = found.some(~older)
        if len(left.times):
            self._held.append((offset, left))

    def _watermark(self) -> float:
        """What nothing older can come before."""
        if len(self._marks) < self._sources:
            return -np.inf
        awake = [mark for mark, idle in self._marks.values() if not idle]
        return min(awake) if awake else max(mark for mark, _ in self._marks.values())

    def _release(self) -> None:
        mark = self._watermark()
        if mark <= self._released:
            return
        self._released = mark
        self._blocked = None
        ready: list[Slice] = []
        held, self._held = self._held, deque()
        for offset, each in held:
            now = each.times < mark
            if now.any():
                ready.append(each.some(now))
            if not now.all():
                self._held.append((offset, each.some(~now)))
        if ready:
            self._feed(ready)
        if self._blueprint.window.needs_time and self._topic in self.keyed:
            self._note(self.keyed.advance(mark))

    def _feed(self, ready: list[Slice]) -> None:
        times = np.concatenate([each.times for each in ready])
        offsets = np.concatenate([each.offsets for each in ready])
        whose = np.concatenate([np.full(len(each.times), each.partition) for each in ready])
        order = np.lexsort((offsets, whose, times))
        rows = np.concatenate([each.rows for each in ready])[order]
        n = len(order)
        self.counts.events += n
        batch = Batch(rows, times[order], np.arange(n), n)
        self._note(self.keyed.take([self._topic] * n, batch))

    def _note(self, updates: list[Any]) -> None:
        self._touched.add(self._topic)
        self.counts.updates += len(updates)
        self.updates += updates

    def advance(self, now: float, *, at_end: bool) -> None:
        """Say, every minute, which partitions everybody waits for."""
        if not self._held and len(self._marks) in (0, self._sources):
            self._blocked = None
        elif self._blocked is None:
            self._blocked = now
        elif now - self._blocked > _AGAIN:
            self._blocked = now
            missing = sorted(set(range(self._sources)) - self._marks.keys())
            awake = {mark: number for number, (mark, idle) in self._marks.items() if not idle}
            behind = missing or [awake[min(awake)]]
            log.warning(
                "no update for a minute: waiting for events of partitions %s; --idle goes on "
                "without them",
                behind,
                extra={"partitions": behind},
            )

    def changes(self) -> Iterator[Message]:
        """What changed of the monitor, how far rows have gone on, and the head."""
        marks = [(number, *mark) for number, mark in sorted(self._marks.items())]
        note = {"released": self._released, "seen": self._next, "marks": marks}
        self._log.put(Place("note"), note_bytes(note))
        yield from super().changes()
