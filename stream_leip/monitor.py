"""The monitor: one stream's rows to panes to window to estimator to update."""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_leip import binary
from stream_leip import rows as gate
from stream_leip._kernels import gate as kernel
from stream_leip.adapt import adapt, shrink
from stream_leip.arrays import Rows, Vector
from stream_leip.errors import InputError, SnapshotError
from stream_leip.estimators import EM, LEIP, Auto, Estimator
from stream_leip.estimators.auto import choose, effective_size
from stream_leip.profile import SourceProfile
from stream_leip.settings import from_plain, to_plain
from stream_leip.times import Time, Times, epoch_array, epoch_seconds, screen_times
from stream_leip.update import Update
from stream_leip.windows import Layout, Scope, Tumbling, Window
from stream_leip.windows.state import OnLate

VERSION = 1
_FLOATS = (np.float32, np.float64)

_NAMED: dict[str, Estimator] = {"auto": Auto(), "LEIP": LEIP(), "EM": EM()}
DEFAULT_WINDOW = Tumbling(count=1000)


class Batch(NamedTuple):
    """Events that came through the gate.

    Parameters
    ----------
    rows
        The good ones.
    times
        Theirs, where events have any.
    places
        Where among all events of the batch each row stood.
    n
        How many events there were, bad ones included.
    """

    rows: Rows
    times: Vector | None
    places: NDArray[np.int64]
    n: int


class Monitor:
    """Watches one stream of predictions, and says what the class mix is whenever a window ends.

    Parameters
    ----------
    profile
        The source.
    window
        `Tumbling`, `Sliding` or `Fading`.
    estimator
        "auto", "LEIP", "EM", or an estimator. LEIP and EM are both in every update in any case.
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
        max_rows: int | None = None,
        top_k: int | None = None,
        on_bad: Literal["raise", "skip"] = "raise",
        on_late: OnLate | None = None,
    ) -> None:
        if not hasattr(window, "open"):
            raise InputError(f"window: {window!r} is no window; use Tumbling(count=1000), say")
        if isinstance(estimator, str) and estimator not in _NAMED:
            raise InputError(
                f"estimator: {estimator!r} is unknown; use {', '.join(_NAMED)}, or an estimator"
            )
        if max_rows is not None and max_rows < 1:
            raise InputError(f"max_rows: {max_rows!r}; use a whole number of at least 1, or None")
        if top_k is not None and not 1 <= top_k <= len(profile.classes):
            raise InputError(f"top_k: {top_k!r}; use 1 to {len(profile.classes)} classes, or None")
        if on_bad not in ("raise", "skip"):
            raise InputError(f'on_bad: {on_bad!r} is unknown; use "raise" or "skip"')
        chosen = _NAMED[estimator] if isinstance(estimator, str) else estimator
        if top_k is not None and not isinstance(chosen, Auto | LEIP | EM):
            raise InputError(f"estimator: {chosen!r} needs whole rows; leave top_k out")
        m = len(profile.classes)
        self.profile = profile
        self.window = window
        self.estimator = chosen
        self._max_rows = None if max_rows is None else int(max_rows)
        self._top_k = None if top_k is None else int(top_k)
        self._on_bad = on_bad
        self._state = window.open(Layout(m, self._top_k, self._max_rows, on_late))
        self._events = 0
        self._sequence = 0
        self._bad = 0
        self._adapting: Vector = profile.soft_prior
        self._row = np.empty((1, m), np.float32)
        self._reason = np.empty(1, np.uint8)

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
        """The prior that `adapt` uses: of the newest update, or the source's before the first."""
        return self._adapting.copy()

    def update(self, scores: Any, time: Time | None = None) -> list[Update]:
        """Take one event: an array, a list, or a dict by class name."""
        return self.take_one(*self.gate_one(scores, time))

    def update_many(self, scores: gate.ScoresLike, times: Times | None = None) -> list[Update]:
        """Take many events; the same as `update` for each, and faster.

        If an estimator of your own raises, the error comes when all events are taken: this call's
        updates are lost, and the state is that after the batch. Do not feed it again.
        """
        return [update for _, update in self.take(self.gate_many(scores, times))]

    def advance(self, time: Time) -> list[Update]:
        """Let event time move on without events, so that idle streams close their windows."""
        return [self._emit(scope) for scope in self._state.advance(epoch_seconds(time))]

    def estimate(self) -> Update:
        """The class mix now, whatever the pane's fill; nothing changes by it."""
        return self._describe(self._state.now())

    def adapt(self, scores: gate.ScoresLike) -> Rows:
        """Posteriors under the current mix, shrunk towards the source."""
        return adapt(self.profile.rows(scores), self._adapting, self.profile.soft_prior)

    def gate_one(self, scores: Any, time: Time | None) -> tuple[Rows | None, float | None]:
        """One event's row, or None if it is bad and to be skipped, and its time."""
        skip = self._on_bad == "skip"
        seconds = None
        if time is None:
            self._check_untimed()
        else:
            try:
                seconds = epoch_seconds(time)
            except InputError:
                if skip:
                    return None, None
                raise
        profile = self.profile
        plain = isinstance(scores, np.ndarray) and scores.dtype in _FLOATS
        if plain and scores.shape == self._row.shape[1:]:
            calibrator = profile.calibrator
            bad = kernel.calibrate(
                scores[None],
                profile.kind == "logits",
                calibrator.identity,
                calibrator.scale,
                calibrator.bias,
                self._row,
                self._reason,
            )
            if not bad:
                return self._row, seconds
        if skip:
            try:
                rows, refused = profile.screen([scores])
            except InputError:
                return None, None
            return (None, None) if refused else (rows, seconds)
        return profile.rows([scores]), seconds

    def gate_many(self, scores: gate.ScoresLike, times: Times | None) -> Batch:
        """Events as a batch; raises before anything changes, or leaves the bad ones out."""
        if times is None:
            self._check_untimed()
        if self._on_bad == "raise":
            rows = self.profile.all_rows(scores)
            seconds = None if times is None else epoch_array(times, len(rows))
            return Batch(rows, seconds, np.arange(len(rows)), len(rows))
        rows, bad = self.profile.screen(scores)
        n = len(rows) + len(bad)
        places = np.delete(np.arange(n), [index for index, _ in bad])
        if times is None:
            return Batch(rows, None, places, n)
        seconds = screen_times(times, n)[places]
        timed = ~np.isnan(seconds)
        return Batch(rows[timed], seconds[timed], places[timed], n)

    def _check_untimed(self) -> None:
        if self._state.needs_time:
            raise InputError("time: None, but windows by time need the time of every event")

    def take_one(self, row: Rows | None, time: float | None) -> list[Update]:
        """Take one event that came through the gate."""
        if row is None:
            self.skip(1)
            return []
        event = self._events
        self._events += 1  # first: a callback that raises must not give the number away twice
        scopes = self._state.add_one(row, time, event)
        return [self._emit(scope) for scope in scopes] if scopes else []

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
            for scope in self._state.add(batch.rows, batch.times, events):
                # Of the events before that one, those that are no rows were bad.
                self._bad = bad + int(batch.places[scope.place]) - scope.place
                try:
                    update = self._emit(scope)
                except Exception as error:
                    # The events came all the same: the state takes them to the last.
                    failure = failure or error
                else:
                    yield scope.place, update
        self._bad = bad + batch.n - len(batch.rows)
        if failure is not None:
            raise failure

    def _emit(self, scope: Scope) -> Update:
        try:
            update = self._describe(scope)
        finally:
            self._sequence += 1  # a number that is missing tells of an update that failed
        if update.adapting_prior is not None:
            self._adapting = update.adapting_prior.copy()
        return update

    def _describe(self, scope: Scope) -> Update:
        pane, weights = scope.merged()
        if pane is None:
            return self._nothing(scope)
        profile = self.profile
        leip = LEIP().estimate_ranked(pane, profile, weights)
        given = weights if len(weights) else None
        em = EM().estimate_ranked(pane, profile, weights)
        size = effective_size(len(pane), given)
        if isinstance(self.estimator, Auto):
            name, reason = choose(profile, size)
            chosen = leip if name == "LEIP" else em
        else:
            name, reason = type(self.estimator).__name__, "chosen by the user"
            if self.estimator == LEIP():
                chosen = leip
            elif self.estimator == EM():
                chosen = em
            elif isinstance(self.estimator, LEIP | EM):
                chosen = self.estimator.estimate_ranked(pane, profile, weights)
            else:
                chosen = self.estimator.estimate(pane.rows, profile, weights=given)
        events = pane.events
        details = leip.details
        return Update(
            sequence=self._sequence,
            first=int(events.min()),
            last=int(events.max()),
            start=pane.start if scope.start is None else scope.start,
            end=pane.end if scope.end is None else scope.end,
            n=len(pane),
            classes=profile.classes,
            estimator=name,
            reason=reason,
            prior=chosen.prior,
            weights=chosen.weights,
            adapting_prior=shrink(chosen.prior, pane, weights, size, profile),
            leip=leip.prior,
            em=em.prior,
            threshold=details["threshold"],  # type: ignore[arg-type]
            confident=details["confident"],  # type: ignore[arg-type]
            buffered=details["buffered"],  # type: ignore[arg-type]
            bad=self._bad,
            late=self._state.late,
            thinned=pane.seen - len(pane),
        )

    def _nothing(self, scope: Scope) -> Update:
        return Update(
            sequence=self._sequence,
            first=None,
            last=None,
            start=scope.start,
            end=scope.end,
            n=0,
            classes=self.profile.classes,
            estimator="none",
            reason="no rows in scope",
            bad=self._bad,
            late=self._state.late,
        )

    def snapshot(self) -> bytes:
        """All of the monitor's settings and state in bytes; the profile only by its fingerprint."""
        fields = {
            "profile": self.profile.fingerprint,
            "window": to_plain(self.window),
            "estimator": to_plain(self.estimator),
            "max_rows": self._max_rows,
            "top_k": self._top_k,
            "on_bad": self._on_bad,
            "events": self._events,
            "sequence": self._sequence,
            "bad": self._bad,
            "state": self._state.snapshot(),
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
            max_rows=fields["max_rows"],
            top_k=fields["top_k"],
            on_bad=fields["on_bad"],
            on_late=on_late,
        )
        monitor._events = fields["events"]
        monitor._sequence = fields["sequence"]
        monitor._bad = fields["bad"]
        monitor._adapting = arrays["adapting"]
        monitor._state.restore(fields["state"])
        return monitor


def check_fingerprint(found: str, profile: SourceProfile) -> None:
    """Refuse the snapshot of another profile."""
    if found != profile.fingerprint:
        raise SnapshotError(
            f"snapshot: of profile {found[:12]}, not {profile.fingerprint[:12]}; "
            "restore with the profile it was taken with"
        )
