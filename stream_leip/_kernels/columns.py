"""Slope and bend of the likelihood over rows that are laid out class by class."""

import numpy as np
from numba import njit

from stream_leip._kernels.fast import FAST

_BLOCK = 256
_FEWEST_ROWS = 128
_MOST_ENTRIES = 2**18


@njit(cache=True, error_model="numpy", fastmath=False)
def by_class(rows):
    """Rows class by class, where they are few enough to stay near the processor; else nothing."""
    n, m = rows.shape
    if n < _FEWEST_ROWS or n * m > _MOST_ENTRIES:
        return np.empty((0, 0), np.float32)
    out = np.empty((m, n), np.float32)
    for i in range(n):
        for j in range(m):
            out[j, i] = rows[i, j]
    return out


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def column_gradient(columns, weights, prior, source, quick, out):
    """The same as `likelihood.gradient`, over all rows: loops over rows vectorise whatever m is.

    `quick` is in float32, which moves twice as many rows at a time and is right to 1e-7.
    """
    ratio = prior / source
    if quick:
        _sum_slopes(columns, weights, ratio.astype(np.float32), np.empty(_BLOCK, np.float32), out)
    else:
        _sum_slopes(columns, weights, ratio, np.empty(_BLOCK), out)
    total = weights.sum() if weights.size > 0 else float(columns.shape[1])
    for j in range(out.size):
        out[j] /= total * source[j]


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def _sum_slopes(columns, weights, ratio, f, out):
    """Fill `out` with the sum of w · row / (row·ratio) over rows; `f` is a block to work in."""
    m, n = columns.shape
    out[:] = 0.0
    for begin in range(0, n, _BLOCK):
        size = min(n - begin, _BLOCK)
        _evaluate(columns, begin, size, ratio, f)
        if weights.size > 0:
            for r in range(size):
                f[r] = weights[begin + r] / f[r]
        else:
            for r in range(size):
                f[r] = ratio.dtype.type(1.0) / f[r]
        for j in range(m):
            column = columns[j, begin : begin + size]
            found = ratio.dtype.type(0.0)
            for r in range(size):
                found += f[r] * column[r]
            out[j] += found


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def _evaluate(columns, begin, size, ratio, f):
    """Fill `f` with row·ratio of a block of rows."""
    f[:] = ratio.dtype.type(0.0)
    for j in range(ratio.size):
        column = columns[j, begin : begin + size]
        by = ratio[j]
        for r in range(size):
            f[r] += column[r] * by


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def column_curvature(columns, weights, prior, source):
    """The same as `likelihood.curvature`, over all rows."""
    m, n = columns.shape
    ratio = prior / source
    f = np.empty(_BLOCK)
    scaled = np.empty((m, _BLOCK))
    out = np.zeros((m, m))
    for begin in range(0, n, _BLOCK):
        size = min(n - begin, _BLOCK)
        _evaluate(columns, begin, size, ratio, f)
        if weights.size > 0:
            for r in range(size):
                f[r] = np.sqrt(weights[begin + r]) / f[r]
        else:
            for r in range(size):
                f[r] = 1.0 / f[r]
        for j in range(m):
            column = columns[j, begin : begin + size]
            one = scaled[j]
            for r in range(size):
                one[r] = f[r] * column[r]
            for k in range(j + 1):
                other = scaled[k]
                found = 0.0
                for r in range(size):
                    found += one[r] * other[r]
                out[j, k] += found
    total = weights.sum() if weights.size > 0 else float(n)
    for j in range(m):
        for k in range(j + 1):
            out[j, k] /= total * source[j] * source[k]
            out[k, j] = out[j, k]
    return out
