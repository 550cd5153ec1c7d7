"""The ladder: estimates on the last 50, 100, 200, … rows, each renewed when a part of it is new.

EM's estimate is where the expected counts N(q), linear sums over the rows, equal n·q. A rung keeps
N and its slope at a base prior as sums over its rows, so that a window that moves on costs the rows
that came and the rows that went, not all of them. Where rows are sure of their class N does not
depend on q: the linear equation is then exact, and else good while the estimate is near the base.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from stream_leip._kernels.fast import FAST
from stream_leip._kernels.labels import label_arrived
from stream_leip._kernels.likelihood import climb_by_steps
from stream_leip._kernels.mixture import PANE, RUNGS
from stream_leip._kernels.newest import climb_newest, lay_out

RENEW = 32  # a rung is estimated anew when one in so many of its rows is new
SELDOM = 16  # with many classes: there every estimate reads all rows again
FEW = 64  # up to so many classes, sums of slopes (classes²) are kept
_OFF = 5e-3  # how far expected counts may be from n·q, in units that the noise sets
_LITTLE = 5e-4  # the same for what an update says
_FAR = 0.2  # squared distance from the base, in units of the base
_REBASE = 2  # sums at a new base cost about so many passes over the rows
_HOME = 0.002  # the part of a base that is the source, so that no class is left out
_SHORT = 4 * PANE
_TRIES = 6
_BLOCK = 128
_FLOOR = 1e-6
# How far, in all, a rung's log-likelihood may be from its maximum: hundredths of its own noise.
_ENOUGH = 1e-4
_PASSES = 200
# With many classes passes are dear; a rung goes on the next time from where it came to.
_FEW_PASSES = 6


class Ladder(NamedTuple):
    """Estimates of the rungs and the sums behind them; kernels change them in place.

    Parameters
    ----------
    priors, sizes
        The estimate of each rung, and how many rows it is of.
    renewed
        After how many events that was.
    spans
        From which event to which the sums are; equal where there are none.
    bases, slopes, bends
        The prior that the sums are at; sums of x / x·base and of its outer square,
        below the diagonal.
    spent
        Passes over all rows since the base was chosen.
    curves, pulls
        How far the linear equation was off the last time that was looked at, over the squared
        distance from the base; and what one more move left of that, over the distance.
    """

    priors: Any
    sizes: Any
    renewed: Any
    spans: Any
    bases: Any
    slopes: Any
    bends: Any
    spent: Any
    curves: Any
    pulls: Any


def fresh(source: Any) -> Ladder:
    """The ladder before the first event."""
    m = len(source)
    kept = m if m <= FEW else 0
    return Ladder(
        np.tile(source, (RUNGS, 1)),
        np.zeros(RUNGS),
        np.zeros(RUNGS, np.int64),
        np.zeros((RUNGS, 2), np.int64),
        np.tile(source, (RUNGS, 1)),
        np.zeros((RUNGS, kept)),
        np.zeros((RUNGS, kept, kept)),
        np.zeros(RUNGS, np.int64),
        np.ones(RUNGS),
        np.ones(RUNGS),
    )


class Estimation(NamedTuple):
    """How rungs are estimated.

    Parameters
    ----------
    source, source_leip
        Source priors of EM and of LEIP.
    spread
        What the mass beside a row's kept entries is in proportion to.
    edges, by_leip
        Rungs of sizes up to each edge, and beyond the last, are estimated by LEIP or by EM.
    share, threshold, smoothing
        LEIP's confident share, or its threshold where the share is negative; its smoothing.
    """

    source: Any
    source_leip: Any
    spread: Any
    edges: Any
    by_leip: Any
    share: float
    threshold: float
    smoothing: float


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def _gather(rows, source, base, sign, slope, bend):
    """Add (or take off) what rows have of the sums at `base`.

    Some rows at a time are laid out class by class: sums over rows vectorise whatever m is.
    """
    n, m = rows.shape
    x = np.empty((m, _BLOCK))
    f = np.empty(_BLOCK)
    for begin in range(0, n, _BLOCK):
        size = min(n - begin, _BLOCK)
        for j in range(m):
            inverse = 1.0 / source[j]
            for r in range(size):
                x[j, r] = rows[begin + r, j] * inverse
        f[:] = 0.0
        for j in range(m):
            for r in range(size):
                f[r] += x[j, r] * base[j]
        for r in range(size):
            f[r] = 1.0 / f[r]
        for j in range(m):
            total = 0.0
            for r in range(size):
                x[j, r] *= f[r]
                total += x[j, r]
            slope[j] += sign * total
        for j in range(m):
            for k in range(j + 1):
                total = 0.0
                for r in range(size):
                    total += x[j, r] * x[k, r]
                bend[j, k] += sign * total


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def _factor(slope, bend, base, n, lower):
    """Cholesky factor of n - slope + root(base) bend root(base); False where it has none."""
    m = base.size
    root = np.sqrt(base)
    for j in range(m):
        for k in range(j + 1):
            v = bend[j, k] * root[j] * root[k]
            if j == k:
                v += n - slope[j]
            for h in range(k):
                v -= lower[j, h] * lower[k, h]
            if j == k:
                if not v > 1e-6 * n:
                    return False
                lower[j, j] = np.sqrt(v)
            else:
                lower[j, k] = v / lower[k, k]
    return True


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def _move(lower, base, prior, slope, n):
    """Move a prior to where the expected counts, linear from it on, are n times it."""
    m = base.size
    root = np.sqrt(base)
    v = np.empty(m)
    for j in range(m):
        v[j] = prior[j] * (slope[j] - n) / root[j]
        for h in range(j):
            v[j] -= lower[j, h] * v[h]
        v[j] /= lower[j, j]
    for j in range(m - 1, -1, -1):
        for h in range(j + 1, m):
            v[j] -= lower[h, j] * v[h]
        v[j] /= lower[j, j]
    out = np.empty(m)
    for j in range(m):
        out[j] = max(prior[j] + v[j] * root[j], 0.05 * prior[j], _FLOOR)
    out /= out.sum()
    return out


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def _slope(rows, source, prior, out):
    """Sums of x / x·prior."""
    n, m = rows.shape
    ratio = prior / source
    out[:] = 0.0
    for i in range(n):
        f = 0.0
        for j in range(m):
            f += rows[i, j] * ratio[j]
        r = 1.0 / f
        for j in range(m):
            out[j] += r * rows[i, j]
    for j in range(m):
        out[j] /= source[j]


@njit(cache=True, error_model="numpy", fastmath=False, forceinline=True)
def _polish(rows, source, lower, base, prior, enough, away, k, ladder):
    """Move a prior on with the slope at the base, until expected counts are as good as n times it.

    Returns whether they are in the end. Notes what was seen for the next time.
    """
    n, m = rows.shape
    slope = np.empty(m)
    distance = np.sqrt(away)
    before = np.inf
    for attempt in range(_TRIES):
        _slope(rows, source, prior, slope)
        ladder.spent[k] += 1
        off = np.abs(prior * (slope - n)).sum() / n
        if attempt == 0:
            ladder.curves[k] = off / away
        elif attempt == 1:
            ladder.pulls[k] = off / before / distance
        prior[:] = _move(lower, base, prior, slope, n)
        if off * min(ladder.pulls[k] * distance, 0.25) <= enough:
            return True
        if off > 0.25 * before:
            return False
        before = off
    return False


@njit(cache=True, error_model="numpy", fastmath=False, forceinline=True)
def _em(rows, first, begin, k, ladder, how, off):
    """Set a rung to EM's prior of the rows from event `begin` on, if its sums lead there.

    The first row here is event `first`; for `off` see `_OFF`.
    """
    end = first + rows.shape[0]
    n = end - begin
    m = how.source.size
    slope = ladder.slopes[k]
    bend = ladder.bends[k]
    span = ladder.spans[k]
    lower = np.empty((m, m))
    enough = off / np.sqrt(n)
    moved = begin - span[0] + end - span[1]
    stale = span[1] <= begin or span[0] < first or 2 * moved > n
    if not stale:
        _gather(
            rows[span[0] - first : begin - first], how.source, ladder.bases[k], -1.0, slope, bend
        )
        _gather(rows[span[1] - first :], how.source, ladder.bases[k], 1.0, slope, bend)
    else:
        ladder.bases[k] = (1.0 - _HOME) * ladder.priors[k] + _HOME * how.source
    for _ in range(_TRIES):
        base = ladder.bases[k]
        if stale:
            slope[:] = 0.0
            bend[:] = 0.0
            _gather(rows[begin - first :], how.source, base, 1.0, slope, bend)
            ladder.spent[k] = 0
        span[0] = begin
        span[1] = end
        if not _factor(slope, bend, base, n, lower):
            break
        prior = _move(lower, base, base, slope, n)
        away = ((prior - base) ** 2 / base).sum()
        if ladder.curves[k] * away <= enough:
            ladder.priors[k] = prior
            return True
        if away <= _FAR:
            # Sums at a better base would cost more than moving on from here does.
            part = rows[begin - first :]
            if _polish(part, how.source, lower, base, prior, enough, away, k, ladder):
                ladder.priors[k] = prior
                if ladder.spent[k] >= _REBASE:
                    span[1] = span[0]  # a new base would have been cheaper: the next time
                return True
        ladder.bases[k] = prior
        stale = True
    span[1] = span[0]
    return False


@njit(cache=True, error_model="numpy", fastmath=False, forceinline=True)
def renew(ladder, rows, classes, keys, labels, first, reach, how):
    """Estimate the rungs anew that are due; the first row here is event `first`.

    Rungs that hold the same rows as a shorter one have its estimate.
    """
    events = first + rows.shape[0]
    held = min(events, reach)
    summed = classes.size == 0 and ladder.bends.shape[1] > 0
    often = RENEW if how.source.size <= FEW else SELDOM
    newest = np.empty((0, 0))
    for k in range(RUNGS):
        n = min(held, PANE << k)
        ladder.sizes[k] = n
        if (events - ladder.renewed[k]) * often < n:
            continue
        ladder.renewed[k] = events
        begin = events - n
        if k > 0 and n == ladder.sizes[k - 1]:
            ladder.priors[k] = ladder.priors[k - 1]
        elif how.by_leip[np.searchsorted(how.edges, n)]:
            part = begin - first
            final, _, _, _, _ = label_arrived(
                rows[part:], classes[part:] if classes.size > 0 else classes, how.spread,
                keys[part:], labels[part:], how.source_leip, how.share, how.threshold,
                how.smoothing,
            )  # fmt: skip
            ladder.priors[k] = final / final.sum()
        elif summed and n <= _SHORT:
            if newest.size == 0:
                newest = lay_out(rows[max(rows.shape[0] - _SHORT, 0) :], how.source)
            start = 0.98 * ladder.priors[k] + 0.02 * how.source
            ladder.priors[k] = climb_newest(
                newest, newest.shape[1] - n, start, _ENOUGH / n, _PASSES
            )
        elif not (summed and _em(rows, first, begin, k, ladder, how, _OFF)):
            part = begin - first
            ladder.priors[k] = climb_by_steps(
                rows[part:], classes[part:] if classes.size > 0 else classes, how.spread,
                how.source, 0.98 * ladder.priors[k] + 0.02 * how.source, _ENOUGH / n,
                _PASSES if summed or (n <= _SHORT and how.source.size <= FEW) else _FEW_PASSES,
            )  # fmt: skip


@njit(cache=True, error_model="numpy", fastmath=False)
def now(ladder, rows, first, length, how):
    """Bring a ladder's only rung up to the last row, by EM, if its sums lead there.

    The first row here is event `first`. It stays as it was where it has no sums.
    """
    end = first + rows.shape[0]
    if ladder.bends.shape[1] == 0 or how.by_leip[np.searchsorted(how.edges, length)]:
        return False
    if length <= _SHORT:
        # Renewed with every pane, and that by certified steps.
        return ladder.renewed[0] == end
    if ladder.spans[0, 1] <= ladder.spans[0, 0]:
        return False
    return _em(rows, first, end - length, 0, ladder, how, _LITTLE)
