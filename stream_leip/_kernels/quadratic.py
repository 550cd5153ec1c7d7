"""Nonnegative quadratic programs: min ½ v'Hv - c'v over v ≥ 0, H positive definite."""

import numpy as np
from numba import njit


@njit(cache=True, error_model="numpy", fastmath=False)
def nonnegative(curvature, linear, free, rounds):
    """Solve by block principal pivoting; `free` is the first guess of the positive entries.

    All infeasible entries change sides at once while that reduces their number, else only the last
    one does (Júdice and Pires), so it ends; a few rounds are usual, and after `rounds` the last try
    is given. `free` is overwritten with the answer's support.
    """
    m = linear.size
    v = np.zeros(m)
    fewest = m + 1
    patience = 3
    for _ in range(rounds):
        support = np.flatnonzero(free)
        k = support.size
        part = np.empty((k, k))
        right = np.empty(k)
        for a in range(k):
            right[a] = linear[support[a]]
            for b in range(k):
                part[a, b] = curvature[support[a], support[b]]
        v[:] = 0.0
        if k > 0:
            solved = np.linalg.solve(part, right)
            for a in range(k):
                v[support[a]] = solved[a]
        slack = np.dot(curvature, v) - linear
        infeasible = 0
        last = -1
        for j in range(m):
            if (free[j] and v[j] < 0.0) or (not free[j] and slack[j] < 0.0):
                infeasible += 1
                last = j
        if infeasible == 0:
            break
        if infeasible < fewest:
            fewest = infeasible
            patience = 3
        elif patience > 0:
            patience -= 1
        if patience > 0:
            for j in range(m):
                if (free[j] and v[j] < 0.0) or (not free[j] and slack[j] < 0.0):
                    free[j] = not free[j]
        else:
            free[last] = not free[last]
    return np.maximum(v, 0.0)
