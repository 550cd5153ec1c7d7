"""The task: one partition's monitors, and what they have to write since the last commit."""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_leip import Monitor, SnapshotError, Update
from stream_leip.chunk import Chunk
from stream_leip_connectors.events import encode_update
from stream_leip_connectors.kafka.blueprint import Blueprint, Identity
from stream_leip_connectors.kafka.changelog import (
    PART,
    Contents,
    Head,
    KeyState,
    Log,
    Place,
    head_bytes,
    key_bytes,
    note_bytes,
    profile_bytes,
)
from stream_leip_connectors.kafka.corruption import CorruptBatch
from stream_leip_connectors.kafka.counts import Counts
from stream_leip_connectors.kafka.dead_letters import corrupt_letter, dead_letter
from stream_leip_connectors.kafka.decoding import RecordDecoder
from stream_leip_connectors.kafka.records import Message, Records
from stream_leip_connectors.notifying import Notices

_LATE = "too late for its window; allow for it, as in --window 'tumbling 60s lateness 5s'"


class Task:
    """Takes a partition's records, in order.

    Parameters
    ----------
    identity
        Whose it is.
    blueprint
        What its monitors are made with.
    decoder
        Of its records.
    offset
        The first record to take.
    contents, head
        What the changelog holds of it.
    idle
        Seconds by which the partition's time may be ahead of a key without events, before windows
        of that key are closed; None for ever.
    """

    def __init__(
        self,
        identity: Identity,
        blueprint: Blueprint,
        decoder: RecordDecoder,
        offset: int,
        contents: Contents | None = None,
        head: Head | None = None,
        *,
        idle: float | None = None,
    ) -> None:
        self.identity = identity
        self.offset = offset
        self.counts = Counts() if head is None else Counts(**head.counts)
        self.committed = replace(self.counts)
        # Its first offset is worth a commit of its own, and so are repairs.
        self.dirty = contents is None or bool(contents.repairs)
        self.newest: int | None = None  # timestamp of the last record taken
        self.updates: list[Update] = []
        self.letters: list[Message] = []
        self._blueprint = blueprint
        self._settings = blueprint.settings()
        self._decoder = decoder
        self._turn = 0 if head is None else head.turn
        self._idle = idle
        self._time = None if head is None else head.time
        self._advanced = None if head is None else head.advanced
        self._quiet: float | None = None  # since when no event came
        self._late: list[tuple[str, int]] = []
        self._touched: set[str] = set()
        self._gone: set[str] = set()  # keys that expired with the newest records
        self._written: dict[str, tuple[int, int]] = {}  # by key, its turn, and events by then
        self._chunks: dict[str, dict[str, deque[tuple[int, int]]]] = {}
        self._log = Log() if contents is None else contents.log()
        self._notices = Notices()  # what people were told of its keys, once it is committed
        self._told: list[Any] = []
        self.keyed = blueprint.make(on_late=self._note_late, on_expire=self._expired)
        if contents is not None:
            self._restore(contents)

    def _restore(self, contents: Contents) -> None:
        self._told = contents.told(self.identity.model)
        self._notices.restore(self._told)
        chunks = contents.chunks()
        for key, state in contents.states():
            mine = chunks.pop(key, {})
            joined = {holder: Chunk.join(parts) for holder, parts in mine.items()}
            self.keyed.adopt(key, state.small, chunks=joined)
            self._written[key] = state.turn, state.events
            held = self._chunks[key] = {
                holder: deque((int(each.events[0]), int(each.events[-1])) for each in parts)
                for holder, parts in mine.items()
            }
            for bounds in held.values():
                if any(after[0] <= before[1] for before, after in pairwise(bounds)):
                    raise SnapshotError(f"key {key!r}: two processes wrote the same rows")
        if self._advanced is not None:
            self._advance(self._advanced)

    @property
    def profile(self) -> str:
        """The fingerprint of its profile."""
        return self._blueprint.profile.fingerprint

    def told(self) -> list[Any]:
        """What people were told of its keys, and has not settled, as Notices has it."""
        return self._notices.state()

    def take(self, records: Records) -> None:
        """Feed the monitors; what they say, and what could not be used, waits for the commit."""
        decoded = self._decoder.decode(records)
        self.offset = records.offsets[-1] + 1
        self.newest = records.timestamps[-1]
        self.dirty = True
        self._quiet = None
        self.counts.events += len(records)
        self.counts.bad += len(decoded.bad)
        self.letters += [dead_letter(records[place], why) for place, why in decoded.bad]
        # Bad events are their key's too: its updates count them.
        keys, batch = decoded.known()
        if keys is None:
            keys = [f"{self.identity.topic}-{self.identity.partition}"] * batch.n
        if self.identity.model:
            keys = [f"{self.identity.model}:{key}" for key in keys]
        if batch.times is not None and len(batch.times):
            latest = float(batch.times.max())
            self._time = latest if self._time is None else max(self._time, latest)
        named = set(keys)
        before: dict[str, int] = {}
        if self._blueprint.window.needs_time:
            before = {key: self.keyed.monitor(key).events for key in named if key in self.keyed}
        self._gone.clear()
        updates = self.keyed.take(keys, batch)
        self._touched.update(key for key in named if key in self.keyed)
        self.counts.updates += len(updates)
        self.updates += updates
        if self._late:
            good = [keys[place] for place in batch.places]
            self._bury_late(records, decoded.batch.places, good, before)

    def advance(self, now: float, *, at_end: bool) -> None:
        """Close windows of keys without events, that the partition's time has left behind.

        Parameters
        ----------
        now
            Seconds of a clock: while there are no events, time goes on by it.
        at_end
            Whether all events there are have been taken.
        """
        if self._idle is None or self._time is None:
            return
        if self._quiet is None or not at_end:
            self._quiet = now
        time = self._time + (now - self._quiet) - self._idle
        if self._advanced is None or time > self._advanced:
            self._advance(time)

    def _advance(self, time: float) -> None:
        # Also after a restore: keys that were not written since are where they were before.
        updates = self.keyed.advance(time)
        self._advanced = time
        self._touched.update(str(update.key) for update in updates)
        self.counts.updates += len(updates)
        self.updates += updates
        self.dirty = self.dirty or bool(updates)

    def skip(self, batch: CorruptBatch) -> None:
        """Leave out records that nobody can read."""
        self.letters.append(corrupt_letter(*batch))
        self.counts.bad += batch.last + 1 - self.offset
        self.offset = batch.last + 1
        self.dirty = True

    def _bury_late(
        self,
        records: Records,
        good: NDArray[np.int64],
        keys: list[str],
        before: dict[str, int],
    ) -> None:
        """Write late events to the dead letters; monitors number the events of each key."""
        late, self._late = self._late, []
        self.counts.late += len(late)
        for key in {key for key, _ in late}:
            mine = good[[each == key for each in keys]]
            for number in sorted(number for each, number in late if each == key):
                place = number - before.get(key, 0)
                # A key that expired and came back counts anew: which were late, nobody knows.
                if key not in self._gone and place < len(mine):
                    self.letters.append(dead_letter(records[mine[place]], _LATE))

    def outputs(self, updates: str, letters: str | None) -> Iterator[tuple[str, Message]]:
        """The updates and the dead letters since the last commit, each with its topic."""
        taken = self.learn()
        for update in taken:
            yield updates, Message(str(update.key).encode(), encode_update(update), [])
        buried, self.letters = self.letters, []
        if letters is not None:
            for letter in buried:
                yield letters, letter

    def learn(self) -> list[Update]:
        """The updates since the last commit, which are about to be written, and told."""
        taken, self.updates = self.updates, []
        self._notices.learn(taken)
        return taken

    def changes(self) -> Iterator[Message]:
        """What changed since the last commit: new rows, small states, and always the head."""
        written = [key for key in self._by_turn() if key in self.keyed]
        for key in written:
            self._put_rows(key, self.keyed.monitor(key))
        for key in written:
            self._put_small(key, self.keyed.monitor(key))
        self._touched.clear()
        model = self.identity.model
        if Place("profile", model) not in self._log:
            self._log.put(Place("profile", model), profile_bytes(self._blueprint.profile))
        if (told := self.told()) != self._told:
            self._told = told
            self._log.put(Place("told", model), note_bytes({"told": told}))
        self._log.put(Place("head", model), head_bytes(self._head()))
        self.dirty = False
        yield from self._log.drain()

    def _by_turn(self) -> list[str]:
        """The keys that saw events, in the order of their last one."""
        touched = self._touched
        found: list[str] = []
        for key in reversed(self.keyed):
            if len(found) == len(touched):
                break
            if key in touched:
                found.append(key)
        return found[::-1]

    def _put_rows(self, key: str, monitor: Monitor) -> None:
        held = self._chunks.setdefault(key, {})
        for holder, chunk in monitor.since(self._written.get(key, (0, 0))[1]).items():
            mine = held.setdefault(holder, deque())
            for part in _sliced(chunk):
                first, last = int(part.events[0]), int(part.events[-1])
                self._log.put(Place("rows", key, holder, first), part.to_bytes())
                mine.append((first, last))
        for holder, oldest in monitor.oldest.items():
            mine = held.get(holder, deque())
            while mine and (oldest is None or mine[0][1] < oldest):
                self._log.take_back(Place("rows", key, holder, mine.popleft()[0]))

    def _put_small(self, key: str, monitor: Monitor) -> None:
        turn, events = self._written.get(key, (0, 0))
        if monitor.events > events:  # bad events do not make it the newest
            turn = self._turn = self._turn + 1
        self._written[key] = turn, monitor.events
        state = KeyState(turn, monitor.events, monitor.snapshot(rows=False))
        self._log.put(Place("key", key), key_bytes(state))

    def _head(self) -> Head:
        return Head(
            self.offset,
            self.identity.application,
            self.identity.topic,
            self.identity.partitions,
            self._blueprint.profile.fingerprint,
            self._settings,
            self._turn,
            vars(self.counts).copy(),
            self._time,
            self._advanced,
            len(self._log) + (Place("head") not in self._log),
        )

    def _expired(self, key: str, snapshot: bytes) -> None:
        """A key made room for another: nothing of it stays."""
        self.counts.expired += 1
        self._notices.forget([key])
        self._gone.add(key)
        self._touched.discard(key)
        self._written.pop(key, None)
        self._log.take_back(Place("key", key))
        for holder, chunks in self._chunks.pop(key, {}).items():
            for first, _ in chunks:
                self._log.take_back(Place("rows", key, holder, first))

    def _note_late(self, key: str, rows: Any, times: Any, numbers: NDArray[np.int64]) -> None:
        self._late += [(key, number) for number in numbers.tolist()]

    def write_over(self, contents: Contents) -> None:
        """Take back what a first commit left in part."""
        self._log = contents.log()

    def take_over(self, contents: Contents, last: list[Update], before: "Task") -> None:
        """Take the place of what a changelog holds: write its last updates, and nothing stays."""
        self._log = contents.log()
        self._log.take_back_all()
        self._turn = before._turn
        self._time = before._time
        self._notices.restore(before.told())
        self.counts = before.counts
        self.committed = replace(before.committed)
        self.counts.updates += len(last)
        self.updates += [*before.updates, *last]

    def close_panes(self) -> list[Update]:
        """A last update of every key that has rows, whatever the fill of its pane."""
        return [update for update in map(self.keyed.estimate, self.keyed) if update.n]


def _sliced(chunk: Chunk) -> Iterator[Chunk]:
    """A chunk in parts that fit a record."""
    if not len(chunk):
        return
    width = chunk.rows.itemsize * chunk.rows.shape[1] + 2 * chunk.classes.shape[1] + 16
    step = max(1, (PART - 1000) // width)
    for begin in range(0, len(chunk), step):
        yield chunk.take(slice(begin, begin + step))
