"""What is done with the events of a bucket of keys, whoever keeps its state.

A bucket, not a key, is what Spark groups by: each group costs several calls over a socket in every
micro-batch, whether or not a window ends. In a bucket events only wait, in one list for all keys;
a key's monitor is looked up, fed and put back when the watermark passes the end of a pane.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from math import inf
from typing import Any, Protocol

import numpy as np

from stream_leip import InputError, KeyedMonitor, SourceProfile, Update, binary
from stream_leip.entrance import Batch
from stream_leip.estimators import Estimator
from stream_leip.windows import Fading, Layout, Window
from stream_leip.windows.time import TimeState
from stream_leip_connectors.spark.held import Held

VERSION = 1
# The one key where all events are one stream; its updates have none.
WHOLE = "whole"


@dataclass(frozen=True)
class Plan:
    """How monitors are made, and when they take events.

    Parameters
    ----------
    window
        For events that come in the order of their times.
    estimator, options
        As for `KeyedMonitor`.
    keyed
        Whether each key is a stream of its own.
    idle
        Seconds of event time after which a key without events is forgotten; None for never.
    """

    window: Window
    estimator: str | Estimator
    options: dict[str, Any]
    keyed: bool
    idle: float | None

    def monitors(self, profile: SourceProfile) -> KeyedMonitor:
        """With no key yet."""
        return KeyedMonitor(profile, self.window, self.estimator, on_bad="skip", **self.options)

    @property
    def every(self) -> float | None:
        """The length of a pane in seconds; None where windows are not by time."""
        state = self.window.open(Layout(2)) if self.window.needs_time else None
        return state.every if isinstance(state, TimeState) else None

    def edge(self, mark: float) -> float:
        """Before what time events may go on, when the watermark is at `mark`."""
        if self.every is None:
            return mark
        every = round(self.every * 1e6)
        return int(np.floor(mark * 1e6)) // every * every / 1e6

    def end(self, time: float) -> float:
        """Where the watermark must be before an event of that time goes on."""
        if self.every is None:
            return time + 1e-3  # past it, by the least that watermarks know
        every = round(self.every * 1e6)
        return (round(time * 1e6) // every + 1) * every / 1e6


@dataclass
class Note:
    """The small state of a bucket.

    Parameters
    ----------
    released
        Events before this time have gone on; what comes now from before it is late.
    timer
        When the next timer goes off, in milliseconds of event time.
    awake
        Keys for which windows end though no events come.
    late
        How many events of a key were late.
    seen
        When a key last had an event, where keys are forgotten.
    """

    released: float = -inf
    timer: int | None = None
    awake: list[str] = field(default_factory=list)
    late: dict[str, int] = field(default_factory=dict)
    seen: dict[str, float] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """To be kept."""
        return binary.encode("note", VERSION, asdict(self), {})

    @classmethod
    def from_bytes(cls, data: bytes) -> "Note":
        """As it was kept; SnapshotError if it was not."""
        return cls(**binary.decode(data, "note", VERSION)[0])


class Shelf(Protocol):
    """Where snapshots of monitors are."""

    def get(self, key: str) -> bytes | None:
        """A key's snapshot; None if it has none."""

    def put(self, key: str, snapshot: bytes) -> None:
        """Keep a key's snapshot."""

    def remove(self, key: str) -> None:
        """Forget a key."""


def take_in(note: Note, found: Held) -> Held:
    """The events that are not late; those that are, are counted."""
    older = found.times < note.released
    if not older.any():
        return found
    bad = found.bad
    for code, count in zip(*np.unique(found.codes[older & ~bad], return_counts=True), strict=True):
        key = found.names[code]
        note.late[key] = note.late.get(key, 0) + int(count)
    # Bad events are of no window: they are counted with the next one.
    times = np.where(older & bad, note.released, found.times)
    return replace(found, times=times).some(~older | bad)


def release(
    plan: Plan, note: Note, monitors: KeyedMonitor, shelf: Shelf, ready: Held, edge: float
) -> list[Update]:
    """Let events go on that the watermark has passed, and end the windows before `edge`.

    Parameters
    ----------
    plan, note
        The bucket's.
    monitors
        A keyed monitor with no keys; it has none afterwards.
    shelf
        Where the snapshots of its keys are.
    ready
        All events from before the edge.
    edge
        By `Plan.edge`.
    """
    note.released = edge
    timed = plan.every is not None
    keys = {ready.names[code] for code in np.unique(ready.codes)} | set(note.awake)
    for key in keys:
        snapshot = shelf.get(key)
        if snapshot is not None:
            monitors.adopt(key, snapshot)
    updates = feed(plan, monitors, ready)
    if timed:
        updates += monitors.advance(edge)
    awake = []
    for key in keys & set(monitors):
        monitor = monitors.monitor(key)
        monitor.trim()
        if timed and (_in_scope(monitor) or getattr(plan.window, "emit_empty", False)):
            awake.append(key)
        shelf.put(key, monitor.snapshot())
        monitors.expire(key)
    note.awake = sorted(awake)
    found = [finished(plan, note, update) for update in updates]
    _forget(plan, note, shelf, ready)
    return found


def feed(plan: Plan, monitors: KeyedMonitor, ready: Held) -> list[Update]:
    """Let monitors take events, which need not be in order."""
    ordered = ready.in_order()
    if plan.every is None or not ordered.bad.any():
        return _take(monitors, ordered)
    # An update says how many events were bad before its window's end, so that end has to come
    # before the bad events of the next window do.
    updates: list[Update] = []
    for end, part in ordered.by_pane(plan.every):
        updates += _take(monitors, part)
        updates += monitors.advance(end)
    return updates


def _take(monitors: KeyedMonitor, ordered: Held) -> list[Update]:
    good = np.flatnonzero(~ordered.bad)
    batch = Batch(ordered.rows[good], ordered.times[good], good, len(ordered))
    return monitors.take(ordered.keys(), batch)


def next_timer(plan: Plan, note: Note, earliest: float | None) -> int | None:
    """When the watermark must be looked at again, in milliseconds; None if nothing waits.

    Parameters
    ----------
    plan, note
        The bucket's.
    earliest
        The earliest time of an event that waits; None if there is none.
    """
    ends = [] if earliest is None else [plan.end(earliest)]
    if note.awake:
        ends.append(plan.end(note.released))
    return int(np.ceil(min(ends) * 1e3)) if ends else None


def close(plan: Plan, monitors: KeyedMonitor, last: float) -> Iterator[Update]:
    """End the windows of streams that are over: all that have events.

    Parameters
    ----------
    plan
        The bucket's.
    monitors
        Of all its keys.
    last
        The time of the last event.
    """
    if plan.every is None:
        return
    end = plan.end(last)
    yield from monitors.advance(end)
    for key in list(monitors):
        monitor = monitors.monitor(key)
        after = end
        monitor.trim()
        while _in_scope(monitor) and not isinstance(plan.window, Fading):
            after = plan.end(after)
            for update in monitor.advance(after):
                yield replace(update, key=key)
            monitor.trim()


def finished(plan: Plan, note: Note, update: Update) -> Update:
    """An update with the count of late events, which never came to a monitor."""
    key = update.key if plan.keyed else None
    return replace(update, key=key, late=note.late.get(update.key or "", 0))


def _forget(plan: Plan, note: Note, shelf: Shelf, ready: Held) -> None:
    """Forget keys that had no events for too long."""
    if plan.idle is None:
        return
    newest = np.full(len(ready.names), -inf)
    np.maximum.at(newest, ready.codes, ready.times)
    for key, time in zip(ready.names, newest.tolist(), strict=True):
        if time > note.seen.get(key, -inf):
            note.seen[key] = time
    for key in [key for key, seen in note.seen.items() if note.released - seen > plan.idle]:
        if key not in note.awake:
            shelf.remove(key)
            del note.seen[key]
            note.late.pop(key, None)


def _in_scope(monitor: Any) -> bool:
    """Whether a window to come has rows already."""
    return monitor.oldest["window"] is not None


def check_window(window: Window, *, keyed: bool) -> None:
    """InputError unless a window has a meaning over partitions."""
    if not keyed and not window.needs_time and type(window).__name__ != "Adaptive":
        raise InputError(
            f"window: {window}, but all events are one stream: those of several partitions have "
            "no common count; use a window by time, such as Tumbling(seconds=60), or Adaptive(), "
            "or name a key"
        )
