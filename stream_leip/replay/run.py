"""The replay itself: monitors side by side on the same events."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from stream_leip.adapt import adapt
from stream_leip.arrays import Labels, Matrix, Rows
from stream_leip.checks import check_whole
from stream_leip.errors import BadRowsError, InputError
from stream_leip.keyed import KeyedMonitor
from stream_leip.monitor import Monitor
from stream_leip.profile import SourceProfile
from stream_leip.replay.judging import AlarmScore, EstimateScore, PredictionScore
from stream_leip.replay.pool import Pool
from stream_leip.replay.result import Point, ReplayResult, Track
from stream_leip.replay.schedule import Schedule
from stream_leip.replay.stream import Events, Stream, Traffic
from stream_leip.replay.violations import Violation
from stream_leip.update import Update

Progress = Callable[[int, int], None]
OnUpdate = Callable[[str, Point], None]


def replay(
    monitors: Mapping[str, Monitor | KeyedMonitor],
    pool: Pool,
    schedule: Schedule,
    n: int,
    *,
    traffic: Traffic = Traffic(),  # noqa: B008  (frozen)
    violations: Sequence[Violation] = (),
    seed: int = 0,
    chunk: int = 100,
    points: int = 500,
    on_update: OnUpdate | None = None,
    progress: Progress | None = None,
) -> ReplayResult:
    """Run monitors side by side on the same simulated events, and judge them by the truth.

    Each chunk of events is predicted with the estimates as they stand, and only then shown to the
    monitors. Updates do not depend on the chunk; how old the estimates are that predictions are
    adapted with does.

    Parameters
    ----------
    monitors
        By name, all of one profile. They are used as they are: pass new ones for a new replay.
    pool
        Labelled scores to draw events from.
    schedule
        How the true mix moves, from the profile's soft prior on.
    n
        How many events, duplicates aside.
    traffic
        How events come in; bad ones need monitors with `on_bad="skip"`.
    violations
        Changes of the scores that are not label shift.
    seed
        The same seed gives the same events.
    chunk
        Events that are predicted at a time.
    points
        Most updates of a monitor, and most stretches of the stream, to keep for drawing.
    on_update
        Called with a monitor's name and each of its updates in its place.
    progress
        Called with how many of how many events are done.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip import Monitor, Tumbling, fit_profile
    >>> from stream_leip.replay import Pool, Sudden, replay
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(2, size=2000)
    >>> logits = np.eye(2)[labels] * 2 + rng.normal(size=(2000, 2))
    >>> profile = fit_profile(logits[:1000], labels[:1000])
    >>> pool = Pool(logits[1000:], labels[1000:])
    >>> monitors = {"EM": Monitor(profile, Tumbling(count=500), "EM")}
    >>> result = replay(monitors, pool, Sudden(to=[0.95, 0.05]), n=10_000)
    >>> gained = result.tracks["EM"].adapted.accuracy - result.unadapted.accuracy
    >>> round(gained, 3), result.changes
    (0.025, (5000,))
    """
    profile = _shared_profile(monitors)
    _check_keys(monitors, traffic)
    check_whole("points", points, 2)
    pool.check_classes(len(profile.classes))
    source = profile.soft_prior
    stream = Stream(pool, schedule, n, source, traffic, tuple(violations), profile.kind, seed)
    stretches = min(points, n)
    lanes = [
        _Lane(name, monitor, profile, stream, stretches, points, on_update)
        for name, monitor in monitors.items()
    ]
    plain, knowing = (PredictionScore(len(source), stretches) for _ in range(2))
    counts = dict.fromkeys(("events", "delayed", "late", "duplicate", "bad"), 0)
    reached = 0
    for events in stream.chunks(chunk):
        good = events.part(~events.bad) if events.bad.any() else events
        rows = profile.all_rows(good.scores)
        stretch = good.numbers * stretches // n
        plain.add(rows, good.labels, stretch)
        knowing.add(adapt(rows, good.truths, source), good.labels, stretch)
        # How far the stream is, event by event: one that was overtaken does not set it back.
        past = np.maximum(np.maximum.accumulate(events.numbers) + 1, reached)
        reached = int(past[-1])
        for lane in lanes:
            lane.predict(good, rows, stretch)
            lane.see(events, past)
        counts["events"] += len(events)
        for name in ("delayed", "late", "duplicate", "bad"):
            counts[name] += int(getattr(events, name).sum())
        if progress is not None:
            progress(reached, n)
    begins = np.ceil(np.arange(stretches) * n / stretches)
    return ReplayResult(
        classes=profile.classes,
        source=source,
        n=n,
        seed=seed,
        settings={
            "schedule": repr(schedule),
            "traffic": repr(traffic),
            "violations": repr(tuple(violations)),
            "chunk": repr(chunk),
            "profile": profile.fingerprint,
        },
        counts=counts,
        changes=stream.changes,
        stretches=begins,
        truth=np.concatenate([stream.plan.priors(int(i), int(i) + 1) for i in begins]),
        unadapted=plain.result(),
        with_truth=knowing.result(),
        tracks={lane.name: lane.result() for lane in lanes},
    )


class _Lane:
    """One monitor with its scores. Estimates have a line for each key, or one."""

    def __init__(
        self,
        name: str,
        monitor: Monitor | KeyedMonitor,
        profile: SourceProfile,
        stream: Stream,
        stretches: int,
        points: int,
        on_update: OnUpdate | None,
    ) -> None:
        source = profile.soft_prior
        self.name = name
        self._monitor = monitor
        self._stream = stream
        self._source = source
        self._keys = stream.traffic.keys if isinstance(monitor, KeyedMonitor) else ("",)
        self._standing: Matrix = np.tile(source, (len(self._keys), 1))
        self._adapting: Matrix = self._standing.copy()
        self._errors = EstimateScore(source, stretches)
        self._alarms = AlarmScore(source)
        self._adapted = PredictionScore(len(source), stretches)
        self._points = _Thinned(points)
        self._on_update = on_update

    def predict(self, good: Events, rows: Rows, stretch: Labels) -> None:
        """Predict with the estimates as they stand, and judge these."""
        key = good.keys if len(self._keys) > 1 else np.zeros(len(good), np.int64)
        by_event = self._adapting[key] if len(self._keys) > 1 else self._adapting[0]
        self._adapted.add(adapt(rows, by_event, self._source), good.labels, stretch)
        self._errors.add_standing(self._standing[key], good.truths, stretch)

    def see(self, events: Events, past: Labels) -> None:
        """Show the monitor the events, and judge its updates."""
        try:
            found = self._feed(events)
        except BadRowsError as error:
            raise InputError(
                f"monitors: {self.name!r} refuses a bad event ({error}); give it "
                'on_bad="skip", or let no event be bad'
            ) from error
        told = 0
        for place, update in found:
            number = int(past[place])
            truth = self._stream.plan.priors(number - 1, number)[0]
            self._alarms.follow(events.truths[told : place + 1])
            told = place + 1
            self._judge(Point(number, update, truth))
        self._alarms.follow(events.truths[told:])

    def _feed(self, events: Events) -> list[tuple[int, Update]]:
        """The updates, each with the place of the event that led to it."""
        good = np.flatnonzero(~events.bad)
        monitor = self._monitor
        if isinstance(monitor, KeyedMonitor):
            names = [self._keys[key] for key in events.keys.tolist()]
            places = {key: good[events.keys[good] == j] for j, key in enumerate(self._keys)}
            before = {k: monitor.monitor(k).events if k in monitor else 0 for k in self._keys}
            updates = monitor.update_many(names, events.scores, events.times)
            located = [
                (_place(update, places[str(update.key)], before[str(update.key)]), update)
                for update in updates
            ]
            adapting = [
                monitor.monitor(key).adapting_prior if key in monitor else self._source
                for key in self._keys
            ]
            self._adapting = np.array(adapting)
            return sorted(located, key=lambda each: each[0])
        seen = monitor.events
        updates = monitor.update_many(events.scores, events.times)
        if updates:
            self._adapting = monitor.adapting_prior[None]
        return [(_place(update, good, seen), update) for update in updates]

    def _judge(self, point: Point) -> None:
        update = point.update
        if update.prior is not None:
            line = 0 if update.key is None else self._keys.index(update.key)
            self._standing[line] = update.prior
            self._errors.add_update(update.prior, point.truth, update.low, update.high)
        self._alarms.add(update.alarm, point.number, point.truth)
        self._points.add(point)
        if self._on_update is not None:
            self._on_update(self.name, point)

    def result(self) -> Track:
        """What the monitor did."""
        gate = self._monitor
        window = gate.window if isinstance(gate, Monitor) else "a monitor for each key"
        estimator = gate.estimator if isinstance(gate, Monitor) else ""
        return Track(
            name=self.name,
            settings={"window": str(window), "estimator": str(estimator)},
            updates=self._points.seen,
            points=self._points.kept(),
            errors=self._errors.result(),
            alarms=self._alarms.result(self._stream.changes, self._stream.n),
            adapted=self._adapted.result(),
        )


class _Thinned:
    """At most so many points: when there are more, every second one goes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._step = 1
        self._points: list[Point] = []
        self._last: Point | None = None
        self.seen = 0

    def add(self, point: Point) -> None:
        if self.seen % self._step == 0:
            if len(self._points) == self._most:
                self._points = self._points[::2]
                self._step *= 2
            if self.seen % self._step == 0:
                self._points.append(point)
        self._last = point
        self.seen += 1

    def kept(self) -> tuple[Point, ...]:
        if self._last is None or self._last is self._points[-1]:
            return tuple(self._points)
        return (*self._points[: self._most - 1], self._last)


def _place(update: Update, places: Labels, before: int) -> int:
    """Where in a chunk the last event of an update's scope is; the first if it came earlier."""
    if update.last is None or not 0 <= update.last - before < len(places):
        return 0
    return int(places[update.last - before])


def _shared_profile(monitors: Mapping[str, Monitor | KeyedMonitor]) -> SourceProfile:
    if not monitors:
        raise InputError('monitors: there are none; pass {"EM": Monitor(profile, …)}, say')
    profiles = [monitor.profile for monitor in monitors.values()]
    for name, profile in zip(monitors, profiles, strict=True):
        if profile.fingerprint != profiles[0].fingerprint:
            raise InputError(f"monitors: {name!r} has another profile; use one for all")
    return profiles[0]


def _check_keys(monitors: Mapping[str, Monitor | KeyedMonitor], traffic: Traffic) -> None:
    for name, monitor in monitors.items():
        if isinstance(monitor, KeyedMonitor) and not traffic.keys:
            raise InputError(
                f"monitors: {name!r} is keyed, but events have no keys; "
                'use traffic=Traffic(keys=("a", "b")), say'
            )
