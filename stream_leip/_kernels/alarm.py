"""What is left of a wager under the least favourable mix that "no change" allows.

If the source's mean row is null ∘ (1 + d) and not the null, each x is too large by 1 + d, and the
wager won log Σ r / (1 + d) less an event. By Jensen's inequality that is at least -Σ r log(1 + d),
so that sums of r are enough to know what is left at the least.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from stream_leip._kernels.fast import FAST

_LEAST = 3.0  # winnings below it, as logarithms, are not worth judging
_ROUNDS = 20
_EXACT = 1e-3


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def _left(hits, spread, u, away):
    """-Σ hits·log(1 + away) with away = spread·u, or infinity where a share would be negative."""
    out = 0.0
    for j in range(hits.size):
        d = 0.0
        for i in range(u.size):
            d += spread[j, i] * u[i]
        away[j] = d
        if d <= -0.999:
            return np.inf
        out -= hits[j] * np.log1p(d)
    return out


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def _left_most(hits, spread, u, part, away):
    """No less than `_left` with away = part·spread·u, and no logarithm in it."""
    out = 0.0
    for j in range(hits.size):
        d = 0.0
        for i in range(u.size):
            d += spread[j, i] * u[i]
        d *= part
        away[j] = d
        if d <= -0.999:
            return np.inf
        out -= hits[j] * (d - 0.5 * d * d / min(1.0, 1.0 + d))
    return out


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def _solve(matrix, ridge, b, lower, out):
    """Solve (matrix + ridge) out = b; return out' (matrix + ridge)⁻¹ out."""
    k = b.size
    for i in range(k):
        for j in range(i + 1):
            v = matrix[i, j] + (ridge if i == j else 0.0)
            for h in range(j):
                v -= lower[i, h] * lower[j, h]
            lower[i, j] = np.sqrt(max(v, 1e-300)) if i == j else v / lower[j, j]
        v = b[i]
        for h in range(i):
            v -= lower[i, h] * out[h]
        out[i] = v / lower[i, i]
    for i in range(k - 1, -1, -1):
        for h in range(i + 1, k):
            out[i] -= lower[h, i] * out[h]
        out[i] /= lower[i, i]
    across = 0.0
    forward = np.empty(k)
    for i in range(k):
        v = out[i]
        for h in range(i):
            v -= lower[i, h] * forward[h]
        forward[i] = v / lower[i, i]
        across += forward[i] ** 2
    return across


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def _within(matrix, b, radius, lower, out):
    """The minimum of out' matrix out / 2 - b·out over the ball of a squared radius."""
    ridge = 1e-9 * np.trace(matrix) + 1e-12
    across = _solve(matrix, ridge, b, lower, out)
    for _ in range(_ROUNDS):
        size = (out * out).sum()
        if size <= radius * (1.0 + 1e-6):
            break
        # Newton's method on 1 / |out|, which is nearly linear in the ridge.
        ridge += size / across * (np.sqrt(size / radius) - 1.0)
        across = _solve(matrix, ridge, b, lower, out)


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def least_left(hits, events, null, spread, radius, away):
    """The minimum of `_left` over u·u ≤ radius, a convex problem, by Newton's method.

    Fills `away` with where it is.
    """
    m, k = spread.shape
    u = np.zeros(k)
    away[:] = 0.0
    best = 0.0
    curvature = np.empty((k, k))
    lower = np.empty((k, k))
    b = np.empty(k)
    target = np.empty(k)
    ahead = np.empty(m)
    for _ in range(_ROUNDS):
        curvature[:] = 0.0
        b[:] = 0.0
        for j in range(m):
            slope = hits[j] / (1.0 + away[j])
            bend = slope / (1.0 + away[j])
            for i in range(k):
                b[i] += spread[j, i] * (slope - events * null[j] + bend * away[j])
                v = bend * spread[j, i]
                for h in range(k):
                    curvature[i, h] += v * spread[j, h]
        _within(curvature, b, radius, lower, target)
        step = 1.0
        value = np.inf
        for _ in range(8):
            value = _left(hits, spread, u + step * (target - u), ahead)
            if value < best:
                break
            step *= 0.5
        if not value < best:
            break
        u += step * (target - u)
        away[:] = ahead
        gained = best - value
        best = value
        if gained < _EXACT:
            break
    return best


class Starts(NamedTuple):
    """When the wager started, and its sums then; kernels change them in place.

    Parameters
    ----------
    n
        How many there are; the arrays have room for more.
    panes
        How old the wager was, in panes, ascending.
    worth
        Logarithm of the weight of each; over all starts there ever are, weights sum to one.
    won, hits
        The sums.
    explained
        log(1 + d) of the mix under which nothing was left of the winnings the last time they were
        looked at; zero where there was none.
    """

    n: Any
    panes: Any
    worth: Any
    won: Any
    hits: Any
    explained: Any


@njit(cache=True, error_model="numpy", fastmath=False)
def _log_worth(panes):
    """A multiple of a high power of two, which is kept for longer, is worth more.

    Of every power 1, 2, 4, … the multiples share 1/2, 1/6, 1/12, …, and the k-th of them has
    1 / (k + 1)(k + 2) of its share.
    """
    if panes == 0:
        return np.log(0.5)
    total = 0.0
    power = 0
    while panes % (1 << power) == 0:
        k = panes >> power
        total += 1.0 / ((power + 1.0) * (power + 2.0) * (k + 1.0) * (k + 2.0))
        power += 1
    return np.log(total)


@njit(cache=True, error_model="numpy", fastmath=False)
def _is_kept(start, panes):
    """Whether a start is 0, or one of the last two multiples of some power of two."""
    if start == 0:
        return True
    power = 0
    while panes >> power > 0:
        last = panes >> power
        if start == last << power or start == (last - 1) << power:
            return True
        power += 1
    return False


@njit(cache=True, error_model="numpy", fastmath=False)
def add_start(starts, panes, won, hits):
    """Start once more at so many panes, and let go of starts that are not kept any longer."""
    kept = 0
    for s in range(starts.n[0]):
        if _is_kept(starts.panes[s], panes):
            starts.panes[kept] = starts.panes[s]
            starts.worth[kept] = starts.worth[s]
            starts.won[kept] = starts.won[s]
            starts.hits[kept] = starts.hits[s]
            starts.explained[kept] = starts.explained[s]
            kept += 1
    starts.panes[kept] = panes
    starts.worth[kept] = _log_worth(panes)
    starts.won[kept] = won[0]
    starts.hits[kept] = hits
    starts.explained[kept] = 0.0
    starts.n[0] = kept + 1


@njit(cache=True, error_model="numpy", fastmath=False)
def _log_sum(logs):
    """Logarithm of the sum of what these are logarithms of."""
    top = logs.max()
    return top + np.log(np.exp(logs - top).sum()) if top > -np.inf else -np.inf


@njit(cache=True, error_model="numpy", fastmath=False, forceinline=True)
def log_values(starts, panes, pane, wager, spread, radii, least):
    """Log e-values for each radius, since each start; -inf where they cannot matter.

    And over all starts: the first radius's with the worth of each, the second's plainly summed.

    Parameters
    ----------
    starts, panes, pane
        Of the wager; how old it is, and how many events a pane has.
    wager
        Its sums now, and the null.
    spread
        The factor of what is unknown about the null: the mixes it allows are
        null ∘ (1 + spread·u) with u·u up to a radius.
    radii
        Two, of the alarm and of the warning.
    least
        Winnings since the best start below which nothing is looked at.
    """
    n = starts.n[0]
    null = wager.null
    out = np.full((2, n), -np.inf)
    smaller = 1 if radii[1] <= radii[0] else 0
    if wager.won[0] - starts.won[:n].min() < least:
        return out, -np.inf, -np.inf
    hits = np.empty(null.size)
    away = np.empty(null.size)
    for s in range(n):
        won = wager.won[0] - starts.won[s]
        if won < _LEAST:
            continue
        # What explained the winnings the last time most often still does.
        left = won
        for j in range(null.size):
            hits[j] = wager.hits[j] - starts.hits[s, j]
            left -= hits[j] * starts.explained[s, j]
        if left < 0.0:
            continue
        events = float(pane * (panes - starts.panes[s]))
        b = np.dot(spread.T, hits - events * null)
        length = np.sqrt((b * b).sum())
        # Where nothing is left in the smaller ball, nothing is in the larger.
        for level in (smaller, 1 - smaller):
            # Straight towards what was hit, some way or all: if nothing is left there, it is over.
            far = np.sqrt(radii[level]) / max(length, 1e-300)
            value = won + _left_most(hits, spread, b, 0.5 * far, away)
            if value >= 0.0:
                value = won + _left_most(hits, spread, b, far, away)
            if value >= 0.0:
                value = won + least_left(hits, events, null, spread, radii[level], away)
            if value < 0.0:
                if level == smaller:
                    starts.explained[s] = np.log1p(away)
                break
            out[level, s] = value
    return out, _log_sum(out[0] + starts.worth[:n]), _log_sum(out[1])
