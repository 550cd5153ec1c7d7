"""Events drawn from a pool by a schedule, in the order in which they arrive."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream_leip.arrays import Kind, Labels, Matrix, Scores, Vector
from stream_leip.checks import check_above_zero, check_share, check_whole
from stream_leip.errors import InputError
from stream_leip.replay.mixes import check_mix
from stream_leip.replay.pool import Pool
from stream_leip.replay.schedule import Plan, Schedule
from stream_leip.replay.violations import Violation, violate

# Chance is drawn for this many events at a time, whatever the chunks that are asked for.
BLOCK = 4096
# What is drawn for every event, in this order, whether or not a setting needs it.
_DRAWN = 9
# 14 November 2023, 22:13:20 UTC: any time does, as long as it is the same one each time.
EPOCH = 1_700_000_000.0


@dataclass(frozen=True)
class Traffic:
    """How events come in: their times, keys and order, and what goes wrong with them.

    Parameters
    ----------
    rate
        Events a second.
    jitter
        How irregular event times are, from 0 (a clock) to 1 (anywhere in their slot).
    begin
        The time of the first event, in epoch seconds.
    keys
        Keys that events get by chance, all alike; none unless given.
    out_of_order
        The share of events that are held up for up to `delay` seconds, so that others overtake.
    delay
        In seconds.
    late
        The share of events that are held up for `late_by` seconds, and up to `delay` more.
    late_by
        In seconds.
    duplicates
        The share of events that come a second time, up to `delay` seconds after the first.
    bad
        The share of events with a score that is not finite.

    Examples
    --------
    >>> from stream_leip.replay import Traffic
    >>> Traffic(rate=100.0, late=0.01).late_by
    60.0
    """

    rate: float = 1000.0
    jitter: float = 0.0
    begin: float = EPOCH
    keys: tuple[str, ...] = ()
    out_of_order: float = 0.0
    delay: float = 1.0
    late: float = 0.0
    late_by: float = 60.0
    duplicates: float = 0.0
    bad: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", tuple(self.keys))
        for name in ("rate", "delay", "late_by"):
            check_above_zero(name, getattr(self, name))
        for name in ("jitter", "out_of_order", "late", "duplicates", "bad"):
            check_share(name, getattr(self, name))
        if self.out_of_order + self.late > 1:
            raise InputError(
                f"out_of_order, late: {self.out_of_order}, {self.late}; use at most 1 together"
            )


@dataclass(frozen=True, eq=False)
class Events:
    """Some events in the order of their arrival, and what only a replay knows of them.

    Parameters
    ----------
    numbers
        Where each was in the order of event time, from 0.
    scores, times
        What a monitor sees. With a key: `keys`, places among the traffic's.
    labels, truths
        The true class of each, and the true prior it was drawn by.
    delayed, late, duplicate, bad
        What happened to each.
    """

    numbers: NDArray[np.int64]
    scores: Scores
    times: Vector
    keys: NDArray[np.int64]
    labels: Labels
    truths: Matrix
    delayed: NDArray[np.bool_]
    late: NDArray[np.bool_]
    duplicate: NDArray[np.bool_]
    bad: NDArray[np.bool_]
    arrivals: Vector = field(repr=False)

    def __len__(self) -> int:
        return len(self.numbers)

    def part(self, which: slice | NDArray[np.int64] | NDArray[np.bool_]) -> "Events":
        """Some of the events."""
        return Events(*(getattr(self, each.name)[which] for each in fields(self)))

    @staticmethod
    def joined(parts: Sequence["Events"]) -> "Events":
        """All events of several parts, in their order."""
        if len(parts) == 1:
            return parts[0]
        names = [each.name for each in fields(Events)]
        return Events(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))


@dataclass(frozen=True, eq=False)
class Stream:
    """A stream of labelled events that is the same each time it is read. Nothing of it is kept.

    Parameters
    ----------
    pool
        Labelled scores to draw from.
    schedule
        How the true mix moves.
    n
        How many events, duplicates aside.
    source
        The source prior; the pool's own shares unless given.
    traffic
        How events come in.
    violations
        Changes of the scores that are not label shift.
    kind
        Whether scores are "logits" or "probabilities".
    seed
        The same seed gives the same bytes, whatever the chunks.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip.replay import Pool, Stream, Sudden
    >>> pool = Pool(np.eye(2) * 4.0, [0, 1])
    >>> stream = Stream(pool, Sudden(to=[0.0, 1.0]), n=1000)
    >>> [chunk.labels.mean() for chunk in stream.chunks(500)]
    [np.float64(0.492), np.float64(1.0)]
    >>> stream.changes
    (500,)
    """

    pool: Pool
    schedule: Schedule
    n: int
    source: Vector | None = None
    traffic: Traffic = Traffic()
    violations: tuple[Violation, ...] = ()
    kind: Kind = "logits"
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole("n", self.n)
        check_whole("seed", self.seed, 0)
        if not isinstance(self.schedule, Schedule):
            raise InputError(f"schedule: {self.schedule!r} is no schedule; use Constant(), say")
        object.__setattr__(self, "violations", tuple(self.violations))
        for each in self.violations:
            each.reach(self.n)

    @cached_property
    def plan(self) -> Plan:
        """The schedule, laid out over the stream."""
        m = self.pool.scores.shape[1]
        source = self.pool.shares if self.source is None else check_mix("source", self.source, m)
        return self.schedule.plan(self.n, source, np.random.default_rng([self.seed, 0]))

    @property
    def changes(self) -> tuple[int, ...]:
        """The first event after each sharp change of the mix."""
        return self.plan.changes

    def chunks(self, size: int) -> Iterator[Events]:
        """The events as they arrive, so many at a time."""
        check_whole("chunk", size)
        held: list[Events] = []
        count = 0
        for arrived in self._arrived():
            held.append(arrived)
            count += len(arrived)
            if count >= size:
                joined = Events.joined(held)
                whole = count - count % size
                for first in range(0, whole, size):
                    yield joined.part(slice(first, first + size))
                held, count = [joined.part(slice(whole, None))], count - whole
        if count:
            yield Events.joined(held)

    def _arrived(self) -> Iterator[Events]:
        """Block by block, what has arrived before the first event of the next block can."""
        waiting: Events | None = None
        for first in range(0, self.n, BLOCK):
            made = self._block(first)
            together = made if waiting is None else Events.joined([waiting, made])
            order = np.lexsort((together.duplicate, together.numbers, together.arrivals))
            together = together.part(order)
            horizon = self.traffic.begin + (first + BLOCK) / self.traffic.rate
            last = first + BLOCK >= self.n
            ready = len(together) if last else int(np.searchsorted(together.arrivals, horizon))
            waiting = together.part(slice(ready, None))
            yield together.part(slice(0, ready))

    def _block(self, first: int) -> Events:
        """A block of events, and the second copies of some."""
        traffic = self.traffic
        stop = min(first + BLOCK, self.n)
        rng = np.random.default_rng([self.seed, 1, first // BLOCK])
        chance = rng.random((_DRAWN, BLOCK))[:, : stop - first]
        numbers = np.arange(first, stop)
        truths = self.plan.priors(first, stop)
        rows, labels = self.pool.draw(truths, chance[:2].T)
        times = traffic.begin + (numbers + traffic.jitter * chance[2]) / traffic.rate
        late = chance[3] < traffic.late
        delayed = ~late & (chance[3] < traffic.late + traffic.out_of_order)
        bad = chance[6] < traffic.bad
        held_up = traffic.delay * chance[4] * (late | delayed) + traffic.late_by * late
        scores = self._scores(rows, labels, numbers)
        broken = (chance[7] * scores.shape[1]).astype(np.int64)[bad]
        scores[np.flatnonzero(bad), broken] = np.where(broken % 2, np.inf, np.nan)
        keys = (chance[8] * max(1, len(traffic.keys))).astype(np.int64)
        never = np.zeros(len(numbers), bool)
        events = Events(
            numbers, scores, times, keys, labels, truths, delayed, late, never, bad, times + held_up
        )
        again = np.flatnonzero(chance[5] < traffic.duplicates)
        if not len(again):
            return events
        copies = events.part(again)
        # What is left of the number that chose the event is as good as a new one.
        after = traffic.delay * chance[5, again] / traffic.duplicates
        copies.duplicate[:] = True
        copies.arrivals[:] += after
        return Events.joined([events, copies])

    def _scores(self, rows: Labels, labels: Labels, numbers: Labels) -> Scores:
        scores = self.pool.scores[rows]
        for place, violation in enumerate(self.violations):
            begin, end = violation.reach(self.n)
            touched = (numbers >= begin) & (numbers < end)
            if touched.any():
                rng = np.random.default_rng([self.seed, 2, place, int(numbers[0]) // BLOCK])
                scores = violate(scores, labels, touched, violation, self.kind, rng)
        return scores
