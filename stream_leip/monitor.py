"""The monitor: one stream's rows to panes to window to estimator to update."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np

from stream_leip import binary
from stream_leip import rows as gate
from stream_leip.adapt import adapt, mix_in
from stream_leip.alarm import Alarm
from stream_leip.arrays import Rows, Vector, is_number
from stream_leip.checks import check_kinds, check_whole
from stream_leip.chunk import Chunk
from stream_leip.describe import describe, describe_alarm
from stream_leip.entrance import Batch, Entrance, OnBad
from stream_leip.errors import InputError, SnapshotError
from stream_leip.estimators import EM, LEIP, Auto, Estimator
from stream_leip.interval import squared_quantile
from stream_leip.profile import SourceProfile
from stream_leip.settings import from_plain, to_plain
from stream_leip.times import Time, Times, epoch_seconds
from stream_leip.tracker import Tracker
from stream_leip.twins import alike
from stream_leip.update import Update
from stream_leip.windows import Adaptive, Layout, Scope, Window
from stream_leip.windows.adaptive import AdaptiveState
from stream_leip.windows.state import OnLate, WindowState

VERSION = 3

_NAMED: dict[str, Estimator] = {"auto": Auto(), "LEIP": LEIP(), "EM": EM()}
DEFAULT_WINDOW = Adaptive()
DEFAULT_ALARM = 0.05

AlarmLevel = float | Literal["auto"] | None


class Monitor:
    """Watches one stream of predictions, and says what the class mix is whenever a window ends.

    Parameters
    ----------
    profile
        The source.
    window
        `Adaptive`, `Tumbling`, `Sliding` or `Fading`.
    estimator
        "auto", "LEIP", "EM", or an estimator. LEIP and EM are both in every update in any case.
    level
        Of the intervals `low` to `high`; None for none.
    alarm
        The share of streams without a change that may ever raise the alarm; None for no alarm.
        "auto" is 0.05 with `Adaptive`, which has all that it takes, and None with other windows.
    check
        Whether updates say if more than the class mix changed.
    max_rows
        Most rows to keep; beyond, rows are thinned uniformly, and the update says how many.
    top_k
        Keep only the largest entries of each row, this many, for streams of many classes. The rest
        of its mass is spread over the other classes in proportion to the source prior.
    on_bad
        What to do with scores that cannot be used: "raise", before anything changes, or "skip" and
        count.
    on_late
        Called with rows, times and event numbers that came too late for their window.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip import Monitor, Tumbling, fit_profile
    >>> rng = np.random.default_rng(0)
    >>> def draw(labels):
    ...     return 4.0 * np.eye(3)[labels] + rng.normal(size=(len(labels), 3))
    >>> known = rng.integers(3, size=900)
    >>> monitor = Monitor(fit_profile(draw(known), known), Tumbling(count=1000))
    >>> shifted = draw(rng.choice(3, size=2500, p=[0.7, 0.2, 0.1]))
    >>> for update in monitor.update_many(shifted):
    ...     print(update)
    update 0: 1000 rows, LEIP: 0 0.699, 1 0.214, 2 0.087
    update 1: 1000 rows, LEIP: 0 0.700, 1 0.192, 2 0.108
    >>> monitor.estimate().n
    500
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
        on_late: OnLate | None = None,
    ) -> None:
        if not isinstance(profile, SourceProfile):
            raise InputError(
                f"profile: a {type(profile).__name__} is none; use fit_profile(…) or "
                "SourceProfile.load(path)"
            )
        if isinstance(window, type) or not hasattr(window, "open"):
            raise InputError(f"window: {window!r} is no window; use Adaptive(), say")
        if level is not None:
            squared_quantile(level)
        adaptive = isinstance(window, Adaptive)
        if isinstance(alarm, str) and alarm == "auto":
            alarm = DEFAULT_ALARM if adaptive else None
        if alarm is not None and not (is_number(alarm) and 0.0 < alarm < 1.0):
            raise InputError(f'alarm: {alarm!r}; use a share such as 0.05, "auto", or None')
        check_kinds(check, on_late)
        if isinstance(estimator, str) and estimator not in _NAMED:
            raise InputError(
                f"estimator: {estimator!r} is unknown; use {', '.join(_NAMED)}, or an estimator"
            )
        if max_rows is not None:
            check_whole("max_rows", max_rows)
        if top_k is not None:
            check_whole("top_k", top_k)
            if top_k > len(profile.classes):
                raise InputError(
                    f"top_k: {top_k!r}; use 1 to {len(profile.classes)} classes, or None"
                )
        chosen = _NAMED[estimator] if isinstance(estimator, str) else estimator
        if top_k is not None and not isinstance(chosen, Auto | LEIP | EM):
            raise InputError(f"estimator: {chosen!r} needs whole rows; leave top_k out")
        self.profile = profile
        self.window = window
        self.estimator = chosen
        self._max_rows = None if max_rows is None else int(max_rows)
        self._top_k = None if top_k is None else int(top_k)
        self._level = level
        self._alarm = alarm
        self._check = bool(check)
        self._tracker: Tracker | None = None
        if adaptive or alarm is not None:
            # Beside another window it serves the alarm alone, with rungs of its own.
            by = chosen if adaptive or isinstance(chosen, Auto | LEIP | EM) else Auto()
            self._tracker = Tracker(profile, by, alarm, self._top_k, self._max_rows)
        self._beside = None if adaptive else self._tracker
        self._state = self._open(on_late)
        self._events = 0
        self._sequence = 0
        self._bad = 0
        self._checked = 0
        self._adapting: Vector = profile.soft_prior
        self.entrance = Entrance(profile, on_bad, needs_time=window.needs_time)

    def _open(self, on_late: OnLate | None) -> WindowState:
        tracker = self._tracker if self._beside is None else None
        m = len(self.profile.classes)
        return self.window.open(Layout(m, self._top_k, self._max_rows, on_late, tracker))

    def twin(self, on_late: OnLate | None = None) -> "Monitor":
        """A monitor made as this one, which took no event yet; much cheaper than to make one."""
        assert not self._events
        other = alike(self)
        if self._tracker is not None:
            other._tracker = self._tracker.twin()
            other._beside = None if self._beside is None else other._tracker
        other._state = other._open(on_late)
        return other

    @property
    def events(self) -> int:
        """How many events came, bad ones aside."""
        return self._events

    @property
    def bad(self) -> int:
        """How many events were skipped because their scores could not be used."""
        return self._bad

    @property
    def late(self) -> int:
        """How many events came too late for their window."""
        return self._state.late

    @property
    def adapting_prior(self) -> Vector:
        """The prior that `adapt` uses.

        With `Adaptive`, of the newest pane of 50 events; else of the newest update. The source's
        before the first.
        """
        if self._tracker is not None and self._beside is None:
            return mix_in(self._tracker.prior, self._tracker.memory, self.profile.soft_prior)
        return self._adapting.copy()

    def update(self, scores: Any, time: Time | None = None) -> list[Update]:
        """Take one event: an array, a list, or a dict by class name."""
        return self.take_one(*self.entrance.one(scores, time))

    def update_many(self, scores: gate.ScoresLike, times: Times | None = None) -> list[Update]:
        """Take many events; the same as `update` for each, and faster.

        If an estimator of your own raises, the error comes when all events are taken: this call's
        updates are lost, and the state is that after the batch. Do not feed it again.
        """
        return [update for _, update in self.take(self.entrance.many(scores, times))]

    def advance(self, time: Time) -> list[Update]:
        """Let event time move on without events, so that idle streams close their windows."""
        return [self._emit(scope) for scope in self._state.advance(epoch_seconds(time))]

    def estimate(self) -> Update:
        """The class mix now, whatever the pane's fill; nothing changes by it."""
        return self._describe(self._state.now())

    def adapt(self, scores: gate.ScoresLike) -> Rows:
        """Posteriors under the current mix, shrunk towards the source."""
        return adapt(self.profile.rows(scores), self.adapting_prior, self.profile.soft_prior)

    def reset_alarm(self) -> None:
        """Let "no change" mean the source mix again, and begin anew."""
        if self._tracker is None or self._tracker.alarm is None:
            raise InputError("alarm: this monitor has none; make it with alarm=0.05")
        self._tracker.reset_alarm()

    def take_one(self, row: Rows | None, time: float | None) -> list[Update]:
        """Take one event that came through the gate."""
        if row is None:
            self.skip(1)
            return []
        event = self._events
        self._events += 1  # first: a callback that raises must not give the number away twice
        if self._beside is not None:
            self._beside.follow(row)
        scopes = self._state.add_one(row, time, event)
        return [self._emit(scope) for scope in scopes] if scopes else []

    def lay(self, rows: Rows, times: Vector | None) -> bool:
        """Take some events that came through the gate, if surely no update comes of them.

        Returns whether it took them. For many streams of few events it matters how quick this is.
        """
        if not isinstance(self._state, AdaptiveState) or not self._state.lay(rows, times):
            return False
        self._events += len(rows)
        return True

    def skip(self, events: int) -> None:
        """Count events that did not come through the gate."""
        self._bad += events

    def take(self, batch: Batch) -> Iterator[tuple[int, Update]]:
        """Take events that came through the gate; give each update with the event that led to it.

        The event is its place among the batch's rows.
        """
        bad = self._bad
        failure: Exception | None = None
        if len(batch.rows):
            events = np.arange(self._events, self._events + len(batch.rows))
            self._events += len(batch.rows)
            followed = 0
            try:
                for scope in self._state.add(batch.rows, batch.times, events):
                    if self._beside is not None:
                        self._beside.follow(batch.rows[followed : scope.place + 1])
                        followed = scope.place + 1
                    # Of the events before that one, those that are no rows were bad.
                    self._bad = bad + int(batch.places[scope.place]) - scope.place
                    try:
                        update = self._emit(scope)
                    except Exception as error:
                        # The events came all the same: the state takes them to the last.
                        failure = failure or error
                    else:
                        yield scope.place, update
            finally:
                if self._beside is not None:
                    self._beside.follow(batch.rows[followed:])
        self._bad = bad + batch.n - len(batch.rows)
        if failure is not None:
            raise failure

    def _emit(self, scope: Scope) -> Update:
        try:
            update = self._describe(scope)
        finally:
            self._checked += self._check
            self._sequence += 1  # a number that is missing tells of an update that failed
        if update.adapting_prior is not None:
            self._adapting = update.adapting_prior.copy()
        return update

    def _describe(self, scope: Scope) -> Update:
        alarm = None if self._tracker is None else self._tracker.alarm
        window = self._checked + 1 if self._check else None
        found = describe(scope, self.profile, self.estimator, self._level, window)
        return Update(
            sequence=self._sequence,
            classes=self.profile.classes,
            alarm=None if alarm is None else describe_alarm(alarm, self.profile),
            changed_at=None if alarm is None else _last_change(alarm),
            bad=self._bad,
            late=self._state.late,
            **found,
        )

    def settings(self) -> dict[str, Any]:
        """What the monitor was made with, as plain values."""
        return {
            "window": to_plain(self.window),
            "estimator": to_plain(self.estimator),
            "level": self._level,
            "alarm": self._alarm,
            "check": self._check,
            "max_rows": self._max_rows,
            "top_k": self._top_k,
            "on_bad": self.entrance.on_bad,
        }

    def since(self, event: int) -> dict[str, Chunk]:
        """The rows held from an event number on, by who holds them."""
        found = {"window": self._state.since(event)}
        if self._tracker is not None:
            found["tracker"] = self._tracker.since(event)
        return {name: chunk for name, chunk in found.items() if chunk is not None}

    @property
    def oldest(self) -> dict[str, int | None]:
        """Below which event number rows are no longer needed, by who held them; None: none is."""
        found = {"window": self._state.oldest}
        return found if self._tracker is None else found | {"tracker": self._tracker.oldest}

    def trim(self) -> None:
        """Let go of rows that no window to come needs, so that a snapshot is small.

        Updates to come are the same; only `estimate` no longer sees the window that ended.
        """
        self._state.trim()

    def snapshot(self, *, rows: bool = True) -> bytes:
        """All of the monitor's settings and state in bytes; the profile only by its fingerprint.

        Without rows it is small, and `since` gives these: whoever keeps the state event by event
        writes only what is new.
        """
        fields = {
            "profile": self.profile.fingerprint,
            **self.settings(),
            "events": self._events,
            "sequence": self._sequence,
            "bad": self._bad,
            "checked": self._checked,
            "tracker": None if self._tracker is None else self._tracker.snapshot(rows=rows),
            "state": self._state.snapshot(rows=rows),
        }
        return binary.encode("monitor", VERSION, fields, {"adapting": self._adapting})

    @classmethod
    def restore(
        cls,
        state: bytes,
        profile: SourceProfile,
        *,
        window: Window | None = None,
        estimator: Estimator | None = None,
        on_late: OnLate | None = None,
        chunks: Mapping[str, Chunk] | None = None,
    ) -> "Monitor":
        """The monitor that `snapshot` was taken of; from then on it does what that one does.

        Parameters
        ----------
        state
            What `snapshot` gave.
        profile
            The one the monitor had.
        window, estimator
            Only for types of your own, which a snapshot cannot hold.
        on_late
            As for a new monitor.
        chunks
            Of a snapshot without rows: all rows that `since` would give, or more.

        Raises
        ------
        SnapshotError
            If the bytes are corrupt, of another kind or version, or of another profile.
        """
        fields, arrays = binary.decode(state, "monitor", VERSION)
        check_fingerprint(fields["profile"], profile)
        monitor = cls(
            profile,
            from_plain("window", fields["window"]) if window is None else window,
            from_plain("estimator", fields["estimator"]) if estimator is None else estimator,
            level=fields["level"],
            alarm=fields["alarm"],
            check=fields["check"],
            max_rows=fields["max_rows"],
            top_k=fields["top_k"],
            on_bad=fields["on_bad"],
            on_late=on_late,
        )
        monitor._events = fields["events"]
        monitor._sequence = fields["sequence"]
        monitor._bad = fields["bad"]
        monitor._checked = fields["checked"]
        monitor._adapting = arrays["adapting"]
        if monitor._tracker is not None:
            monitor._tracker.restore(fields["tracker"], (chunks or {}).get("tracker"))
        monitor._state.restore(fields["state"], (chunks or {}).get("window"))
        return monitor


def _last_change(alarm: Alarm) -> int | None:
    """Of a change that is likely now, or else of the last one that was proven."""
    return alarm.last_change if alarm.changed_at is None else alarm.changed_at


def check_fingerprint(found: str, profile: SourceProfile) -> None:
    """Refuse the snapshot of another profile."""
    if found != profile.fingerprint:
        raise SnapshotError(
            f"snapshot: of profile {found[:12]}, not {profile.fingerprint[:12]}; "
            "restore with the profile it was taken with"
        )
