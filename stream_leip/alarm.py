"""The alarm: whether the class mix changed, whatever the validation set leaves open."""

from typing import Any, NamedTuple

import numpy as np

from stream_leip import binary
from stream_leip._kernels import alarm as kernel
from stream_leip._kernels import shares
from stream_leip._kernels.mixture import PANE
from stream_leip._kernels.tracking import Limits
from stream_leip._kernels.wager import Wager
from stream_leip.arrays import Matrix, Vector
from stream_leip.twins import alike

# The warning's threshold, a logarithm, and the part of the mixes that the validation set allows
# which it does not look at: placed so that under 5 % of streams of 10,000 events without a change
# ever warn (benchmarks/alarm.py). The alarm's own follow from its level.
WARNING = 3.6
_UNSEEN = 0.25
# A group whose count is so many deviations from what the null expects has moved.
_MOVED = 3.0
# How the level is spent: on shares beyond their intervals, on mixes beyond the ellipsoid, and on
# winnings that are luck.
_SHARES, _MIXES, _LUCK = 0.4, 0.2, 0.4
# A start that has so much of the largest log e-value may be where the change was.
_MOST = 0.75
_RAISED, _WARNED = 0, 1
# Kept after 2**35 panes, at the most.
MOST_STARTS = 72
_VERSION = 3


class Move(NamedTuple):
    """A group of classes whose share moved, and by how many deviations, down below zero."""

    group: int
    deviations: float


class Alarm:
    """Bets against "no change", and says when the winnings cannot be luck.

    A mixture that predicts better than the null wins. Its e-value is what is left of the winnings
    under the one mix that explains them best of those that "no change" allows. The wager starts
    anew at pane 0 and at the last two multiples of every power of two, so that a change long after
    the beginning is found as fast as one near it. The e-value of bets on one group's share at a
    time (see `shares`) is the other half.

    Parameters
    ----------
    level
        Of all streams without a change, at most this share ever raise the alarm.
    wager
        What the mixture of experts has won so far.
    null, covariance, known
        The mix that "no change" means at first, what is left open of it, and of how many rows it is
        known.
    """

    def __init__(
        self, level: float, wager: Wager, null: Vector, covariance: Matrix, known: int
    ) -> None:
        self.level = level
        self.wager = wager
        self.nulls = 0
        self.last_change: int | None = None
        self.last_raise: int | None = None
        self.begin(0, null, covariance, known)

    def twin(self) -> "Alarm":
        """An alarm in the same state, with a wager of its own."""
        other = alike(self)
        other.wager = Wager(*(each.copy() for each in self.wager))
        n = int(self._starts.n[0])
        other._starts = kernel.Starts(*(np.empty_like(each) for each in self._starts))
        for mine, theirs in zip(self._starts, other._starts, strict=True):
            theirs[:n] = mine[:n]
        return other

    def begin(self, event: int, null: Vector, covariance: Matrix, known: int) -> None:
        """Start the wager anew at a pane's end, against a null that so many rows are known of."""
        self.nulls += 1
        self.origin = event
        self.known = known
        self.null = null.copy()
        grouped = np.zeros((len(self.wager.null), len(null)))
        grouped[self.wager.groups, np.arange(len(null))] = 1.0
        self.covariance = grouped @ covariance @ grouped.T
        self.wager.null[:] = grouped @ null
        self.wager.won[:] = 0.0
        self.wager.hits[:] = 0.0
        self.wager.pane[:] = 1.0
        self.wager.values[:] = 0.0
        self.wager.best[:] = 0.0
        self._starts = _no_starts(len(self.wager.null))
        kernel.add_start(self._starts, 0, self.wager.won, self.wager.hits)
        self._calibrate()
        self.value = 0.0
        self.warned_at: int | None = None
        self.raised_at: int | None = None
        self.changed_at: int | None = None
        self.moves: tuple[Move, ...] = ()

    def _calibrate(self) -> None:
        """Set the thresholds; all nulls after the first may cry wolf as often as it may."""
        null = self.wager.null
        self._spread = _factor(self.covariance / np.outer(null, null))
        spend = self.level / max(1, self.nulls * (self.nulls - 1))
        # Importing it takes longer than all of stream_leip, and not every monitor has an alarm.
        from scipy.special import chdtri, ndtri  # noqa: PLC0415

        free = self._spread.shape[1]
        self._radii = np.array([chdtri(free, _MIXES * spend), chdtri(free, _UNSEEN)])
        self.threshold = float(-np.log(_LUCK * spend))
        z = -float(ndtri(_SHARES * spend / (2 * len(null))))
        # Half a sure row of each group, for those that hardly any row was of.
        variance = np.diag(self.covariance) + 0.5 / self.known**2
        shares.place(self.wager, *_ends(null, variance, z))

    @property
    def warning(self) -> bool:
        """Whether a change from the null is likely."""
        return self.warned_at is not None

    @property
    def raised(self) -> bool:
        """Whether a change from the null is proven; it stays so until the wager begins anew."""
        return self.raised_at is not None

    @property
    def limits(self) -> Limits:
        """What the wager may win before somebody has to look."""
        return Limits(self.origin, self._spread, self._radii, WARNING, self.threshold)

    @property
    def starts(self) -> kernel.Starts:
        """Of the wager; without room for any once the alarm is raised, and has nothing to find."""
        return NO_STARTS if self.raised else self._starts

    def end_pane(self, events: int, values: Matrix, proven: float, likely: float) -> bool:
        """Take what `log_values` gave at the end of a pane; return whether the state changed."""
        if self.raised:
            return False
        before = self.warning, self.raised
        self.value = max(proven, 0.0)
        if proven >= self.threshold:
            self.raised_at = self.last_raise = events
        if likely >= WARNING or self.raised:
            panes = (events - self.origin) // PANE
            self._date(events, panes, *self._begun(values, likely))
            kernel.add_start(self._starts, panes, self.wager.won, self.wager.hits)
        else:
            self.warned_at, self.changed_at, self.moves = None, None, ()
        return before != (self.warning, self.raised)

    def _begun(self, values: Matrix, likely: float) -> tuple[int, int]:
        """The start that the change was near, and how old the wager was at the change."""
        starts = self._starts
        panes = starts.panes[: values.shape[1]]
        if likely >= WARNING:
            since = values[_WARNED]
            # Before the change next to nothing is won: the last start with most of it is near.
            start = int(np.flatnonzero(since >= _MOST * since.max())[-1])
            return start, int(panes[start])
        began = int(self.wager.since.flat[self.wager.values.argmax()])
        return int(np.abs(panes - began).argmin()), began

    def _date(self, events: int, panes: int, start: int, began: int) -> None:
        """Say when the change was, and what moved."""
        changed_at = self.origin + PANE * began
        if self.warned_at is None or self.changed_at is None:
            self.warned_at, self.changed_at = events, changed_at
        # While the warning stands, more events put the change back in time, but never forward.
        self.changed_at = min(self.changed_at, changed_at)
        if self.raised:
            self.last_change = self.changed_at
        starts = self._starts
        n = PANE * (panes - starts.panes[start])
        self.moves = self._moves(self.wager.hits - starts.hits[start], n)

    def _moves(self, hits: Vector, n: float) -> tuple[Move, ...]:
        """What moved, most first: counts against those the null expects."""
        null = self.wager.null
        variance = n * null * (1.0 - null) + n**2 * np.diag(self.covariance)
        deviations = (hits - n * null) / np.sqrt(variance)
        order = np.argsort(-np.abs(deviations), kind="stable")
        most = [g for g in order if abs(deviations[g]) >= _MOVED] or [order[0]]
        return tuple(Move(int(g), float(deviations[g])) for g in most)

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values and bytes."""
        plain = {
            "nulls": self.nulls,
            "origin": self.origin,
            "known": self.known,
            "value": self.value,
            "warned_at": self.warned_at,
            "raised_at": self.raised_at,
            "changed_at": self.changed_at,
            "last_change": self.last_change,
            "last_raise": self.last_raise,
            "moves": [tuple(move) for move in self.moves],
        }
        arrays = {
            "null": self.null,
            "covariance": self.covariance,
        }
        n = int(self._starts.n[0])
        arrays |= {f"starts.{name}": each[:n] for name, each in self._starts._asdict().items()}
        arrays |= {f"wager.{name}": each for name, each in self.wager._asdict().items()}
        return {"fields": plain, "arrays": binary.encode("alarm", _VERSION, {}, arrays)}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over the state that `snapshot` gave."""
        plain = state["fields"]
        self.nulls, self.origin = plain["nulls"], plain["origin"]
        self.known = plain["known"]
        _, arrays = binary.decode(state["arrays"], "alarm", _VERSION)
        for name, mine in self.wager._asdict().items():
            mine[...] = arrays.pop(f"wager.{name}")
        self.null, self.covariance = arrays["null"], arrays["covariance"]
        self._calibrate()
        for name, mine in self._starts._asdict().items():
            given = arrays[f"starts.{name}"]
            mine[: len(given)] = given
        self.value = plain["value"]
        self.warned_at, self.raised_at = plain["warned_at"], plain["raised_at"]
        self.changed_at, self.last_change = plain["changed_at"], plain["last_change"]
        self.last_raise = plain["last_raise"]
        self.moves = tuple(Move(*move) for move in plain["moves"])


def _no_starts(groups: int, most: int = MOST_STARTS) -> kernel.Starts:
    return kernel.Starts(
        np.zeros(1, np.int64),
        np.zeros(most, np.int64),
        np.zeros(most),
        np.zeros(most),
        np.zeros((most, groups)),
        np.zeros((most, groups), np.float32),
    )


NO_STARTS = _no_starts(0, 0)


def _ends(mean: Vector, variance: Vector, z: float) -> tuple[Vector, Vector]:
    """Ends of the score interval, whose deviation is that at the end and not at the mean."""
    spread = z**2 * variance / (mean * (1.0 - mean))
    middle = mean + 0.5 * spread
    half = np.sqrt(spread * mean * (1.0 - mean) + 0.25 * spread**2)
    return (middle - half) / (1.0 + spread), (middle + half) / (1.0 + spread)


def _factor(covariance: Matrix) -> Matrix:
    """A factor of a covariance in as many directions as it has."""
    values, vectors = np.linalg.eigh(covariance)
    kept = values > 1e-9 * values[-1]
    found: Matrix = np.ascontiguousarray(vectors[:, kept] * np.sqrt(values[kept]))
    return found
