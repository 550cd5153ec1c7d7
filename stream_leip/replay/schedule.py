"""Schedules of the true class mix: what they promise, and how they combine."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stream_leip.arrays import Matrix, Vector, is_number
from stream_leip.checks import check_above_zero, check_from_zero, check_whole
from stream_leip.errors import InputError

# A step of the mix this large, in total variation, is a change point where two stretches meet.
SHARP = 0.02


@dataclass(frozen=True, eq=False)
class Plan:
    """A schedule laid out over a stream.

    Parameters
    ----------
    n
        Events of the stream.
    changes
        The first event after each sharp change of the mix.
    priors
        The true prior of events `start` to `stop`, a row for each; any stretch, in any order.
    """

    n: int
    changes: tuple[int, ...]
    priors: Callable[[int, int], Matrix]


class Schedule(ABC):
    """How the true class mix moves over a stream.

    Places in the stream are event numbers (int) or shares of its length (float).
    """

    @abstractmethod
    def plan(
        self, n: int, source: Vector, rng: np.random.Generator, start: Vector | None = None
    ) -> Plan:
        """Lay the schedule out over `n` events; it begins from `start`, or from the source."""

    def priors(self, n: int, source: Vector, seed: int = 0) -> Matrix:
        """The prior of each of `n` events."""
        return self.plan(n, source, np.random.default_rng(seed)).priors(0, n)

    def then(self, other: "Schedule", *, share: float = 1.0) -> "Chain":
        """The schedule, then another, which begins from the mix that this one ends with.

        Parameters
        ----------
        other
            What follows.
        share
            How long it lasts, where the first schedule of the chain lasts 1.
        """
        return Chain((self,), (1.0,)).then(other, share=share)

    def noisy(self, sd: float, every: int = 100) -> "Noisy":
        """The schedule with each class's share scaled by chance, anew after so many events."""
        return Noisy(self, sd, every)


@dataclass(frozen=True)
class Chain(Schedule):
    """Schedules one after the other; made by `then`.

    Parameters
    ----------
    parts
        The schedules.
    shares
        How long each lasts, relative to the others.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip.replay import Linear, Sudden
    >>> chain = Sudden(to=[0.9, 0.1]).then(Linear(to=[0.5, 0.5]))
    >>> chain.priors(8, np.array([0.3, 0.7]))[:, 0].round(2)
    array([0.3, 0.3, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6])
    """

    parts: tuple[Schedule, ...]
    shares: tuple[float, ...]

    def then(self, other: Schedule, *, share: float = 1.0) -> "Chain":
        """The chain with one more schedule at its end."""
        if not isinstance(other, Schedule):
            raise InputError(f"then: {other!r} is no schedule; use Sudden(at=0.5), say")
        check_above_zero("share", share)
        return Chain((*self.parts, other), (*self.shares, float(share)))

    def plan(
        self, n: int, source: Vector, rng: np.random.Generator, start: Vector | None = None
    ) -> Plan:
        """Lay the parts out one after the other."""
        ends = np.rint(n * np.cumsum(self.shares) / sum(self.shares)).astype(int).tolist()
        begins = [0, *ends[:-1]]
        if min(np.subtract(ends, begins)) < 1:
            raise InputError(f"n: {n} events are too few for {len(self.parts)} schedules")
        plans: list[Plan] = []
        changes: list[int] = []
        last = start
        for part, begin, end in zip(self.parts, begins, ends, strict=True):
            plan = part.plan(end - begin, source, rng, last)
            first = plan.priors(0, 1)[0]
            if begin and last is not None and 0.5 * np.abs(first - last).sum() > SHARP:
                changes.append(begin)
            changes += [begin + change for change in plan.changes]
            last = plan.priors(plan.n - 1, plan.n)[0]
            plans.append(plan)

        def priors(first: int, stop: int) -> Matrix:
            found = [
                plan.priors(max(first - begin, 0), min(stop - begin, plan.n))
                for plan, begin in zip(plans, begins, strict=True)
                if first < begin + plan.n and stop > begin
            ]
            return np.concatenate(found) if found else np.empty((0, len(source)))

        return Plan(n, tuple(changes), priors)


@dataclass(frozen=True)
class Noisy(Schedule):
    """A schedule whose shares are scaled by chance; made by `noisy`. Its steps count as no change.

    Parameters
    ----------
    schedule
        The schedule below.
    sd
        Standard deviation of the logarithm of the factors.
    every
        After how many events the factors are drawn anew.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip.replay import Constant
    >>> Constant().noisy(sd=0.2, every=2).priors(4, np.array([0.5, 0.5]))[:, 0].round(2)
    array([0.51, 0.51, 0.53, 0.53])
    """

    schedule: Schedule
    sd: float
    every: int = 100

    def __post_init__(self) -> None:
        check_from_zero("sd", self.sd)
        check_whole("every", self.every)

    def plan(
        self, n: int, source: Vector, rng: np.random.Generator, start: Vector | None = None
    ) -> Plan:
        """Lay out the schedule below, and draw the factors."""
        below = self.schedule.plan(n, source, rng, start)
        factors = np.exp(self.sd * rng.normal(size=(-(-n // self.every), len(source))))

        def priors(first: int, stop: int) -> Matrix:
            scaled = below.priors(first, stop) * factors[np.arange(first, stop) // self.every]
            return np.asarray(scaled / scaled.sum(axis=1, keepdims=True))

        return Plan(n, below.changes, priors)


def place_in(name: str, at: float, n: int) -> int:
    """An event number, given as one or as a share of the stream's `n` events."""
    if is_number(at):
        whole = isinstance(at, int | np.integer)
        place = int(at) if whole else round(float(at) * n) if np.isfinite(at) else -1
        if 0 <= place <= n and (whole or 0 <= at <= 1):
            return place
    raise InputError(
        f"{name}: {at!r} is not in a stretch of {n} events; use an event number (int), "
        "or a share of the stretch from 0.0 to 1.0 (float)"
    )
