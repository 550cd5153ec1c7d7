"""Watching an input: its events to a monitor, updates and dead letters out, state kept."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_leip import (
    InputError,
    KeyedMonitor,
    Monitor,
    SnapshotError,
    SourceProfile,
    Update,
    binary,
)
from stream_leip_connectors.batches import Batch, Reader
from stream_leip_connectors.config import MonitorSettings, WrongUsage
from stream_leip_connectors.events import Bad, DeadLetter, Events, Fields, encode_update
from stream_leip_connectors.sinks import OutputError, Sink, write_state
from stream_leip_connectors.window_text import parse_window

VERSION = 1
# Keys whose newest update is kept to be shown.
_SHOWN = 12
_LATE = "too late for its window; allow for it, as in --window 'tumbling 60s lateness 5s'"


@dataclass
class Counts:
    """What came so far, this run and those it resumes."""

    events: int = 0
    bad: int = 0
    late: int = 0
    updates: int = 0


@dataclass
class Saved:
    """What a state file holds beside the monitor; `path` is where it is."""

    path: Path
    fields: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path, profile: SourceProfile, settings: MonitorSettings) -> "Saved":
        """Read a state; one that does not exist yet is empty, one of other settings refused."""
        if path.exists() and not path.is_file():
            raise WrongUsage(f"--state: {path} is no file; name one, or leave it out")
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            if not path.parent.is_dir():
                # Known before outputs are opened, which would empty them.
                raise OutputError(
                    f"{path}: there is no folder {path.parent}; make it first"
                ) from None
            return cls(path)
        except OSError as error:
            raise SnapshotError(f"{path}: cannot be read: {error.strerror or error}") from error
        try:
            fields, _ = binary.decode(data, "watch", VERSION)
        except SnapshotError as error:
            raise SnapshotError(
                f"{path}: {error}. Bring back a whole one, or remove it to begin anew"
            ) from error
        if fields["profile"] != profile.fingerprint:
            raise SnapshotError(
                f"{path}: the state of profile {fields['profile'][:12]}, not of "
                f"{profile.fingerprint[:12]}; use the profile it was made with, or another --state "
                "for the new one"
            )
        for name, now in described(settings).items():
            made_with = fields["settings"].get(name)
            if made_with != now:
                raise WrongUsage(
                    f"{path}: made with {name} {_said(made_with)}, not {_said(now)}; leave that "
                    "as it was, or use another --state"
                )
        return cls(path, fields)


class Watch:
    """Feeds a monitor, or one for each key, from a reader.

    Parameters
    ----------
    profile, settings
        What monitors are made with.
    reader
        Where events come from.
    name
        The reader's, for dead letters.
    updates, letters
        Where updates and dead letters go.
    saved
        The state to keep, and to resume from if it holds one.
    """

    def __init__(
        self,
        profile: SourceProfile,
        settings: MonitorSettings,
        reader: Reader,
        name: str,
        updates: Sink,
        letters: Sink | None = None,
        saved: Saved | None = None,
    ) -> None:
        self.counts = Counts()
        self.newest: dict[str | None, Update] = {}
        self.first_bad: str | None = None
        self._profile = profile
        self._settings = settings
        self._window = parse_window(settings.window)
        self._reader = reader
        self._name = name
        self._updates = updates
        self._letters = letters
        self._saved = saved
        self._monitor: Monitor | KeyedMonitor | None = None
        self._late: list[tuple[str | None, int]] = []
        self._traceable = True
        if saved is not None and saved.fields:
            self.counts = Counts(**saved.fields["counts"])
            if saved.fields["monitor"] is not None:
                self._restore(saved.fields["monitor"], saved.fields["keyed"])

    def step(self) -> bool:
        """Read and take what is there; whether there may be more."""
        batch = self._reader.read()
        if batch is None:
            return False
        if len(batch.events.scores):
            self._take(batch)
        return True

    def save(self) -> None:
        """Write the state, if one is kept: after all that it says was done is on the disk."""
        if self._saved is None:
            return
        monitor = self._monitor
        fields = {
            "profile": self._profile.fingerprint,
            "settings": described(self._settings),
            "updates": self._updates.mark(),
            "letters": None if self._letters is None else self._letters.mark(),
            "reader": self._reader.mark(),
            "counts": vars(self.counts),
            "keyed": isinstance(monitor, KeyedMonitor),
            "monitor": None if monitor is None else monitor.snapshot(),
        }
        write_state(self._saved.path, binary.encode("watch", VERSION, fields, {}))

    @property
    def keys(self) -> int | None:
        """How many keys have a monitor; None for one stream."""
        return len(self._monitor) if isinstance(self._monitor, KeyedMonitor) else None

    def now(self) -> Update | None:
        """The mix now, whatever the window's fill; None for keyed streams and before the first."""
        return self._monitor.estimate() if isinstance(self._monitor, Monitor) else None

    def _take(self, batch: Batch) -> None:
        events = batch.events
        self.counts.events += len(events.scores)
        if self._monitor is None and self._reader.fields is not None:
            self._monitor = self._make(self._reader.fields)
        monitor = self._monitor
        bad = list(events.bad)
        updates: list[Update] = []
        if isinstance(monitor, Monitor):
            before = monitor.bad
            updates = monitor.update_many(events.scores, events.times)
            if monitor.bad - before > len(bad):
                bad = self._refused(events.scores, bad)
        elif monitor is not None and len(bad) < len(events.scores):
            before, forgotten = monitor.bad, monitor.forgotten
            updates = self._feed_keys(monitor, events)
            if monitor.bad > before:
                bad = self._refused(events.scores, bad)
            self._traceable = monitor.forgotten == forgotten
        self._bury(batch, bad)
        self._emit(updates)

    def _feed_keys(self, monitor: KeyedMonitor, events: Events) -> list[Update]:
        """Take the events that could be read; the others belong to no key."""
        good = _others(len(events.scores), events.bad)
        assert events.keys is not None
        keys = [events.keys[place] for place in good]
        times = None if events.times is None else events.times[good]
        return monitor.update_many(keys, events.scores[good], times)

    def _emit(self, updates: list[Update]) -> None:
        self.counts.updates += len(updates)
        self._updates.write(map(encode_update, updates))
        for update in updates:
            self.newest.pop(update.key, None)
            self.newest[update.key] = update
        while len(self.newest) > _SHOWN:
            del self.newest[next(iter(self.newest))]

    def _refused(self, scores: NDArray[Any], known: list[Bad]) -> list[Bad]:
        """All bad events, those included that the gate refused."""
        good = _others(len(scores), known)
        _, refused = self._profile.screen(scores[good])
        return sorted([*known, *((int(good[i]), reason) for i, reason in refused)])

    def _bury(self, batch: Batch, bad: list[Bad]) -> None:
        """Write dead letters for bad and for late events."""
        self.counts.bad += len(bad)
        if bad and self.first_bad is None:
            place, reason = bad[0]
            self.first_bad = f"{self._reader.unit} {batch.numbers[place]}: {reason}"
        # A key that went and came back counts its events anew: nobody knows which were late.
        late = self._places_of_late(batch, bad) if self._late and self._traceable else []
        self.counts.late += len(self._late)
        self._late.clear()
        if self._letters is None:
            return
        self._letters.write(
            DeadLetter(
                batch.original(place),
                reason,
                {"source": self._name, self._reader.unit: int(batch.numbers[place])},
            ).encode()
            for place, reason in sorted([*bad, *((place, _LATE) for place in late)])
        )

    def _places_of_late(self, batch: Batch, bad: list[Bad]) -> list[int]:
        """Where in the batch the late events stood; monitors number the good ones of a stream."""
        good = _others(len(batch.events.scores), bad)
        keys = batch.events.keys
        places: list[int] = []
        for key in {key for key, _ in self._late}:
            mine = good if keys is None else good[[keys[place] == key for place in good]]
            numbers = [number for each, number in self._late if each == key]
            # The last event of the batch is the newest that the monitor has seen.
            end = self._events_of(key)
            places += [int(mine[number - end]) for number in numbers if number - end >= -len(mine)]
        return places

    def _events_of(self, key: str | None) -> int:
        monitor = self._monitor
        if isinstance(monitor, KeyedMonitor):
            return monitor.monitor(str(key)).events
        assert monitor is not None
        return monitor.events

    def _make(self, fields: Fields) -> Monitor | KeyedMonitor:
        by_time = self._window.needs_time
        if by_time and fields.time is None:
            raise InputError(
                f"{self._name}: --window {self._settings.window!r} goes by event time, but the "
                "events have none; name its field with --time, or count events, as in "
                "--window 'tumbling 1000'"
            )
        settings = self._settings
        options = {**settings.options(), "on_bad": "skip"}
        made = self._profile, self._window, settings.estimator
        if fields.key is not None:
            return KeyedMonitor(*made, **options, on_late=self._note_key_late)
        del options["max_keys"]
        monitor = Monitor(*made, **options, on_late=self._note_late)
        monitor.skip(self.counts.bad)  # what came before the first event that said what is where
        return monitor

    def _restore(self, data: bytes, keyed: bool) -> None:
        if keyed:
            self._monitor = KeyedMonitor.restore(data, self._profile, on_late=self._note_key_late)
        else:
            self._monitor = Monitor.restore(data, self._profile, on_late=self._note_late)

    def _note_late(self, rows: Any, times: Any, numbers: NDArray[np.int64]) -> None:
        self._late += [(None, number) for number in numbers.tolist()]

    def _note_key_late(self, key: str, rows: Any, times: Any, numbers: NDArray[np.int64]) -> None:
        self._late += [(key, number) for number in numbers.tolist()]


def _said(value: Any) -> Any:
    """As a flag would have it."""
    return "unset" if value is None else value


def described(settings: MonitorSettings) -> dict[str, Any]:
    """The settings that a state is bound to; windows by what they are, however written."""
    values = settings.model_dump(exclude={"profile"})
    return {**values, "window": repr(parse_window(settings.window))}


def _others(n: int, bad: list[Bad]) -> NDArray[np.int64]:
    """The places of a batch that are not bad."""
    return np.delete(np.arange(n), [place for place, _ in bad])
