"""What an interval needs of the rows: information, pulls of the calibrator, likelihood ends."""

import math

import numpy as np
from numba import njit

from stream_leip._kernels.fast import FAST
from stream_leip._kernels.likelihood import rest_rate
from stream_leip._kernels.logs import fill_logs

FLOOR = np.float32(1e-12)
_BLOCK = 64
_FACTORS = 8
# By benchmarks/tracking.py: with 2, intervals held 89 % where all classes swing fast.
_BEHIND = 2.5
_ROOT_PI = 1.0 / math.sqrt(math.pi)


@njit(cache=True, error_model="numpy", fastmath=FAST)
def expand(rows, classes, spread, step, out):
    """Every `step`-th row into `out`, an entry for each class and none below the floor."""
    k = rows.shape[1]
    m = spread.size
    place = 0
    for i in range(0, rows.shape[0], step):
        if classes.size == 0:
            for j in range(k):
                out[place, j] = max(rows[i, j], FLOOR)
        else:
            rate = rest_rate(rows, classes, spread, i)
            for c in range(m):
                out[place, c] = max(np.float32(rate * spread[c]), FLOOR)
            for j in range(k):
                out[place, classes[i, j]] = max(rows[i, j], FLOOR)
        place += 1


@njit(cache=True, error_model="numpy", fastmath=FAST)
def information(rows, weights, prior, source):
    """Sums of w·g and of w·g·g', with g = x / (x·prior); `rows` have no zeros."""
    n, m = rows.shape
    weighted = weights.size > 0
    ratio = prior / source
    mean = np.zeros(m)
    gram = np.zeros((m, m))
    block = np.empty((_BLOCK, m))
    for start in range(0, n, _BLOCK):
        size = min(_BLOCK, n - start)
        for b in range(size):
            i = start + b
            f = 0.0
            for j in range(m):
                f += rows[i, j] * ratio[j]
            w = weights[i] if weighted else 1.0
            root = np.sqrt(w)
            for j in range(m):
                g = rows[i, j] / (f * source[j])
                mean[j] += w * g
                block[b, j] = root * g
        part = block[:size]
        gram += np.dot(part.T, part)
    return mean, gram


@njit(cache=True, error_model="numpy", fastmath=FAST)
def common_scale(rows, weights, prior, source):
    """Sum of w·g·(ℓ - Σ prior·g·ℓ): how g moves with a scale that all classes have in common."""
    n, m = rows.shape
    weighted = weights.size > 0
    ratio = prior / source
    out = np.zeros(m)
    logs = np.empty(_BLOCK * m)
    for start in range(0, n, _BLOCK):
        size = min(_BLOCK, n - start)
        fill_logs(rows[start : start + size].ravel(), logs[: size * m])
        for b in range(size):
            i = start + b
            f = 0.0
            level = 0.0
            for j in range(m):
                part = rows[i, j] * ratio[j]
                f += part
                level += part * logs[b * m + j]
            level /= f
            w = (weights[i] if weighted else 1.0) / f
            for j in range(m):
                out[j] += w * rows[i, j] * (logs[b * m + j] - level)
    return out / source


@njit(cache=True, error_model="numpy", fastmath=FAST)
def own_scales(rows, weights, prior, source, bias, normaliser):
    """The same for a scale of each class: m × m, how g_j moves with the scale of class k.

    The logit that a scale multiplies is the row's logarithm, less the bias, plus the logarithm of
    what the row was divided by, which the row does not tell and `normaliser` predicts.
    """
    n, m = rows.shape
    weighted = weights.size > 0
    ratio = prior / source
    own = np.zeros(m)
    across = np.zeros((m, m))
    logs = np.empty(_BLOCK * m)
    block = np.empty((_BLOCK, m))
    moved = np.empty((_BLOCK, m))
    for start in range(0, n, _BLOCK):
        size = min(_BLOCK, n - start)
        fill_logs(rows[start : start + size].ravel(), logs[: size * m])
        for b in range(size):
            i = start + b
            f = 0.0
            divided = normaliser[0]
            for j in range(m):
                f += rows[i, j] * ratio[j]
                divided += normaliser[1 + j] * logs[b * m + j]
            w = weights[i] if weighted else 1.0
            for j in range(m):
                g = rows[i, j] / (f * source[j])
                t = g * (logs[b * m + j] - bias[j] + divided)
                own[j] += w * t
                block[b, j] = w * g
                moved[b, j] = t
        across += np.dot(block[:size].T, moved[:size])
    for j in range(m):
        for k in range(m):
            across[j, k] = -across[j, k] * prior[k]
        across[j, j] += own[j]
    return across


@njit(cache=True, error_model="numpy", fastmath=FAST)
def class_means(rows, labels, prior, source):
    """Σ prior_c · mean of g over the rows of class c; classes of fewer than 2 rows are left out."""
    n, m = rows.shape
    ratio = prior / source
    counts = np.zeros(m)
    for i in range(n):
        counts[labels[i]] += 1.0
    out = np.zeros(m)
    for i in range(n):
        c = labels[i]
        if counts[c] < 2.0:
            continue
        f = 0.0
        for j in range(m):
            f += max(rows[i, j], FLOOR) * ratio[j]
        w = prior[c] / (counts[c] * f)
        for j in range(m):
            out[j] += w * max(rows[i, j], FLOOR)
    return out / source


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def _fall(r, weights, t, limit):
    """-2 Σ w·log(1 + t·r) less `limit`, and its slope."""
    n = r.size
    s = 0.0
    slope = 0.0
    if weights.size > 0:
        for i in range(n):
            v = 1.0 + t * r[i]
            s += weights[i] * np.log(v)
            slope += weights[i] * r[i] / v
        return -2.0 * s - limit, -2.0 * slope
    # As many factors as can neither overflow nor vanish have one logarithm.
    whole = n - n % _FACTORS
    for start in range(0, whole, _FACTORS):
        product = 1.0
        for i in range(start, start + _FACTORS):
            v = 1.0 + t * r[i]
            product *= v
            slope += r[i] / v
        s += np.log(product)
    for i in range(whole, n):
        v = 1.0 + t * r[i]
        s += np.log(v)
        slope += r[i] / v
    return -2.0 * s - limit, -2.0 * slope


@njit(cache=True, error_model="numpy", fastmath=False, forceinline=True)
def reach(r, weights, limit, cap):
    """The largest t up to `cap` with -2 Σ w·log(1 + t·r) ≤ `limit`, by safeguarded Newton steps.

    The function is convex and begins below zero, so that there is one crossing at most.
    """
    lowest = 0.0
    squares = 0.0
    for i in range(r.size):
        lowest = min(lowest, r[i])
        squares += (weights[i] if weights.size > 0 else 1.0) * r[i] * r[i]
    if lowest < 0.0:
        cap = min(cap, (1.0 - 1e-9) / -lowest)
    if cap <= 0.0:
        return 0.0
    below, above = 0.0, cap
    t = min(np.sqrt(limit / max(squares, 1e-300)), 0.5 * cap)
    tried = False
    for _ in range(60):
        h, slope = _fall(r, weights, t, limit)
        if h > 0.0:
            above = t
        else:
            below = t
        if above - below <= 1e-6 * above:
            break
        ahead = t - h / slope if slope > 0.0 else above
        if ahead >= above and not tried and above == cap:
            # Perhaps there is no crossing at all: ask once.
            tried = True
            ahead = cap * (1.0 - 1e-9)
        elif not below < ahead < above:
            ahead = 0.5 * (below + above)
        elif abs(ahead - t) <= 1e-6 * t and abs(h) <= 0.01 * limit:
            return ahead
        t = ahead
    return below


@njit(cache=True, error_model="numpy", fastmath=FAST)
def likelihood_ends(rows, weights, source, prior, directions, support, limit):
    """How far each class's share may go up, and down, along its direction."""
    n, m = rows.shape
    up = np.zeros(m)
    low = np.zeros(m)
    inverse = np.empty(n)
    ratio = prior / source
    for i in range(n):
        f = 0.0
        for j in range(m):
            f += rows[i, j] * ratio[j]
        inverse[i] = 1.0 / f
    r = np.empty(n)
    for c in range(m):
        ratio = directions[c] / source
        for i in range(n):
            s = 0.0
            for j in range(m):
                s += rows[i, j] * ratio[j]
            r[i] = s * inverse[i]
        up[c] = reach(r, weights, limit, 1.0 - prior[c])
        if support[c]:
            for i in range(n):
                r[i] = -r[i]
            low[c] = reach(r, weights, limit, prior[c])
    return up, low


@njit(cache=True, error_model="numpy", fastmath=False)
def mixture_ends(weights, means, events, prior, extra, tail):
    """Points of each class's mixture of normals with a probability of `tail` beyond them.

    Its variances are those of a share seen in so many events, and more: while the mix moves, an
    expert is a little behind.
    """
    m, k = weights.shape
    ends = np.empty((2, m))
    centre = np.empty(k)
    width = np.empty(k)
    for j in range(m):
        total = weights[j].sum()
        shift = prior[j] - np.dot(weights[j], means[j]) / total
        for i in range(k):
            centre[i] = means[j, i] + shift
            share = min(max(centre[i], 0.0), 1.0)
            spread = _BEHIND * (share * (1.0 - share) + 1.0 / events[j, i]) / events[j, i]
            width[i] = np.sqrt(2.0 * (spread + extra[j]))
        for side in range(2):
            target = (tail if side == 0 else 1.0 - tail) * total
            ends[side, j] = min(max(_crossing(weights[j], centre, width, total, target), 0.0), 1.0)
    return ends[0], ends[1]


@njit(cache=True, error_model="numpy", fastmath=False)
def _crossing(weights, centre, width, total, target):
    """Where a mixture of normals has `target` of its weight below, by safeguarded Newton steps."""
    low = -1.0
    high = 2.0
    t = np.dot(weights, centre) / total
    for _ in range(60):
        below = 0.0
        slope = 0.0
        for i in range(weights.size):
            if weights[i] > 1e-9 * total:
                away = (centre[i] - t) / width[i]
                below += weights[i] * 0.5 * math.erfc(away)
                slope += weights[i] * math.exp(-away * away) * _ROOT_PI / width[i]
        if below < target:
            low = t
        else:
            high = t
        ahead = t + (target - below) / slope if slope > 0.0 else low
        if not low < ahead < high:
            ahead = 0.5 * (low + high)
        elif abs(ahead - t) <= 1e-8:
            return ahead
        if high - low <= 1e-7:
            break
        t = ahead
    return 0.5 * (low + high)


@njit(cache=True, error_model="numpy", fastmath=False)
def invert(matrix):
    """The inverse; for small matrices numpy's own takes longer to call than to compute."""
    return np.linalg.inv(matrix)


@njit(cache=True, error_model="numpy", fastmath=FAST)
def pulls(inverse, prior, mean, pseudo, n, counted, by_scale, seen):
    """Target matrix, how the estimate moves with what was fitted, and the misfit (see `_At`).

    `inverse` is that of the information, `by_scale` how the mean of g moves with each scale, `seen`
    what `class_means` gives.
    """
    m = prior.size
    scales = by_scale.shape[1]
    target = np.empty((m, m))
    pull = np.zeros((m, scales + m))
    misfit = np.zeros(m)
    for j in range(m):
        for k in range(m):
            target[j, k] = inverse[j, k] - prior[j] * prior[k]
            # target @ (diag(mean) - gram * prior), where inverse @ gram needs no second product.
            through = -inverse[j, k] * pseudo[k]
            if j == k:
                through += counted
            through = through / n - prior[j] * mean[k]
            pull[j, scales + k] = target[j, k] * mean[k] - through * prior[k]
            misfit[j] += target[j, k] * (seen[k] - 1.0)
    if scales > 0:
        pull[:, :scales] = np.dot(target, by_scale)
    return target, pull, misfit


@njit(cache=True, error_model="numpy", fastmath=FAST)
def variances(pull, fitted, misfit):
    """Of each class: by the fit, and the misfit squared."""
    through = np.dot(pull, fitted)
    out = misfit**2
    for j in range(out.size):
        by_fit = 0.0
        for k in range(fitted.shape[0]):
            by_fit += through[j, k] * pull[j, k]
        out[j] += max(by_fit, 0.0)
    return out
