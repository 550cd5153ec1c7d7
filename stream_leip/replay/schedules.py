"""Schedules that move between two mixes, or give one class a part of its own."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_leip.arrays import Matrix, Vector
from stream_leip.checks import check_above_zero, check_share, check_whole
from stream_leip.errors import InputError
from stream_leip.replay.mixes import Dirichlet, Mix, check_class, resolve
from stream_leip.replay.schedule import Plan, Schedule, place_in

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Constant(Schedule):
    """One mix all along.

    Parameters
    ----------
    mix
        Shares in class order, {class: share} with the others in proportion, a `Dirichlet` draw, or
        None for the mix that is there already: the source, or where the schedule before ended.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip.replay import Constant
    >>> Constant({0: 0.8}).priors(2, np.array([0.2, 0.4, 0.4]))
    array([[0.8, 0.1, 0.1],
           [0.8, 0.1, 0.1]])
    """

    mix: Mix = None

    def plan(
        self, n: int, source: Vector, rng: np.random.Generator, start: Vector | None = None
    ) -> Plan:
        """Lay it out over `n` events."""
        mix = resolve("mix", self.mix, source if start is None else start, rng)
        return Plan(n, (), lambda first, stop: np.tile(mix, (max(0, stop - first), 1)))


@dataclass(frozen=True, eq=False)
class _Between(Schedule):
    to: Mix = Dirichlet()  # noqa: RUF009  (frozen)
    before: Mix = None

    def _ends(
        self, source: Vector, rng: np.random.Generator, start: Vector | None
    ) -> tuple[Vector, Vector]:
        begin = source if start is None else start
        before = resolve("before", self.before, begin, rng)
        return before, resolve("to", self.to, begin, rng)


@dataclass(frozen=True, eq=False)
class Sudden(_Between):
    """One mix, and from an event on another.

    Parameters
    ----------
    to, before
        The mixes, as `Constant` takes them. The first is the mix that is there unless given.
    at
        The first event of the new mix.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip.replay import Sudden
    >>> plan = Sudden(to=[0.9, 0.1], at=0.5).plan(4, np.array([0.5, 0.5]), np.random.default_rng())
    >>> plan.changes, plan.priors(0, 4)[:, 0]
    ((2,), array([0.5, 0.5, 0.9, 0.9]))
    """

    at: float = 0.5

    def plan(
        self, n: int, source: Vector, rng: np.random.Generator, start: Vector | None = None
    ) -> Plan:
        """Lay it out over `n` events."""
        at = place_in("at", self.at, n)
        ends = self._ends(source, rng, start)
        return _blend(n, ends, lambda i: (i >= at).astype(np.float64), np.array([at]))


@dataclass(frozen=True, eq=False)
class Linear(_Between):
    """From one mix to another in a straight line.

    Parameters
    ----------
    to, before
        The mixes, as `Constant` takes them.
    begin, end
        Where the line begins and ends.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip.replay import Linear
    >>> Linear(to=[1.0, 0.0]).priors(4, np.array([0.6, 0.4]))[:, 0]
    array([0.6, 0.7, 0.8, 0.9])
    """

    begin: float = 0.0
    end: float = 1.0

    def plan(
        self, n: int, source: Vector, rng: np.random.Generator, start: Vector | None = None
    ) -> Plan:
        """Lay it out over `n` events."""
        begin, end = place_in("begin", self.begin, n), place_in("end", self.end, n)
        if begin >= end:
            raise InputError(f"begin, end: {self.begin!r}, {self.end!r}; end after the begin")
        ends = self._ends(source, rng, start)
        return _blend(n, ends, lambda i: np.clip((i - begin) / (end - begin), 0.0, 1.0))


@dataclass(frozen=True, eq=False)
class Sinusoidal(_Between):
    """To another mix and back, in waves.

    Parameters
    ----------
    to, before
        The mixes, as `Constant` takes them.
    periods
        How many waves.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip.replay import Sinusoidal
    >>> Sinusoidal(to=[1.0, 0.0], periods=1).priors(4, np.array([0.0, 1.0]))[:, 0].round(2)
    array([0. , 0.5, 1. , 0.5])
    """

    periods: float = 4.0

    def plan(
        self, n: int, source: Vector, rng: np.random.Generator, start: Vector | None = None
    ) -> Plan:
        """Lay it out over `n` events."""
        check_above_zero("periods", self.periods)
        turns = 2.0 * np.pi * float(self.periods)
        ends = self._ends(source, rng, start)
        return _blend(n, ends, lambda i: (1.0 - np.cos(turns * (i / n))) / 2.0)


@dataclass(frozen=True, eq=False)
class Square(_Between):
    """Two mixes in turn, for stretches of one length.

    Parameters
    ----------
    to, before
        The mixes, as `Constant` takes them.
    pieces
        How many stretches.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip.replay import Square
    >>> Square(to=[1.0, 0.0], pieces=3).priors(6, np.array([0.5, 0.5]))[:, 0]
    array([0.5, 0.5, 1. , 1. , 0.5, 0.5])
    """

    pieces: int = 8

    def plan(
        self, n: int, source: Vector, rng: np.random.Generator, start: Vector | None = None
    ) -> Plan:
        """Lay it out over `n` events."""
        flips = even_flips(self.pieces, n)
        return _in_turn(n, self._ends(source, rng, start), flips)


@dataclass(frozen=True, eq=False)
class Bernoulli(_Between):
    """Two mixes in turn, for stretches of random length.

    Parameters
    ----------
    to, before
        The mixes, as `Constant` takes them.
    rate
        The chance of a flip at each event; one over the root of the stream's length unless given.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip.replay import Bernoulli
    >>> Bernoulli(to=[1.0, 0.0], rate=0.3).priors(8, np.array([0.5, 0.5]), seed=1)[:, 0]
    array([0.5, 0.5, 1. , 1. , 1. , 1. , 1. , 1. ])
    """

    rate: float | None = None

    def plan(
        self, n: int, source: Vector, rng: np.random.Generator, start: Vector | None = None
    ) -> Plan:
        """Lay it out over `n` events."""
        flips = random_flips(self.rate, n, rng)
        return _in_turn(n, self._ends(source, rng, start), flips)


@dataclass(frozen=True)
class Rising(Schedule):
    """One class grows to a share of its own; the others keep their proportions.

    Parameters
    ----------
    label
        The place of the class.
    to
        Its share in the end.
    begin, end
        Where it begins to grow, and where it is there.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip.replay import Rising
    >>> Rising(0, to=0.6, begin=0.0, end=1.0).priors(4, np.array([0.2, 0.4, 0.4]))[:, 0].round(2)
    array([0.2, 0.3, 0.4, 0.5])
    """

    label: int
    to: float = 0.5
    begin: float = 0.25
    end: float = 0.75

    def plan(
        self, n: int, source: Vector, rng: np.random.Generator, start: Vector | None = None
    ) -> Plan:
        """Lay it out over `n` events."""
        line = Linear(to={self.label: self.to}, begin=self.begin, end=self.end)
        return line.plan(n, source, rng, start)


@dataclass(frozen=True)
class Appearing(Schedule):
    """A known class whose share is zero at first, and from an event on is not.

    Parameters
    ----------
    label
        The place of the class.
    to
        Its share from then on.
    at
        The first event of the new mix.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip.replay import Appearing
    >>> Appearing(0, to=0.5, at=1).priors(2, np.array([0.2, 0.4, 0.4]))
    array([[0.  , 0.5 , 0.5 ],
           [0.5 , 0.25, 0.25]])
    """

    label: int
    to: float = 0.2
    at: float = 0.5

    def plan(
        self, n: int, source: Vector, rng: np.random.Generator, start: Vector | None = None
    ) -> Plan:
        """Lay it out over `n` events."""
        label = check_class("label", self.label, len(source))
        check_share("to", self.to)
        jump = Sudden(to={label: self.to}, before={label: 0.0}, at=self.at)
        return jump.plan(n, source, rng, start)


def even_flips(pieces: int, n: int) -> Numbers:
    """The first event of each of so many stretches of one length, after the first."""
    check_whole("pieces", pieces)
    if pieces > n:
        raise InputError(f"pieces: {pieces} of {n} events; use fewer pieces, or more events")
    return np.array([-(-n * k // pieces) for k in range(1, pieces)], np.int64)


def random_flips(rate: float | None, n: int, rng: np.random.Generator) -> Numbers:
    """Events at which something flips by chance."""
    chance = 1.0 / np.sqrt(n) if rate is None else rate
    check_share("rate", chance)
    block = 1 << 16
    found = [
        first + np.flatnonzero(rng.random(min(block, n - first)) < chance)
        for first in range(0, n, block)
    ]
    return np.concatenate(found)


def _blend(
    n: int,
    ends: tuple[Vector, Vector],
    weight: Callable[[Numbers], Vector],
    flips: Numbers | None = None,
) -> Plan:
    """Two mixes, the second with the weight that an event's number gives it."""

    def priors(first: int, stop: int) -> Matrix:
        share = weight(np.arange(first, stop))
        return np.outer(1.0 - share, ends[0]) + np.outer(share, ends[1])

    inside = () if flips is None else flips[(flips > 0) & (flips < n)].tolist()
    return Plan(n, tuple(inside), priors)


def _in_turn(n: int, ends: tuple[Vector, Vector], flips: Numbers) -> Plan:
    return _blend(
        n, ends, lambda i: (np.searchsorted(flips, i, side="right") % 2).astype(np.float64), flips
    )
