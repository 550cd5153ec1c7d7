"""All streams that updates have come for, filled by one thread and looked at by another."""

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from stream_leip.arrays import Vector
from stream_leip_connectors.dashboard.records import Decoder, Record
from stream_leip_connectors.dashboard.steps import Past, Steps

# Of all streams together: the one that has been silent longest goes first.
MOST_BYTES = 1 << 29
MOST_ONSETS = 200
_SHOWN_REASON = 200


class Onset(NamedTuple):
    """Where an alarm or a warning came up: events past, event time, and the classes that moved."""

    kind: str
    number: float
    end: float | None
    moved: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Picture:
    """A stream at one moment."""

    id: int
    version: int
    name: str
    classes: tuple[str, ...]
    source: Vector | None
    newest: Record
    past: Past
    onsets: tuple[Onset, ...]
    updates: int
    flagged: int
    timed: bool


class Entry(NamedTuple):
    """A stream in the list of all: `state` is 2 with an alarm raised, 1 with a warning."""

    id: int
    name: str
    state: int
    alarms: int


class Counts(NamedTuple):
    """Of all streams: what came in, what was no update and why, and what was let go of."""

    updates: int
    bad: int
    why: str
    streams: int
    forgotten: int


class _Stream:
    """One stream."""

    def __init__(self, number: int, record: Record, classes: tuple[str, ...]) -> None:
        self.id = number
        self.name = " · ".join(each for each in (record.monitor, record.key) if each) or "estimate"
        self.classes = classes
        self.source: Vector | None = None
        self.steps = Steps(len(classes))
        self.newest = record
        self.onsets: deque[Onset] = deque(maxlen=MOST_ONSETS)
        self.state = 0
        self.alarms = 0
        self.turn = 0  # of the newest alarm, in the order in which they came
        self.updates = 0
        self.flagged = 0
        self.timed = True

    def follows(self, record: Record, classes: tuple[str, ...]) -> bool:
        """Whether an update goes on from the last; a monitor that began anew counts anew."""
        before = self.newest.sequence
        counted = before is None or record.sequence is None or record.sequence > before
        return counted and classes == self.classes

    def add(self, record: Record, received: float, turn: int) -> None:
        alarm = record.alarm
        state = 0 if alarm is None else 2 if alarm.raised else int(alarm.warning)
        if alarm is not None and state > self.state:
            kind = "alarm" if state == 2 else "warning"
            moved = tuple(_moved(each) for each in alarm.classes[:5])
            self.onsets.append(Onset(kind, record.place(), record.end, moved))
            if state == 2:
                self.alarms += 1
                self.turn = turn
        self.state = state
        if record.check is not None and record.check.flagged:
            self.flagged += 1
        self.newest = record
        self.updates += 1
        if record.prior is None:
            return
        if record.end is None or record.number is not None:
            self.timed = False
        if self.source is None:
            self.source = record.source()
        self.steps.add(record, received)


class Streams:
    """All streams, by monitor and key.

    Parameters
    ----------
    most_bytes
        Of memory for all their pasts together.

    Examples
    --------
    >>> from stream_leip_connectors.dashboard.streams import Streams
    >>> streams = Streams()
    >>> streams.take([b'{"classes":["a","b"],"prior":[0.25,0.75],"last":99}', b"{"], received=0.0)
    >>> streams.counts()
    Counts(updates=1, bad=1, why='Input data was truncated', streams=1, forgotten=0)
    >>> streams.picture(streams.find("estimate")).newest.prior
    [0.25, 0.75]
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._lock = threading.Lock()
        self._decoder = Decoder()
        self._most_bytes = most_bytes
        self._streams: dict[tuple[str | None, str | None], _Stream] = {}
        self._by_id: dict[int, _Stream] = {}
        self._ids = 0
        self._bytes = 0
        self._updates = 0
        self._bad = 0
        self._why = ""
        self._forgotten = 0

    def take(self, lines: Iterable[bytes], received: float) -> None:
        """Take lines of JSON, an update each; what is none is counted."""
        found: list[tuple[Record, tuple[str, ...]]] = []
        bad, why = 0, ""
        decode = self._decoder.decode
        for line in lines:
            try:
                found.append(decode(line))
            except (ValueError, RecursionError) as error:
                bad += 1
                why = str(error)[:_SHOWN_REASON]
        with self._lock:
            self._bad += bad
            self._why = why or self._why
            for record, classes in found:
                self._add(record, classes, received)

    def _add(self, record: Record, classes: tuple[str, ...], received: float) -> None:
        name = (record.monitor, record.key)
        stream = self._streams.pop(name, None)
        self._updates += 1
        if stream is not None and not stream.follows(record, classes):
            if record.sequence == stream.newest.sequence and classes == stream.classes:
                self._streams[name] = stream  # the same update again
                return
            self._drop(stream)
            stream = None
        if stream is None:
            self._ids += 1
            stream = _Stream(self._ids, record, classes)
            self._by_id[stream.id] = stream
        self._streams[name] = stream  # the last place: it is the least silent
        before = stream.steps.nbytes
        stream.add(record, received, self._updates)
        self._bytes += stream.steps.nbytes - before
        while self._bytes > self._most_bytes and len(self._streams) > 1:
            silent = next(iter(self._streams))
            self._drop(self._streams.pop(silent))
            self._forgotten += 1

    def _drop(self, stream: _Stream) -> None:
        self._bytes -= stream.steps.nbytes
        del self._by_id[stream.id]

    def counts(self) -> Counts:
        """What came in."""
        with self._lock:
            streams = len(self._streams)
            return Counts(self._updates, self._bad, self._why, streams, self._forgotten)

    def entries(self, search: str = "", most: int = 50) -> tuple[list[Entry], int]:
        """Streams whose name has a text in it, alarms first, and how many there are."""
        wanted = search.casefold()
        with self._lock:
            found = [s for s in self._streams.values() if wanted in s.name.casefold()]
            found.sort(key=lambda s: (-s.state, -s.turn, s.name))
            entries = [Entry(s.id, s.name, s.state, s.alarms) for s in found[:most]]
        return entries, len(found)

    def find(self, name: str) -> int | None:
        """The id of a stream by its name."""
        with self._lock:
            return next((s.id for s in self._streams.values() if s.name == name), None)

    def version(self, number: int) -> int | None:
        """How many updates a stream has had; None if it is gone."""
        stream = self._by_id.get(number)
        return None if stream is None else stream.updates

    def picture(self, number: int) -> Picture | None:
        """A stream now; None if it is gone."""
        with self._lock:
            stream = self._by_id.get(number)
            if stream is None:
                return None
            return Picture(
                id=stream.id,
                version=stream.updates,
                name=stream.name,
                classes=stream.classes,
                source=stream.source,
                newest=stream.newest,
                past=stream.steps.past(),
                onsets=tuple(stream.onsets),
                updates=stream.updates,
                flagged=stream.flagged,
                timed=stream.timed and len(stream.steps) > 0,
            )


def _moved(move: Any) -> str:
    """A class that moved, as an alarm names it, with its direction if that is told."""
    if not isinstance(move, dict):
        return str(move)
    return f"{move.get('class', '')} {move.get('direction') or ''}".strip()


def settled_rate(past: Past, timed: bool, now: float) -> float | None:
    """Events a second: by event time where there is one, else as updates come in."""
    if len(past.number) < 2:
        return None
    clock = past.end if timed else past.received
    last = clock[-1] if timed else now
    recent = np.flatnonzero(clock >= last - 30.0)
    first = min(int(recent[0]) if len(recent) else len(clock), len(clock) - 2)
    seconds = float(last - clock[first])
    events = float(past.number[-1] - past.number[first])
    return None if seconds < 0.5 or events < 0 else events / seconds
