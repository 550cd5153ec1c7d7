"""Many streams, each with a key and a monitor of its own."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_leip import binary
from stream_leip.arrays import Rows, Vector
from stream_leip.budget import rows_within
from stream_leip.checks import check_above_zero, check_key, check_new_key, check_whole
from stream_leip.chunk import Chunk
from stream_leip.entrance import Batch, OnBad
from stream_leip.errors import InputError, SnapshotError
from stream_leip.estimators import Estimator
from stream_leip.groups import Groups
from stream_leip.monitor import DEFAULT_WINDOW, AlarmLevel, Monitor, check_fingerprint
from stream_leip.profile import SourceProfile
from stream_leip.rows import ScoresLike
from stream_leip.settings import from_plain, to_plain
from stream_leip.times import Time, Times, epoch_seconds
from stream_leip.update import Update
from stream_leip.windows import Layout, Window
from stream_leip.windows.state import OnLate

VERSION = 2

OnExpire = Callable[[str, bytes], None]
OnKeyLate = Callable[[str, Rows, Vector, NDArray[np.int64]], None]


class KeyedMonitor:
    """A monitor for each key, made when the key is first seen. The same verbs, with a key first.

    Parameters
    ----------
    profile, window, estimator, level, alarm, check, max_rows, top_k, on_bad
        As for `Monitor`; they hold for every key.
    max_keys
        Most keys at a time. A new key beyond it takes the place of the one longest without an
        event, which expires.
    idle
        Seconds of event time after which a key without events expires, when `advance` comes by.
    max_bytes
        A budget for all keys together, for what is held between calls; with `max_keys` it caps the
        rows that each may keep. Names of keys are taken to be of 100 characters at most.
    on_late
        Called with a key, and rows, times and event numbers that came too late for their window.
    on_expire
        Called with a key that expires and its snapshot; store it, and bring it back with `adopt`.
        Without it, an expired key is forgotten, and counted in `forgotten`.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip import KeyedMonitor, Tumbling, fit_profile
    >>> rng = np.random.default_rng(0)
    >>> def draw(labels):
    ...     return 4.0 * np.eye(2)[labels] + rng.normal(size=(len(labels), 2))
    >>> known = rng.integers(2, size=600)
    >>> keyed = KeyedMonitor(fit_profile(draw(known), known), Tumbling(count=500))
    >>> keys = ["north", "south"] * 500
    >>> labels = (rng.random(1000) < np.tile([0.2, 0.7], 500)).astype(int)
    >>> for update in keyed.update_many(keys, draw(labels)):
    ...     print(update.key, update.prior.round(1))
    north [0.7 0.3]
    south [0.3 0.7]
    """

    def __init__(
        self,
        profile: SourceProfile,
        window: Window = DEFAULT_WINDOW,
        estimator: str | Estimator = "auto",
        *,
        level: float | None = 0.95,
        alarm: AlarmLevel = "auto",
        check: bool = True,
        max_rows: int | None = None,
        top_k: int | None = None,
        on_bad: OnBad = "raise",
        max_keys: int | None = None,
        idle: float | None = None,
        max_bytes: int | None = None,
        on_late: OnKeyLate | None = None,
        on_expire: OnExpire | None = None,
    ) -> None:
        if max_keys is not None:
            check_whole("max_keys", max_keys)
        if idle is not None:
            check_above_zero("idle", idle)
        self._settings: dict[str, Any] = {
            "level": level,
            "alarm": alarm,
            "check": check,
            "max_rows": max_rows,
            "top_k": top_k,
            "on_bad": on_bad,
        }
        self._gate = Monitor(profile, window, estimator, **self._settings)
        if max_bytes is not None:
            # By now all that the budget is reckoned from has been looked at.
            check_whole("max_bytes", max_bytes)
            layout = Layout(len(profile.classes), top_k, max_rows)
            asked = alarm is not None and alarm != "auto"
            cap = rows_within(max_bytes, max_keys, window, layout, alarm=asked)
            self._settings["max_rows"] = cap
            self._gate = Monitor(profile, window, estimator, **self._settings)
        self._max_keys = max_keys
        self._idle = idle
        self._on_late = on_late
        self._on_expire = on_expire
        # From the key longest without an event to the newest.
        self._monitors: OrderedDict[str, Monitor] = OrderedDict()
        self._seen: dict[str, float] = {}
        self._bad = 0
        self.forgotten = 0

    @property
    def profile(self) -> SourceProfile:
        """The source."""
        return self._gate.profile

    @property
    def max_rows(self) -> int | None:
        """Most rows that each key may keep, by `max_rows` or `max_bytes`; None for no cap."""
        most: int | None = self._settings["max_rows"]
        return most

    @property
    def bad(self) -> int:
        """How many events were skipped because their scores could not be used."""
        return self._bad

    def __len__(self) -> int:
        return len(self._monitors)

    def __contains__(self, key: object) -> bool:
        return key in self._monitors

    def __iter__(self) -> Iterator[str]:
        return iter(self._monitors)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._monitors)

    def monitor(self, key: str) -> Monitor:
        """The monitor of a key that has one."""
        try:
            return self._monitors[check_key(key)]
        except KeyError:
            raise InputError(f"key: {key!r} has no monitor; it came with no event yet") from None

    def update(self, key: str, scores: Any, time: Time | None = None) -> list[Update]:
        """Take one event of a key."""
        if check_key(key) not in self._monitors:
            check_new_key(key)
        row, seconds = self._gate.entrance.one(scores, time)
        return self._take_one(key, row, seconds)

    def update_many(
        self, keys: Sequence[str], scores: ScoresLike, times: Times | None = None
    ) -> list[Update]:
        """Take many events; the same as `update` for each, and faster.

        If an estimator or callback of your own raises, the error comes when all events are taken;
        this call's updates are lost. Only an event for which `on_expire` failed to make room is
        not taken, and the key that should have gone stays.
        """
        if isinstance(keys, str) or not hasattr(keys, "__len__"):
            raise InputError(f"keys: {keys!r} is no list of keys; give one for each event")
        batch = self._gate.entrance.many(scores, times)
        return self.take(list(keys), batch)

    def take(self, names: list[str], batch: Batch) -> list[Update]:
        """Take events that came through the gate, and the key of each, bad ones included."""
        new = self._check_keys(names)
        if len(names) != batch.n:
            raise InputError(f"keys: {len(names)} keys for {batch.n} events; give one for each")
        if self._max_keys is not None and len(self._monitors) + new > self._max_keys:
            return self._one_by_one(names, batch)
        groups = Groups(names, batch)
        found: list[tuple[int, Update]] = []
        failure: Exception | None = None
        for key, begin, stop, bad in groups:
            try:
                self._take_group(groups, key, begin, stop, bad, found)
            except Exception as error:
                failure = failure or error
        self._bad += batch.n - len(batch.rows)
        if failure is not None:
            raise failure
        found.sort(key=lambda each: int(groups.places[each[0]]))
        return [update for _, update in found]

    def _take_group(
        self,
        groups: Groups,
        key: str,
        begin: int,
        stop: int,
        bad: int,
        found: list[tuple[int, Update]],
    ) -> None:
        """Take a key's events; put its updates, each with the place of its row, into `found`."""
        monitor = self._monitors.get(key)
        if begin == stop:
            if monitor is not None:
                monitor.skip(bad)
            return
        # Bad events before a key's first good one belong to no monitor yet.
        skipped = groups.bad_before(begin) if bad and monitor is None else 0
        if monitor is None:
            monitor = self._make(key)
        else:
            self._monitors.move_to_end(key)
        time = groups.latest(begin, stop)
        if time is not None:
            self._note(key, time)
        rows = groups.rows[begin:stop]
        if not bad and monitor.lay(rows, groups.times_of(begin, stop)):
            return
        if stop - begin == 1 and not bad:
            for update in monitor.take_one(rows, time):
                found.append((begin, _named(update, key)))  # noqa: PERF401  (mostly none)
        else:
            for place, update in monitor.take(groups.batch(begin, stop, bad, skipped)):
                found.append((begin + place, _named(update, key)))

    def _one_by_one(self, keys: list[str], batch: Batch) -> list[Update]:
        """In order of arrival: which key goes when they are too many depends on it."""
        updates: list[Update] = []
        failure: Exception | None = None
        row_of = dict(zip(batch.places.tolist(), range(len(batch.rows)), strict=True))
        for place, key in enumerate(keys):
            i = row_of.get(place)
            time = None if i is None or batch.times is None else float(batch.times[i])
            try:
                updates += self._take_one(key, None if i is None else batch.rows[i : i + 1], time)
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return updates

    def _take_one(self, key: str, row: Rows | None, time: float | None) -> list[Update]:
        if row is None:
            self._bad += 1
            if key in self._monitors:
                self._monitors[key].skip(1)
            return []
        monitor = self._monitor(key)
        if time is not None:
            self._note(key, time)
        return [_named(update, key) for update in monitor.take_one(row, time)]

    def advance(self, time: Time) -> list[Update]:
        """Let event time move on for all keys; those idle for too long expire."""
        seconds = epoch_seconds(time)
        updates = [
            _named(update, key)
            for key, monitor in self._monitors.items()
            for update in monitor.advance(seconds)
        ]
        if self._idle is not None:
            over = [key for key, seen in self._seen.items() if seconds - seen > self._idle]
            for key in over:
                self.expire(key)
        return updates

    def expire(self, key: str) -> None:
        """Take a key out, and hand its snapshot to `on_expire`."""
        monitor = self.monitor(key)
        if self._on_expire is None:
            self.forgotten += 1
        else:
            self._on_expire(key, monitor.snapshot())
        del self._monitors[key]
        self._seen.pop(key, None)

    def adopt(
        self,
        key: str,
        snapshot: bytes,
        time: Time | None = None,
        chunks: Mapping[str, Chunk] | None = None,
    ) -> None:
        """Bring back a key from its snapshot; from one without rows, with its chunks."""
        check_new_key(check_key(key))
        monitor = Monitor.restore(
            snapshot,
            self.profile,
            estimator=self._gate.estimator,
            on_late=self._late_of(key),
            chunks=chunks,
        )
        theirs, ours = monitor.settings(), self._gate.settings()
        for name, value in ours.items():
            if theirs[name] != value:
                raise SnapshotError(
                    f"snapshot: its {name} is {theirs[name]!r}, but all keys here have {value!r}"
                )
        if key not in self._monitors:
            self._make_room()
        self._monitors.pop(key, None)
        self._monitors[key] = monitor
        if time is not None:
            self._seen[key] = epoch_seconds(time)

    def estimate(self, key: str) -> Update:
        """The class mix of a key now, whatever the pane's fill."""
        return _named(self.monitor(key).estimate(), key)

    def reset_alarm(self, key: str) -> None:
        """Let "no change" mean the source mix again for a key, and begin anew."""
        self.monitor(key).reset_alarm()

    def adapt(self, key: str, scores: ScoresLike) -> Rows:
        """Posteriors under a key's current mix; under the source's for a key without a monitor."""
        return self._monitors.get(check_key(key), self._gate).adapt(scores)

    def snapshot(self) -> bytes:
        """All keys with their monitors, in bytes."""
        fields = {
            "profile": self.profile.fingerprint,
            "window": to_plain(self._gate.window),
            "estimator": to_plain(self._gate.estimator),
            "settings": self._settings,
            "max_keys": self._max_keys,
            "idle": self._idle,
            "bad": self._bad,
            "forgotten": self.forgotten,
            "seen": {key: self._seen[key] for key in self._monitors if key in self._seen},
            "monitors": {key: monitor.snapshot() for key, monitor in self._monitors.items()},
        }
        return binary.encode("keyed", VERSION, fields, {})

    @classmethod
    def restore(
        cls,
        state: bytes,
        profile: SourceProfile,
        *,
        estimator: Estimator | None = None,
        on_late: OnKeyLate | None = None,
        on_expire: OnExpire | None = None,
    ) -> "KeyedMonitor":
        """The keyed monitor that `snapshot` was taken of; see `Monitor.restore`."""
        fields, _ = binary.decode(state, "keyed", VERSION)
        check_fingerprint(fields["profile"], profile)
        keyed = cls(
            profile,
            from_plain("window", fields["window"]),
            from_plain("estimator", fields["estimator"]) if estimator is None else estimator,
            max_keys=fields["max_keys"],
            idle=fields["idle"],
            on_late=on_late,
            on_expire=on_expire,
            **fields["settings"],
        )
        keyed._bad = fields["bad"]
        keyed.forgotten = fields["forgotten"]
        keyed._seen = fields["seen"]
        for key, data in fields["monitors"].items():
            keyed._monitors[key] = Monitor.restore(
                data, profile, estimator=keyed._gate.estimator, on_late=keyed._late_of(key)
            )
        return keyed

    def _monitor(self, key: str) -> Monitor:
        """The monitor of a key, moved to the newest; made if there is none."""
        monitor = self._monitors.get(key)
        if monitor is None:
            return self._make(key)
        self._monitors.move_to_end(key)
        return monitor

    def _make(self, key: str) -> Monitor:
        self._make_room()
        monitor = self._monitors[key] = self._gate.twin(self._late_of(key))
        return monitor

    def _check_keys(self, keys: list[str]) -> int:
        """Refuse keys that are no strings, or could not be written down; count the new ones."""
        try:
            new = set(keys).difference(self._monitors)
        except TypeError:  # a key that cannot be hashed is no string
            new = set(map(check_key, keys))
        for key in new:
            check_new_key(check_key(key))
        return len(new)

    def _late_of(self, key: str) -> OnLate | None:
        on_late = self._on_late
        return None if on_late is None else partial(on_late, key)

    def _note(self, key: str, time: float) -> None:
        """Remember when a key was last seen."""
        self._seen[key] = max(time, self._seen.get(key, time))

    def _make_room(self) -> None:
        while self._max_keys is not None and len(self._monitors) >= self._max_keys:
            self.expire(next(iter(self._monitors)))


def _named(update: Update, key: str) -> Update:
    """An update that a key's monitor has just made, with the key; nobody else has seen it yet."""
    object.__setattr__(update, "key", key)
    return update
