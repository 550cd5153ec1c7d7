"""The task: one partition's monitors, and what they have to write since the last commit."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_leip import KeyedMonitor, Monitor, SourceProfile, Update
from stream_leip.chunk import Chunk
from stream_leip.settings import from_plain
from stream_leip.windows import Window
from stream_leip_connectors.events import encode_update
from stream_leip_connectors.kafka.changelog import (
    PART,
    Contents,
    Head,
    KeyState,
    Log,
    Place,
    head_bytes,
    key_bytes,
    profile_bytes,
)
from stream_leip_connectors.kafka.corruption import CorruptBatch
from stream_leip_connectors.kafka.dead_letters import corrupt_letter, dead_letter
from stream_leip_connectors.kafka.decoding import RecordDecoder
from stream_leip_connectors.kafka.records import Message, Record

_LATE = "too late for its window; allow for it, as in --window 'tumbling 60s lateness 5s'"


@dataclass(frozen=True)
class Blueprint:
    """What the monitors of every task are made with.

    Parameters
    ----------
    profile, window, estimator
        As for `KeyedMonitor`.
    options
        Other arguments of `KeyedMonitor`.
    """

    profile: SourceProfile
    window: Window
    estimator: Any = "auto"
    options: dict[str, Any] = field(default_factory=dict)

    def make(self, **callbacks: Any) -> KeyedMonitor:
        """Monitors for a task."""
        return KeyedMonitor(
            self.profile, self.window, self.estimator, on_bad="skip", **self.options, **callbacks
        )

    def settings(self) -> dict[str, Any]:
        """What it was made with, as plain values."""
        return {
            **Monitor(self.profile, self.window, self.estimator, **self._of_one).settings(),
            "on_bad": "skip",
            "max_keys": self.options.get("max_keys"),
        }

    @property
    def _of_one(self) -> dict[str, Any]:
        return {name: value for name, value in self.options.items() if name != "max_keys"}

    @classmethod
    def of(cls, profile: SourceProfile, settings: dict[str, Any]) -> "Blueprint":
        """The blueprint that gave these settings."""
        options = {name: value for name, value in settings.items() if name != "on_bad"}
        window = from_plain("window", options.pop("window"))
        return cls(profile, window, from_plain("estimator", options.pop("estimator")), options)


@dataclass
class Counts:
    """What a partition brought, since its first event: `lost` to retention, keys that `expired`."""

    events: int = 0
    bad: int = 0
    late: int = 0
    updates: int = 0
    lost: int = 0
    expired: int = 0

    def add(self, now: "Counts", before: "Counts") -> None:
        """Add what came between two counts."""
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(now, name) - getattr(before, name))

    def __str__(self) -> str:
        more = [
            f"{getattr(self, name):,} {name}"
            for name in ("bad", "late", "lost", "expired")
            if getattr(self, name)
        ]
        return ", ".join([f"{self.events:,} events", f"{self.updates:,} updates", *more])


@dataclass(frozen=True)
class Identity:
    """Whose a task is: the group, the input topic with its partitions, and which one this is."""

    application: str
    topic: str
    partitions: int
    partition: int


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
    contents
        What the changelog holds of it.
    counts, turn
        As the head has them.
    """

    def __init__(
        self,
        identity: Identity,
        blueprint: Blueprint,
        decoder: RecordDecoder,
        offset: int,
        contents: Contents | None = None,
        counts: Counts | None = None,
        turn: int = 0,
    ) -> None:
        self.identity = identity
        self.offset = offset
        self.counts = Counts() if counts is None else counts
        self.committed = replace(self.counts)
        self.dirty = contents is None  # its first offset is worth a commit of its own
        self.newest: int | None = None  # timestamp of the last record taken
        self.updates: list[Update] = []
        self.letters: list[Message] = []
        self._blueprint = blueprint
        self._settings = blueprint.settings()
        self._decoder = decoder
        self._turn = turn
        self._late: list[tuple[str, int]] = []
        self._touched: set[str] = set()
        self._gone: set[str] = set()  # keys that expired with the newest records
        self._written: dict[str, int] = {}  # by key, events whose rows were written
        self._chunks: dict[str, dict[str, deque[tuple[int, int]]]] = {}
        self._log = Log() if contents is None else contents.log()
        self.keyed = blueprint.make(on_late=self._note_late, on_expire=self._expired)
        if contents is not None:
            self._restore(contents)

    def _restore(self, contents: Contents) -> None:
        chunks = contents.chunks()
        for key, state in contents.states():
            mine = chunks.pop(key, {})
            joined = {holder: Chunk.join(parts) for holder, parts in mine.items()}
            self.keyed.adopt(key, state.small, chunks=joined)
            self._written[key] = state.events
            self._chunks[key] = {
                holder: deque((int(each.events[0]), int(each.events[-1])) for each in parts)
                for holder, parts in mine.items()
            }

    def take(self, records: Sequence[Record]) -> None:
        """Feed the monitors; what they say, and what could not be used, waits for the commit."""
        events = self._decoder.decode(records)
        self.offset = records[-1].offset + 1
        self.newest = records[-1].timestamp
        self.dirty = True
        self.counts.events += len(records)
        good = np.arange(len(records))
        if events.bad:
            self.counts.bad += len(events.bad)
            good = np.delete(good, [place for place, _ in events.bad])
            self.letters += [dead_letter(records[place], why) for place, why in events.bad]
        if not len(good):
            return
        scores, times, keys = events.scores, events.times, events.keys
        if keys is None:
            keys = [f"{self.identity.topic}-{self.identity.partition}"] * len(records)
        if len(good) < len(records):
            scores, keys = scores[good], [keys[place] for place in good]
            times = None if times is None else times[good]
        named = set(keys)
        before: dict[str, int] = {}
        if self._blueprint.window.needs_time:
            before = {key: self.keyed.monitor(key).events for key in named & set(self.keyed)}
        self._touched |= named
        self._gone.clear()
        updates = self.keyed.update_many(keys, scores, times)
        self.counts.updates += len(updates)
        self.updates += updates
        if self._late:
            self._bury_late(records, good, keys, before)

    def skip(self, batch: CorruptBatch) -> None:
        """Leave out records that nobody can read."""
        self.letters.append(corrupt_letter(*batch))
        self.counts.bad += batch.last + 1 - self.offset
        self.offset = batch.last + 1
        self.dirty = True

    def _bury_late(
        self,
        records: Sequence[Record],
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
        taken, self.updates = self.updates, []
        for update in taken:
            yield updates, Message(str(update.key).encode(), encode_update(update), [])
        buried, self.letters = self.letters, []
        if letters is not None:
            for letter in buried:
                yield letters, letter

    def changes(self) -> Iterator[Message]:
        """What changed since the last commit: new rows, small states, and always the head."""
        written = [key for key in self._by_turn() if key in self.keyed]
        for key in written:
            self._put_rows(key, self.keyed.monitor(key))
        for key in written:
            self._put_small(key, self.keyed.monitor(key))
        self._touched.clear()
        if Place("profile") not in self._log:
            self._log.put(Place("profile"), profile_bytes(self._blueprint.profile))
        self._log.put(Place("head"), head_bytes(self._head()))
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
        for holder, chunk in monitor.since(self._written.get(key, 0)).items():
            mine = held.setdefault(holder, deque())
            for part in _sliced(chunk):
                first, last = int(part.events[0]), int(part.events[-1])
                self._log.put(Place("rows", key, holder, first), part.to_bytes())
                mine.append((first, last))
        for holder, oldest in monitor.oldest.items():
            mine = held.get(holder, deque())
            while mine and (oldest is None or mine[0][1] < oldest):
                self._log.take_back(Place("rows", key, holder, mine.popleft()[0]))
        self._written[key] = monitor.events

    def _put_small(self, key: str, monitor: Monitor) -> None:
        self._turn += 1
        state = KeyState(self._turn, monitor.events, monitor.snapshot(rows=False))
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
        )

    def _expired(self, key: str, snapshot: bytes) -> None:
        """A key made room for another: nothing of it stays."""
        self.counts.expired += 1
        self._gone.add(key)
        self._written.pop(key, None)
        self._log.take_back(Place("key", key))
        for holder, chunks in self._chunks.pop(key, {}).items():
            for first, _ in chunks:
                self._log.take_back(Place("rows", key, holder, first))

    def _note_late(self, key: str, rows: Any, times: Any, numbers: NDArray[np.int64]) -> None:
        self._late += [(key, number) for number in numbers.tolist()]

    def take_over(self, contents: Contents, last: list[Update], turn: int) -> None:
        """Take the place of what a changelog holds: write its last updates, and nothing stays."""
        self._log = contents.log()
        self._log.take_back_all()
        self._turn = turn
        self.counts.updates += len(last)
        self.updates += last

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
