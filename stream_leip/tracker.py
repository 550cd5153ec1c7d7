"""The tracker: follows the class mix with a memory that adapts, and raises the alarm."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_leip import binary
from stream_leip._kernels import labels as ranking
from stream_leip._kernels import ladder as ladders
from stream_leip._kernels import mixture as mixtures
from stream_leip._kernels.alarm import Starts
from stream_leip._kernels.labels import INDEX
from stream_leip._kernels.mixture import EXPERTS, PANE, RUNGS
from stream_leip._kernels.tracking import Limits, follow
from stream_leip._kernels.wager import Wager, fresh_wager, no_wager
from stream_leip.alarm import MOST_STARTS, NO_STARTS, Alarm
from stream_leip.arrays import Matrix, Rows, Vector
from stream_leip.chunk import Chunk, check_complete
from stream_leip.errors import InputError
from stream_leip.estimators import EM, LEIP, Auto, Estimator, Fixed
from stream_leip.estimators.estimate import ALL_CLASSES
from stream_leip.estimators.threshold import confident_share
from stream_leip.null import at_home, since_a_change
from stream_leip.profile import SourceProfile
from stream_leip.tracked import Recent, Tracked
from stream_leip.twins import alike

VERSION = 3
LONGEST = PANE << (RUNGS - 1)
# So many events after the alarm was raised, at the least, their mix becomes the new null.
_SETTLED = 1000
_SMALLEST = 4 * PANE
_NO_LIMITS = Limits(0, np.empty((0, 0)), np.empty(0), np.inf, np.inf)
# Bytes of Python objects, measured.
_OBJECTS = 13_000


class Tracker:
    """Experts on a ladder of windows, mixed by how well they predict what comes next.

    Parameters
    ----------
    profile
        The source.
    estimator
        Of the rungs: `LEIP`, `EM`, or `Auto` for the one that is best at each rung's size.
    alarm
        The share of streams without a change that may ever raise the alarm; None for no alarm.
    top_k
        How many entries of a row are kept; None for all.
    max_rows
        The ladder ends at the last rung that is no longer than this.
    """

    def __init__(
        self,
        profile: SourceProfile,
        estimator: Estimator,
        alarm: float | None = None,
        top_k: int | None = None,
        max_rows: int | None = None,
    ) -> None:
        if max_rows is not None and max_rows < PANE:
            raise InputError(f"max_rows: {max_rows!r}; adaptive memory needs {PANE} rows or more")
        m = len(profile.classes)
        self._profile = profile
        self._how = _estimation(profile, estimator)
        # Updates have EM's estimate by the soft source prior, whatever the rungs use.
        self._of_em = not top_k and self._how.source is profile.soft_prior
        self.reach = longest_rung(max_rows)
        # Beyond the longest rung, the rows that its sums still hold until it is renewed.
        self._held = self.reach + self.reach // ladders.RENEW + PANE
        # So many rows there is always room for.
        self._at_once = max(PANE, self._held // 4 // PANE * PANE)
        self._source = profile.soft_prior
        self._mixture = mixtures.fresh(self._source, joint_only=top_k is not None)
        self._ladder = ladders.fresh(self._source)
        self._wager = no_wager()
        self.alarm: Alarm | None = None
        if alarm is not None:
            self._wager = _wager(profile)
            self.alarm = Alarm(alarm, self._wager, *at_home(profile), profile.validation.n)
        self._rows = np.empty((_SMALLEST, top_k or m), np.float32)
        self._classes = np.empty((_SMALLEST, top_k), np.uint16) if top_k else ALL_CLASSES
        self._keys = np.empty(_SMALLEST, np.uint64)
        self._labels = np.empty(_SMALLEST, np.uint16)
        self._n = 0
        self.events = 0

    def twin(self) -> "Tracker":
        """A tracker made as this one, which saw no event yet; much cheaper than to make one."""
        assert not self.events
        other = alike(self)
        other._mixture = mixtures.Mixture(*(each.copy() for each in self._mixture))
        other._ladder = ladders.Ladder(*(each.copy() for each in self._ladder))
        if self.alarm is not None:
            other.alarm = self.alarm.twin()
            other._wager = other.alarm.wager
        other._rows, other._classes = np.empty_like(self._rows), np.empty_like(self._classes)
        other._keys, other._labels = np.empty_like(self._keys), np.empty_like(self._labels)
        return other

    def take(self, rows: Rows) -> tuple[int, bool]:
        """Take rows up to the end of the first pane at which the alarm's state changes.

        Returns how many it took, and whether the state changed at the last of them.
        """
        taken = 0
        while taken < len(rows):
            over = self.events % PANE
            n = min(len(rows) - taken, self._until_look() - over)
            panes = (over + n) // PANE
            if panes:
                n = PANE * panes - over
            if not panes:
                self.lay(rows[taken : taken + n])
                return taken + n, False
            self._put(rows[taken : taken + n])
            rest, changed = self._end_panes(over, panes)
            taken += n - rest
            if changed:
                return taken, True
        return taken, False

    def lay(self, rows: Rows) -> None:
        """Take rows that end no pane."""
        self._put(rows)
        self._n += len(rows)
        self.events += len(rows)

    def _until_look(self) -> int:
        """How many events may be taken at once, from the last pane's end on."""
        alarm = self.alarm
        if alarm is not None and (alarm.warning or alarm.raised):
            return PANE
        if self._review is None:
            return self._at_once
        return min(self._at_once, self._review - self.events // PANE * PANE)

    def _put(self, rows: Rows) -> None:
        """Lay rows down behind those that are here; they do not count yet."""
        n = len(rows)
        self._make_room(n)
        place = slice(self._n, self._n + n)
        if self._classes.shape[1]:
            ranking.largest_entries(rows, self._rows[place], self._classes[place])
        else:
            self._rows[place] = rows

    def _end_panes(self, over: int, panes: int) -> tuple[int, bool]:
        """Take panes whose rows are laid down, up to the first that is worth a look.

        Returns how many rows are left, and whether the alarm's state changed.
        """
        end = self._n - over + PANE * panes
        alarm = self.alarm
        starts, limits = (NO_STARTS, _NO_LIMITS) if alarm is None else (alarm.starts, alarm.limits)
        done, values, proven, likely = self._follow(
            self._mixture, self._ladder, self._wager, starts, limits, end, PANE, panes
        )
        more = PANE * done - over
        self._n += more
        self.events += more
        rest = PANE * (panes - done)
        if alarm is None:
            return rest, False
        changed = alarm.end_pane(self.events, values, proven, likely)
        return rest, self._settle() or changed

    def _follow(
        self,
        mixture: mixtures.Mixture,
        ladder: ladders.Ladder,
        wager: Wager,
        starts: Starts,
        limits: Limits,
        end: int,
        size: int,
        panes: int,
    ) -> tuple[int, Matrix, float, float]:
        """Take panes, the last of the first `end` rows; see the kernel."""
        rows = self._rows[:end]
        found: tuple[int, Matrix, float, float] = follow(
            mixture, ladder, wager, starts, limits, rows, rows.view(np.int32), self._classes[:end],
            self._keys[:end], self._labels[:end], self.events - self._n, size, panes, self.reach,
            self._how, self._source,
        )  # fmt: skip
        return found

    def _make_room(self, more: int) -> None:
        """Grow by doubling; where rows have left every rung, move the others to the front."""
        if self._n + more <= len(self._rows):
            return
        most = self._held + max(PANE, self._held // 4)
        if len(self._rows) < most:
            size = min(2 * len(self._rows), most)
            self._rows = _resized(self._rows, size)
            if self._classes.shape[1]:
                self._classes = _resized(self._classes, size)
            self._keys, self._labels = _resized(self._keys, size), _resized(self._labels, size)
            self._make_room(more)
            return
        gone = self._n - self._held
        kept = self._n - gone
        for array in (self._rows, self._classes, self._keys, self._labels):
            if array.size:
                array[:kept] = array[gone : self._n]
        self._n = kept

    def follow(self, rows: Rows) -> None:
        """Take any number of rows, for the alarm's sake."""
        begin = 0
        while begin < len(rows):
            begin += self.take(rows[begin:])[0]

    @property
    def prior(self) -> Vector:
        """The class mix at the end of the last pane."""
        found: Vector = self._mixture.estimate.copy()
        return found

    @property
    def memory(self) -> float:
        """How many events back that looks."""
        return float(mixtures.memory(self._mixture, self._ladder.sizes))

    def reset_alarm(self) -> None:
        """Let the source be the null again."""
        assert self.alarm is not None
        self.alarm.nulls = 0
        known = self._profile.validation.n
        self.alarm.begin(self.events - self.events % PANE, *at_home(self._profile), known)

    def _rank(self, part: slice) -> None:
        """Label rows, and key them by confidence."""
        rows, keys, labels = self._rows[part], self._keys[part], self._labels[part]
        if self._classes.shape[1]:
            ranking.rank_sparse(rows, self._classes[part], keys, labels)
        else:
            ranking.rank(rows, rows.view(np.int32), keys, labels)
        keys &= ~INDEX

    def _settle(self) -> bool:
        """Once enough is known of the mix after a change, or twice as much, make it the null.

        Returns whether that ended a raised alarm.
        """
        alarm = self.alarm
        if alarm is None or alarm.last_raise is None:
            return False
        # Rows from before the alarm was raised may be of the mix before: when the change was is
        # itself an estimate, and a few hundred rows of another mix make a null that is none.
        since = self.events - alarm.last_raise
        raised = alarm.raised
        if raised:
            if since < _SETTLED:
                return False
            if self.memory < min(_SETTLED, self.reach // 2):
                return False
        elif alarm.warning or self._review is None or self.events < self._review:
            return False
        rows = self.recent(since)
        alarm.begin(self.events, *since_a_change(rows, self._profile), len(rows))
        return raised

    @property
    def _review(self) -> int | None:
        """The event at which twice the rows are known that a null after a change was made of."""
        alarm = self.alarm
        if alarm is None or alarm.last_raise is None or alarm.nulls == 1:
            return None
        if alarm.known > self.reach // 2:
            return None
        return alarm.last_raise + 2 * alarm.known

    def now(self) -> Tracked:
        """What is known at this moment; nothing changes by it."""
        mixture, ladder = self._mixture, self._ladder
        over = self.events % PANE
        if over:
            mixture = mixtures.Mixture(*(each.copy() for each in mixture))
            ladder = ladders.Ladder(*(each.copy() for each in ladder))
            self._follow(mixture, ladder, no_wager(), NO_STARTS, _NO_LIMITS, self._n, over, 1)
        return self._components(mixture, ladder)

    def _components(self, mixture: mixtures.Mixture, ladder: ladders.Ladder) -> Tracked:
        shape = len(self._source), EXPERTS
        weights, means, events = np.empty(shape), np.empty(shape), np.empty(shape)
        memory = mixtures.components(
            mixture, ladder.sizes, float(self._profile.validation.n), weights, means, events
        )
        nearest = round(float(np.log2(max(memory, 1.0) / PANE)))
        k = min(max(nearest, 0), RUNGS - 1)
        length = min(PANE << k, self.reach, self.events)
        estimate = mixture.estimate.copy()
        rung, by_em = self._em_of(ladder, k, length)
        return Tracked(estimate, float(memory), rung, length, by_em, weights, means, events)

    def _em_of(self, ladder: ladders.Ladder, k: int, length: int) -> tuple[Vector, bool]:
        """EM's estimate of a rung as of now, if its sums lead there; else what it was last."""
        own = ladders.Ladder(*(each[k : k + 1].copy() for each in ladder))
        found = self._of_em and ladders.now(
            own, self._rows[: self._n], self.events - self._n, length, self._how
        )
        return own.priors[0], bool(found)

    def recent(self, most: int) -> Recent:
        """The last rows, at most so many."""
        n = min(most, self._n, self.reach)
        part = slice(self._n - n, self._n)
        return Recent(
            self._rows[part],
            self._classes[part],
            self._keys[part],
            self._labels[part],
            self.events - n,
        )

    @property
    def oldest(self) -> int | None:
        """The event number of the oldest row it needs; None if it has none."""
        return self.events - min(self._n, self._held) if self._n else None

    def since(self, event: int) -> Chunk:
        """The rows from an event number on."""
        n = min(max(self.events - event, 0), self._n, self._held)
        part = slice(self._n - n, self._n)
        classes = self._classes[part] if self._classes.shape[1] else ALL_CLASSES
        return Chunk(self._rows[part], classes, np.arange(self.events - n, self.events))

    def snapshot(self, *, rows: bool = True) -> dict[str, Any]:
        """The state as plain values and bytes; without rows, `since` gives these."""
        held = slice(max(0, self._n - self._held) if rows else self._n, self._n)
        arrays: binary.Arrays = {
            "rows": self._rows[held],
            "classes": self._classes[held],
            **{f"mixture.{name}": each for name, each in self._mixture._asdict().items()},
            **{f"ladder.{name}": each for name, each in self._ladder._asdict().items()},
        }
        return {
            "events": self.events,
            "n": min(self._n, self._held),
            "arrays": binary.encode("tracker", VERSION, {}, arrays),
            "alarm": None if self.alarm is None else self.alarm.snapshot(),
        }

    def restore(self, state: dict[str, Any], chunk: Chunk | None = None) -> None:
        """Take over the state that `snapshot` gave; without rows, with the chunk that has them."""
        _, arrays = binary.decode(state["arrays"], "tracker", VERSION)
        if chunk is not None:
            chunk = chunk.take(chunk.events >= state["events"] - state["n"])
            arrays |= {"rows": chunk.rows, "classes": chunk.classes}
        check_complete(Chunk(arrays["rows"]), state["n"])
        for prefix, mine in (("mixture", self._mixture), ("ladder", self._ladder)):
            for name, each in mine._asdict().items():
                each[...] = arrays[f"{prefix}.{name}"]
        self.events = state["events"]
        n = len(arrays["rows"])
        self._make_room(n)
        self._n = n
        self._rows[:n] = arrays["rows"]
        if self._classes.shape[1]:
            self._classes[:n] = arrays["classes"]
        self._rank(slice(0, n))
        if self.alarm is not None:
            self.alarm.restore(state["alarm"])


def most_bytes(m: int, top_k: int | None, max_rows: int | None) -> int:
    """What a tracker with an alarm can come to take, and its window for the times of its panes."""
    reach = longest_rung(max_rows)
    held = reach + reach // ladders.RENEW + PANE
    room = held + max(PANE, held // 4)
    units = m + 1 if top_k is None else 1
    mixture = units * len(mixtures.RATES) * EXPERTS + m * (mixtures.LADDER + 3 * 6 + 1)
    ladder = RUNGS * (2 * m + (m * (m + 1) if m <= ladders.FEW else 0))
    alarm = MOST_STARTS * (3 * min(m, 50) // 2 + 3) + 2 * min(m, 50) ** 2 + 36 * min(m, 50) + m
    a_row = (4 * m if top_k is None else 6 * top_k) + 10
    times = 4 * (reach // PANE + 1)
    return 8 * (mixture + ladder + alarm + times) + room * a_row + _OBJECTS


def longest_rung(max_rows: int | None) -> int:
    """The longest rung under a cap."""
    reach = LONGEST
    while max_rows is not None and reach > max(max_rows, PANE):
        reach //= 2
    return reach


def _estimation(profile: SourceProfile, estimator: Estimator) -> ladders.Estimation:
    """How the kernels estimate a rung."""
    leip = estimator if isinstance(estimator, LEIP) else LEIP()
    em = estimator if isinstance(estimator, EM) else EM()
    sizes = np.array(profile.replay.sizes, np.float64)
    if isinstance(estimator, Auto):
        edges = np.sqrt(sizes[:-1] * sizes[1:])
        by_leip = np.array([profile.replay.best(size) == "LEIP" for size in sizes])
    elif isinstance(estimator, LEIP | EM):
        edges, by_leip = np.empty(0), np.array([isinstance(estimator, LEIP)])
    else:
        raise InputError(
            f"estimator: {estimator!r} has no place on the ladder of adaptive memory; use auto, "
            "LEIP or EM, or another window, such as Tumbling(count=1000)"
        )
    fixed = isinstance(leip.threshold, Fixed)
    share = -1.0 if fixed else confident_share(leip.threshold, profile)[0]
    return ladders.Estimation(
        profile.prior(em.prior),
        profile.prior(leip.prior),
        profile.soft_prior,
        edges,
        by_leip,
        share,
        leip.threshold.threshold if isinstance(leip.threshold, Fixed) else 0.0,
        float(leip.smoothing),
    )


def _wager(profile: SourceProfile) -> Wager:
    features = profile.evidence.features
    source = features.group(profile.soft_prior)
    return fresh_wager(features.groups, source)


def _resized(array: NDArray[Any], size: int) -> NDArray[Any]:
    other = np.empty((size, *array.shape[1:]), array.dtype)
    other[: len(array)] = array
    return other
