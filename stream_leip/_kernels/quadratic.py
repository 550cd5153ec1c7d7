"""Nonnegative quadratic programs: min ½ v'Hv - c'v over v ≥ 0, H positive definite.

Newton's step on the simplex is one.
"""

import numpy as np
from numba import njit

_ROUNDS = 30


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


@njit(cache=True, error_model="numpy", fastmath=False)
def _roots(prior):
    """Square roots of the prior, by which curvature is scaled; not quite zero anywhere."""
    return np.sqrt(np.maximum(prior, 1e-8))


@njit(cache=True, error_model="numpy", fastmath=False)
def scaled_curvature(hessian, prior):
    """Curvature times the roots of the prior on both sides.

    A class that the rows tell apart well has curvature 1 / prior: scaled so, it is 1 whatever the
    prior, so that curvature found at one prior, or on some of the rows, serves at another.
    """
    root = _roots(prior)
    m = prior.size
    out = np.empty((m, m))
    for j in range(m):
        for k in range(m):
            out[j, k] = hessian[j, k] * root[j] * root[k]
        out[j, j] += 1e-10 * out[j, j] + 1e-24
    return out


@njit(cache=True, error_model="numpy", fastmath=False)
def newton_target(prior, g, scaled, free):
    """Where the quadratic model of the likelihood at `prior` has its maximum on the simplex."""
    root = _roots(prior)
    linear = np.dot(scaled, prior / root) + (g - 1.0) * root
    target = nonnegative(scaled, linear, free, _ROUNDS) * root
    size = target.sum()
    return target / size if size > 0.0 else prior
