"""The gradient of the likelihood over rows that are laid out class by class."""

import numpy as np
from numba import njit

from stream_leip._kernels.fast import FAST

_BLOCK = 128
_MOST_ENTRIES = 2**18


@njit(cache=True, error_model="numpy", fastmath=False)
def by_class(rows):
    """Rows class by class, where they are few enough to stay near the processor; else nothing."""
    n, m = rows.shape
    if n < _BLOCK or n * m > _MOST_ENTRIES:
        return np.empty((0, 0), np.float32)
    out = np.empty((m, n), np.float32)
    for begin in range(0, n, _BLOCK):
        end = min(begin + _BLOCK, n)
        for j in range(m):
            for i in range(begin, end):
                out[j, i] = rows[i, j]
    return out


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def column_gradient(columns, weights, prior, source, out):
    """The same as `likelihood.gradient`, over all rows: loops over rows vectorise whatever m is."""
    m, n = columns.shape
    weighted = weights.size > 0
    ratio = prior / source
    out[:] = 0.0
    smallest = np.inf
    f = np.empty(_BLOCK)
    for begin in range(0, n, _BLOCK):
        size = min(n - begin, _BLOCK)
        f[:] = 0.0
        for j in range(m):
            column = columns[j, begin : begin + size]
            by = ratio[j]
            for r in range(size):
                f[r] += column[r] * by
        for r in range(size):
            smallest = min(smallest, f[r])
        if weighted:
            for r in range(size):
                f[r] = weights[begin + r] / f[r]
        else:
            for r in range(size):
                f[r] = 1.0 / f[r]
        for j in range(m):
            column = columns[j, begin : begin + size]
            found = 0.0
            for r in range(size):
                found += f[r] * column[r]
            out[j] += found
    total = weights.sum() if weighted else float(n)
    for j in range(m):
        out[j] /= total * source[j]
    return smallest
