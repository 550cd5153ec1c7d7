"""One Newton step's sums of the calibrator with one scale and a bias for each class."""

import numpy as np
from numba import njit

from stream_leip._kernels.fast import FAST
from stream_leip._kernels.gate import _exp

_BLOCK = 64


@njit(cache=True, error_model="numpy", fastmath=False)
def _exponentiate(v, top, total, size):
    """Rounding is what the exponential rests on, so there is no fast arithmetic here.

    Said aloud, as numba hands a caller's liberties on to functions that do not say.
    """
    total[:] = 0.0
    for j in range(v.shape[0]):
        for r in range(size):
            e = _exp(v[j, r] - top[r])
            v[j, r] = e
            total[r] += e


@njit(cache=True, error_model="numpy", fastmath=FAST)
def slopes(z, labels, theta, gradient, bend):
    """Fill gradient and Hessian of the negative log-likelihood, scale first; return its value.

    z is classes × rows, so that loops over rows vectorise.
    """
    m, n = z.shape
    scale = theta[0]
    p = np.empty((m, _BLOCK))
    about = np.empty((m, _BLOCK))
    top = np.empty(_BLOCK)
    total = np.empty(_BLOCK)
    mean = np.empty(_BLOCK)
    gradient[:] = 0.0
    bend[:] = 0.0
    loss = 0.0
    for begin in range(0, n, _BLOCK):
        size = min(n - begin, _BLOCK)
        top[:] = -np.inf
        for j in range(m):
            for r in range(size):
                v = scale * z[j, begin + r] + theta[j + 1]
                p[j, r] = v
                top[r] = v if v > top[r] else top[r]
        for r in range(size):
            loss += top[r] - p[labels[begin + r], r]
        _exponentiate(p, top, total, size)
        mean[:] = 0.0
        for r in range(size):
            loss += np.log(total[r])
            total[r] = 1.0 / total[r]
        for j in range(m):
            for r in range(size):
                p[j, r] *= total[r]
                mean[r] += p[j, r] * z[j, begin + r]
        for r in range(size):
            y = labels[begin + r]
            gradient[0] += mean[r] - z[y, begin + r]
            gradient[y + 1] -= 1.0
        for j in range(m):
            by_bias = 0.0
            across = 0.0
            among = 0.0
            for r in range(size):
                by_bias += p[j, r]
                away = z[j, begin + r] - mean[r]
                about[j, r] = p[j, r] * away
                across += about[j, r]
                among += about[j, r] * away
            gradient[j + 1] += by_bias
            bend[j + 1, j + 1] += by_bias
            bend[j + 1, 0] += across
            bend[0, 0] += among
            for k in range(j + 1):
                both = 0.0
                for r in range(size):
                    both += p[j, r] * p[k, r]
                bend[j + 1, k + 1] -= both
    for j in range(m + 1):
        for k in range(j):
            bend[k, j] = bend[j, k]
    return loss
