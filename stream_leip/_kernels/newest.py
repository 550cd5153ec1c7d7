"""EM on the newest rows: the short rungs of the ladder, each the end of the next.

These are renewed with every pane. Their rows are laid out class by class once for all of them, and
the search makes no array on its way: for so few rows that would take longer than the sums.
"""

import numpy as np
from numba import njit

from stream_leip._kernels.fast import FAST


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def lay_out(rows, source):
    """Rows over the source prior, class by class."""
    n, m = rows.shape
    x = np.empty((m, n))
    for j in range(m):
        inverse = 1.0 / source[j]
        for i in range(n):
            x[j, i] = rows[i, j] * inverse
    return x


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def _gradient(x, begin, prior, f, out):
    """Fill `out` with mean x / (x·prior) over the rows from `begin` on."""
    m = prior.size
    n = x.shape[1] - begin
    for i in range(n):
        f[i] = 0.0
    for j in range(m):
        p = prior[j]
        column = x[j, begin:]
        for i in range(n):
            f[i] += column[i] * p
    for i in range(n):
        f[i] = 1.0 / f[i]
    for j in range(m):
        column = x[j, begin:]
        found = 0.0
        for i in range(n):
            found += f[i] * column[i]
        out[j] = found / n


@njit(cache=True, error_model="numpy", fastmath=False, forceinline=True)
def _extrapolate(prior, first, first_g, out):
    """SQUAREM's step from a prior, where EM went from it, and the gradient there."""
    moved = 0.0
    bent = 0.0
    for j in range(prior.size):
        step = first[j] - prior[j]
        bend = first[j] * first_g[j] - first[j] - step
        moved += step * step
        bent += bend * bend
    stride = max(1.0, np.sqrt(moved / max(bent, 1e-300)))
    for j in range(prior.size):
        second = first[j] * first_g[j]
        step = first[j] - prior[j]
        far = prior[j] + 2.0 * stride * step + stride * stride * (second - first[j] - step)
        out[j] = max(far, 0.1 * second)
    out /= out.sum()


@njit(cache=True, error_model="numpy", fastmath=False, forceinline=True)
def climb_newest(x, begin, start, tolerance, passes):
    """The prior of greatest likelihood of the rows from `begin` on, by EM with extrapolation.

    As `likelihood.climb_by_steps`: it ends when the largest entry of the gradient is certain to be
    within `tolerance` of the maximum, or after so many passes.
    """
    m, n = x.shape
    f = np.empty(n)
    prior = start.copy()
    g = np.empty(m)
    first, first_g = np.empty(m), np.empty(m)
    far, far_g = np.empty(m), np.empty(m)
    _gradient(x, begin, prior, f, g)
    gap = g.max() - 1.0
    used = 1
    while gap > tolerance and used < passes:
        for j in range(m):
            first[j] = prior[j] * g[j]
        first /= first.sum()
        _gradient(x, begin, first, f, first_g)
        used += 1
        gap = first_g.max() - 1.0
        if gap > tolerance:
            _extrapolate(prior, first, first_g, far)
            _gradient(x, begin, far, f, far_g)
            used += 1
            # prior·gradient is one, but where some row has no likelihood at all.
            if np.dot(far, far_g) < 2.0 and far_g.max() - 1.0 <= gap:
                prior, far = far, prior
                g, far_g = far_g, g
                gap = g.max() - 1.0
                continue
        prior, first = first, prior
        g, first_g = first_g, g
    return prior
