"""Anderson's extrapolation: where a sequence of EM's steps leads."""

import numpy as np
from numba import njit

# From so many steps.
DEPTH = 5


@njit(cache=True, error_model="numpy", fastmath=False)
def _product(first, second, prior):
    """The inner product of two changes of a prior, each class by the inverse of its share."""
    found = 0.0
    for j in range(prior.size):
        found += first[j] * second[j] / max(prior[j], 1e-8)
    return found


@njit(cache=True, error_model="numpy", fastmath=False)
def extrapolate(prior, image, moves, images, held):
    """Where EM's steps lead, by the last `held` of them (Anderson).

    `image` is what EM makes of `prior`. `moves` say how its step changed from each prior to the
    next, and `images` how its image did. What these explain of the step from `prior` is taken off.
    """
    m = prior.size
    rest = image - prior
    target = image.copy()
    basis = moves[:held].copy()
    follow = images[:held].copy()
    for k in range(held):
        whole = _product(basis[k], basis[k], prior)
        for h in range(k):
            along = _product(basis[k], basis[h], prior)
            for j in range(m):
                basis[k, j] -= along * basis[h, j]
                follow[k, j] -= along * follow[h, j]
        square = _product(basis[k], basis[k], prior)
        # What the others span, but for rounding, says nothing new.
        by = 1.0 / np.sqrt(square) if square > 1e-12 * whole else 0.0
        for j in range(m):
            basis[k, j] *= by
            follow[k, j] *= by
        along = _product(rest, basis[k], prior)
        for j in range(m):
            target[j] -= along * follow[k, j]
    for j in range(m):
        target[j] = max(target[j], 0.1 * image[j])
    return target / target.sum()
