"""Schedules in which every class moves: jumps, walks, seasons, and a table of one's own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stream_leip.arrays import Matrix, Vector
from stream_leip.checks import check_above_zero, check_from_zero, check_share
from stream_leip.errors import InputError
from stream_leip.replay.mixes import check_mix
from stream_leip.replay.schedule import Plan, Schedule
from stream_leip.replay.schedules import even_flips, random_flips

_BLOCK = 4096
# What a class of no share counts as where its logarithm walks.
_LEAST = 1e-6


@dataclass(frozen=True)
class Jumps(Schedule):
    """A mix drawn anew at every jump.

    Parameters
    ----------
    alpha
        The concentration of the Dirichlet draws.
    pieces
        How many stretches of one length; None for jumps at random.
    rate
        With `pieces` None, the chance of a jump at each event; one over the root of the stream's
        length unless given.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip.replay import Jumps
    >>> Jumps(pieces=4).plan(100, np.array([0.5, 0.5]), np.random.default_rng(0)).changes
    (25, 50, 75)
    """

    alpha: float = 1.0
    pieces: int | None = 8
    rate: float | None = None

    def plan(
        self, n: int, source: Vector, rng: np.random.Generator, start: Vector | None = None
    ) -> Plan:
        """Lay it out over `n` events."""
        check_above_zero("alpha", self.alpha)
        if self.pieces is None:
            flips = random_flips(self.rate, n, rng)
        else:
            flips = even_flips(self.pieces, n)
        mixes = rng.dirichlet(np.full(len(source), self.alpha), len(flips) + 1)
        return Plan(
            n,
            tuple(flips[flips > 0].tolist()),
            lambda first, stop: mixes[np.searchsorted(flips, np.arange(first, stop), "right")],
        )


@dataclass(frozen=True)
class Walk(Schedule):
    """A random walk on the simplex: the logarithms of the shares take a step at every event.

    Parameters
    ----------
    step
        Standard deviation of a step.
    floor
        As much of the mix is spread evenly over all classes, so that none is lost for good.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip.replay import Walk
    >>> Walk(step=0.1).priors(3, np.array([0.5, 0.5]))[:, 0].round(3)
    array([0.506, 0.519, 0.497])
    """

    step: float = 0.015
    floor: float = 0.02

    def plan(
        self, n: int, source: Vector, rng: np.random.Generator, start: Vector | None = None
    ) -> Plan:
        """Walk once through all events, and remember where each block begins."""
        check_above_zero("step", self.step)
        check_share("floor", self.floor)
        m = len(source)
        begin = np.log(np.maximum(source if start is None else start, _LEAST))
        walked: list[tuple[Any, Vector]] = []
        position = np.zeros(m)
        for first in range(0, n, _BLOCK):
            walked.append((rng.bit_generator.state, position))
            steps = rng.normal(size=(min(_BLOCK, n - first), m)) * self.step
            # A copy: a view would keep the whole block alive.
            position = np.cumsum(np.vstack([position, steps]), axis=0)[-1].copy()
        again = type(rng.bit_generator)()

        def block(number: int) -> Matrix:
            again.state, position = walked[number]
            rows = min(_BLOCK, n - number * _BLOCK)
            steps = np.random.Generator(again).normal(size=(rows, m)) * self.step
            logs = begin + np.cumsum(np.vstack([position, steps]), axis=0)[1:]
            shares = np.exp(logs - logs.max(axis=1, keepdims=True))
            shares *= (1.0 - self.floor) / shares.sum(axis=1, keepdims=True)
            return np.asarray(shares + self.floor / m)

        return Plan(n, (), lambda first, stop: _from_blocks(block, first, stop, m))


@dataclass(frozen=True)
class Seasonal(Schedule):
    """Classes that come and go by the hour and by the day of the week, each at its own time.

    Parameters
    ----------
    day
        How long a day is: events (int), or a share of the stream (float).
    daily, weekly
        How far a class's share swings within a day and within a week, in logarithms: 0.7 is about
        half to twice.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip.replay import Seasonal
    >>> Seasonal(day=4, weekly=0.0).priors(5, np.array([0.5, 0.5]))[:, 0].round(2)
    array([0.8, 0.5, 0.2, 0.5, 0.8])
    """

    day: float = 1 / 14
    daily: float = 0.7
    weekly: float = 0.4

    def plan(
        self, n: int, source: Vector, rng: np.random.Generator, start: Vector | None = None
    ) -> Plan:
        """Lay it out over `n` events."""
        check_above_zero("day", self.day)
        day = float(self.day) if isinstance(self.day, int) else self.day * n
        for name, value in (("daily", self.daily), ("weekly", self.weekly)):
            check_from_zero(name, value)
        m = len(source)
        home = np.log(np.maximum(source if start is None else start, _LEAST))
        phase = np.arange(m) / m

        def priors(first: int, stop: int) -> Matrix:
            days = np.arange(first, stop)[:, None] / day
            logs = home + self.daily * np.cos(2 * np.pi * (days + phase))
            logs += self.weekly * np.cos(2 * np.pi * (days / 7 + phase))
            shares = np.exp(logs)
            return np.asarray(shares / shares.sum(axis=1, keepdims=True))

        return Plan(n, (), priors)


@dataclass(frozen=True, eq=False)
class FromTable(Schedule):
    """Mixes of one's own, each with its time; the table is stretched over the stream.

    Parameters
    ----------
    times
        Rising numbers, in any unit.
    mixes
        Shares in class order, for each time.
    straight
        Whether the mix goes in straight lines from one to the next, or holds until the next. A last
        mix that holds does so for as long as the one before it.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip.replay import FromTable
    >>> FromTable([0, 1], [[0.5, 0.5], [0.9, 0.1]]).priors(4, np.array([0.5, 0.5]))[:, 0]
    array([0.5, 0.5, 0.9, 0.9])
    """

    times: Vector | Sequence[float]
    mixes: Matrix | Sequence[Sequence[float]]
    straight: bool = False

    def plan(
        self, n: int, source: Vector, rng: np.random.Generator, start: Vector | None = None
    ) -> Plan:
        """Lay it out over `n` events."""
        try:
            times = np.asarray(self.times, np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"times: {self.times!r} are not numbers; use epoch seconds") from error
        if times.ndim != 1 or len(times) < 2 or not (np.diff(times) > 0).all():
            raise InputError(f"times: {self.times!r}; give two or more, each after the one before")
        if not np.isfinite(times).all() or len(times) != len(self.mixes):
            raise InputError(f"mixes: {len(self.mixes)} for {len(times)} times; give one for each")
        m = len(source)
        mixes = np.array([check_mix(f"mixes[{k}]", mix, m) for k, mix in enumerate(self.mixes)])
        if self.straight:
            knots = (n - 1) * (times - times[0]) / (times[-1] - times[0])

            def lines(first: int, stop: int) -> Matrix:
                places = np.arange(first, stop)
                return np.stack([np.interp(places, knots, share) for share in mixes.T], axis=1)

            return Plan(n, (), lines)
        span = 2 * times[-1] - times[-2] - times[0]
        begins = np.ceil(n * (times - times[0]) / span - 1e-9).astype(np.int64)
        return Plan(
            n,
            tuple(begins[1:].tolist()),
            lambda first, stop: mixes[np.searchsorted(begins, np.arange(first, stop), "right") - 1],
        )


def _from_blocks(block: Callable[[int], Matrix], first: int, stop: int, m: int) -> Matrix:
    if stop <= first:
        return np.empty((0, m))
    numbers = range(first // _BLOCK, (stop - 1) // _BLOCK + 1)
    found = np.concatenate([block(number) for number in numbers])
    offset = numbers[0] * _BLOCK
    return found[first - offset : stop - offset].copy()
