"""The mean log-likelihood of a prior: its gradient, its curvature and its maximum.

With x = row / source prior, the log-likelihood of a prior q is the mean over rows of log(x·q), a
concave function on the simplex. Its gradient g satisfies q·g = 1, and max(g) - 1 bounds how far q
is below the maximum, which is what makes a certified stop possible.
"""

import numpy as np
from numba import njit

from stream_leip._kernels.columns import by_class, column_curvature, column_gradient
from stream_leip._kernels.extrapolation import DEPTH, extrapolate
from stream_leip._kernels.fast import FAST
from stream_leip._kernels.quadratic import newton_target, scaled_curvature

_BLOCK = 128
_FINER = 8
# Above this gap float32 is as good as float64.
_QUICK_GAP = 1e-5
# EM does not extrapolate to where the gap is so many times as wide.
_FARTHEST = 10.0
# After so many passes it is asked what they brought.
_FEW = 4


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def gradient(rows, columns, classes, rates, spread, weights, prior, source, step, quick, out):
    """Fill `out` with mean x / (x·prior) over every `step`-th row; not finite if some x·prior is 0.

    `columns` are the rows class by class, or empty; over these, `quick` is in float32. `classes` is
    empty where rows have an entry for each class. Else it says which classes a row's entries are
    of, and the rest of the row's mass is on the others in proportion to `spread`, `rates` each (see
    `rest_rates`).
    """
    if columns.size > 0:
        column_gradient(columns, weights, prior, source, quick, out)
        return
    if classes.size > 0:
        _sparse_gradient(rows, classes, rates, spread, weights, prior, source, step, out)
        return
    n, m = rows.shape
    weighted = weights.size > 0
    ratio = prior / source
    out[:] = 0.0
    total = 0.0
    for i in range(0, n, step):
        w = weights[i] if weighted else 1.0
        if w == 0.0:
            continue
        f = 0.0
        for j in range(m):
            f += rows[i, j] * ratio[j]
        r = w / f
        total += w
        for j in range(m):
            out[j] += r * rows[i, j]
    for j in range(m):
        out[j] /= total * source[j]


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def rest_rate(rows, classes, spread, i):
    """What one unit of `spread` has of row i's mass, for the classes that are not in the row."""
    mass = 1.0
    others = 1.0
    for j in range(rows.shape[1]):
        mass -= rows[i, j]
        others -= spread[classes[i, j]]
    return max(mass, 0.0) / others if others > 1e-12 else 0.0


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def rest_rates(rows, classes, spread):
    """The same of all rows, for many passes over them; nothing where rows have all entries."""
    out = np.empty(rows.shape[0] if classes.size > 0 else 0)
    for i in range(out.size):
        out[i] = rest_rate(rows, classes, spread, i)
    return out


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def _sparse_gradient(rows, classes, rates, spread, weights, prior, source, step, out):
    n, k = rows.shape
    weighted = weights.size > 0
    ratio = prior / source
    everywhere = np.dot(spread, ratio)
    out[:] = 0.0
    total = 0.0
    beside = 0.0
    above = np.empty(k)
    for i in range(0, n, step):
        w = weights[i] if weighted else 1.0
        if w == 0.0:
            continue
        rate = rates[i]
        f = rate * everywhere
        for j in range(k):
            c = classes[i, j]
            above[j] = rows[i, j] - rate * spread[c]
            f += above[j] * ratio[c]
        r = w / max(f, 0.0)
        total += w
        beside += r * rate
        for j in range(k):
            out[classes[i, j]] += r * above[j]
    for c in range(out.size):
        out[c] = (out[c] + beside * spread[c]) / (total * source[c])


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def curvature(rows, classes, spread, weights, prior, source, step):
    """Mean of x x' / (x·prior)² over every `step`-th row: minus the Hessian."""
    if classes.size > 0:
        return _sparse_curvature(rows, classes, spread, weights, prior, source, step)
    n, m = rows.shape
    weighted = weights.size > 0
    ratio = prior / source
    out = np.zeros((m, m))
    block = np.empty((_BLOCK, m))
    filled = 0
    total = 0.0
    for i in range(0, n, step):
        w = weights[i] if weighted else 1.0
        if w == 0.0:
            continue
        f = 0.0
        for j in range(m):
            f += rows[i, j] * ratio[j]
        total += w
        r = np.sqrt(w) / f
        for j in range(m):
            block[filled, j] = r * rows[i, j]
        filled += 1
        if filled == _BLOCK:
            out += np.dot(block.T, block)
            filled = 0
    if filled > 0:
        rest = block[:filled]
        out += np.dot(rest.T, rest)
    for j in range(m):
        for k in range(m):
            out[j, k] /= total * source[j] * source[k]
    return out


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def _sparse_curvature(rows, classes, spread, weights, prior, source, step):
    """The same from a row's few entries: beside them x is rate·spread, which is of low rank."""
    n, k = rows.shape
    m = source.size
    weighted = weights.size > 0
    ratio = prior / source
    everywhere = np.dot(spread, ratio)
    out = np.zeros((m, m))
    across = np.zeros(m)
    squares = 0.0
    total = 0.0
    above = np.empty(k)
    for i in range(0, n, step):
        w = weights[i] if weighted else 1.0
        if w == 0.0:
            continue
        rate = rest_rate(rows, classes, spread, i)
        f = rate * everywhere
        for j in range(k):
            c = classes[i, j]
            above[j] = rows[i, j] - rate * spread[c]
            f += above[j] * ratio[c]
        total += w
        r = w / (f * f)
        squares += r * rate * rate
        for j in range(k):
            across[classes[i, j]] += r * rate * above[j]
            for h in range(k):
                out[classes[i, j], classes[i, h]] += r * above[j] * above[h]
    for a in range(m):
        for b in range(m):
            out[a, b] += squares * spread[a] * spread[b]
            out[a, b] += across[a] * spread[b] + spread[a] * across[b]
            out[a, b] /= total * source[a] * source[b]
    return out


@njit(cache=True, error_model="numpy", fastmath=FAST)
def gain(rows, classes, spread, weights, prior, source):
    """Mean log-likelihood of a prior, positive everywhere, above that of the source prior."""
    n, k = rows.shape
    weighted = weights.size > 0
    ratio = prior / source
    everywhere = np.dot(spread, ratio)
    total = 0.0
    out = 0.0
    product = 1.0
    for i in range(n):
        f = 0.0
        if classes.size == 0:
            for j in range(k):
                f += rows[i, j] * ratio[j]
        else:
            rate = rest_rate(rows, classes, spread, i)
            f = rate * everywhere
            for j in range(k):
                c = classes[i, j]
                f += (rows[i, j] - rate * spread[c]) * ratio[c]
        if weighted:
            total += weights[i]
            out += weights[i] * np.log(f)
            continue
        total += 1.0
        # One logarithm for a product, as long as that is far from the ends of float64.
        product *= f
        if not 1e-200 < product < 1e200:
            out += np.log(product)
            product = 1.0
    return (out + np.log(product)) / total


@njit(cache=True, error_model="numpy", fastmath=False, forceinline=True)
def _accelerate(
    rows, columns, classes, rates, spread, weights, source, prior, g, tolerance, passes, step
):
    """EM with extrapolation, in place, until certified, slow or out of passes.

    Slow is a gap that a few passes do not quarter, once they come to what a Newton step costs. As
    long as the gap is wide, passes over `columns` are quick ones; the last is exact.
    """
    m = source.size
    moves = np.empty((DEPTH, m))
    images = np.empty((DEPTH, m))
    ahead = np.empty(m)
    held = 0
    used = 0
    looked = 0
    gap = g.max() - 1.0
    before = gap
    image = prior * g
    image /= image.sum()
    rough = False  # whether `g` is of a quick pass, which certifies nothing
    while rough or (gap > tolerance and used < passes):
        quick = columns.size > 0 and gap > max(_QUICK_GAP, tolerance) and used < passes
        candidate = extrapolate(prior, image, moves, images, min(held, DEPTH))
        gradient(
            rows, columns, classes, rates, spread, weights, candidate, source, step, quick, ahead
        )
        used += 1
        reached = ahead.max() - 1.0
        if held > 0 and not reached <= _FARTHEST * max(gap, tolerance):
            held = 0  # it led astray: a plain step from the same place
            continue
        further = candidate * ahead
        further /= further.sum()
        place = held % DEPTH
        images[place] = further - image
        moves[place] = images[place] - (candidate - prior)
        held += 1
        prior[:] = candidate
        g[:] = ahead
        image = further
        gap = reached
        rough = quick
        if used - looked >= _FEW:
            if gap > max(tolerance, 0.25 * before) and used >= m // 8:
                break
            looked = used
            before = gap
    return used


@njit(cache=True, error_model="numpy", fastmath=False, forceinline=True)
def _climb(
    rows, columns, classes, rates, spread, weights, source, start, tolerance, passes, step, coarse,
    newton,
):  # fmt: skip
    """Climb from `start` over every `step`-th row; return prior, gap and passes used.

    Accelerated EM first (unless `newton`), then Newton's method on the simplex. A Newton step that
    overshoots is held back, and if it still does replaced by an EM step, which cannot. The
    curvature is taken from every `coarse`-th row and kept while the gap falls tenfold a step.
    """
    m = source.size
    prior = start.copy()
    g = np.empty(m)
    ahead = np.empty(m)
    gradient(rows, columns, classes, rates, spread, weights, prior, source, step, False, g)
    used = 1
    gap = g.max() - 1.0
    scaled = np.empty((m, m))
    free = np.ones(m, np.bool_)
    stale = True
    # The curvature of fewer rows than classes is singular, and passes over them are cheap: EM and
    # Newton steps take turns, for either alone may be stuck.
    few = rows.shape[0] < m
    while gap > tolerance and used < passes:
        if not newton:
            left = passes - used
            used += _accelerate(
                rows, columns, classes, rates, spread, weights, source, prior, g, tolerance, left,
                step,
            )  # fmt: skip
            gap = g.max() - 1.0
            newton = True
            continue
        if stale:
            if columns.size > 0:
                bend = column_curvature(columns, weights, prior, source)
            else:
                bend = curvature(rows, classes, spread, weights, prior, source, coarse)
            scaled = scaled_curvature(bend, prior)
        candidate = newton_target(prior, g, scaled, free)
        accepted = False
        for attempt in range(3):
            slope = np.dot(g, candidate - prior)
            if slope > 0.0 or attempt == 2:
                gradient(
                    rows, columns, classes, rates, spread, weights, candidate, source, step, False,
                    ahead,
                )  # fmt: skip
                used += 1
                reached = ahead.max() - 1.0
                # So near the maximum that the slope back is rounding, the gap alone has a say.
                accepted = reached <= tolerance or (
                    attempt < 2
                    and np.isfinite(reached)
                    and np.dot(ahead, candidate - prior) >= -0.5 * slope
                )
            if accepted or attempt == 2:
                break
            if attempt == 0:
                # What overshoots is most often a class sent to zero at once: a tenth is near.
                candidate = np.maximum(candidate, 0.1 * prior)
            else:
                candidate = np.maximum(prior, 1e-9) * g
            candidate /= candidate.sum()
        prior = candidate
        g[:] = ahead
        better = g.max() - 1.0
        stale = not accepted or better > 0.1 * gap
        if not accepted or better > 0.5 * gap:
            coarse = max(step, coarse // _FINER)
        gap = better
        newton = not few
    return prior, gap, used


@njit(cache=True, error_model="numpy", fastmath=False, forceinline=True)
def maximise(rows, classes, spread, weights, source, start, tolerance, passes):
    """The prior of greatest likelihood, the gap that certifies it, and the passes over the rows.

    Long inputs are solved on ever finer spreads of their rows, each as far as its own sampling
    error and each lending its curvature to the next, so that a few passes over the whole are
    enough.
    """
    n = rows.shape[0]
    m = source.size
    nothing = np.empty((0, 0), np.float32)
    columns = by_class(rows) if classes.size == 0 else nothing
    rates = rest_rates(rows, classes, spread)
    step = 1
    while n // step > max(4096, 16 * m) * _FINER:
        step *= _FINER
    coarse = step
    newton = False
    prior = start
    used = 0
    while True:
        whole = step == 1
        enough = tolerance if whole else max(tolerance, 0.1 / np.sqrt(n // step))
        prior, gap, more = _climb(
            rows, columns if whole else nothing, classes, rates, spread, weights, source, prior,
            enough, passes, step, coarse, newton,
        )  # fmt: skip
        used += more // step
        if whole:
            return prior, gap, used
        prior = (1.0 - 1e-6) * prior + 1e-6 * start
        newton = True
        coarse = step
        step //= _FINER


@njit(cache=True, error_model="numpy", fastmath=False, forceinline=True)
def climb_by_steps(rows, classes, spread, source, start, tolerance, passes):
    """The prior of greatest likelihood by EM steps alone, for more classes than Newton's can do."""
    none = np.empty(0)
    columns = by_class(rows) if classes.size == 0 else np.empty((0, 0), np.float32)
    rates = rest_rates(rows, classes, spread)
    prior = start.copy()
    g = np.empty(source.size)
    gradient(rows, columns, classes, rates, spread, none, prior, source, 1, False, g)
    used = 1
    while g.max() - 1.0 > tolerance and used < passes:
        used += _accelerate(
            rows, columns, classes, rates, spread, none, source, prior, g, tolerance,
            passes - used, 1,
        )  # fmt: skip
    return prior
