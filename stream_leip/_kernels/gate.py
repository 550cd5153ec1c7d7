"""Scores to calibrated rows, and the check of rows that arrive as such."""

import numpy as np
from numba import njit

from stream_leip._kernels.fast import FAST

GOOD, NAN, INFINITE, NEGATIVE, SUM, ZERO = range(6)
SUM_TOLERANCE = 1e-3
# An exact zero becomes the smallest normal float32 before its logarithm is taken.
LOG_FLOOR = 1.1754943508222875e-38
# Beyond this a logit is as good as infinite, and the arithmetic below stays finite.
LARGEST_LOGIT = 1e30


@njit(cache=True, error_model="numpy")
def calibrate(scores, logits, identity, scale, bias, rows, reasons):
    """Turn each line of scores into a row, or say why not; return the number of bad lines."""
    n, m = scores.shape
    bad = 0
    v = np.empty(m)
    for i in range(n):
        total = 0.0
        lowest = np.inf
        for j in range(m):
            v[j] = scores[i, j]
            total += v[j]
            lowest = min(lowest, v[j])
        reason = GOOD
        if not np.isfinite(total):
            # A sum of huge finite logits may overflow too, so each entry has its say.
            for j in range(m):
                if np.isnan(v[j]):
                    reason = NAN
                    break
                if np.isinf(v[j]):
                    reason = INFINITE
        if not logits and reason == GOOD:
            if lowest < 0.0:
                reason = NEGATIVE
            elif total == 0.0:
                reason = ZERO
            elif not abs(total - 1.0) <= SUM_TOLERANCE:
                reason = SUM
        reasons[i] = reason
        if reason != GOOD:
            bad += 1
            for j in range(m):
                rows[i, j] = 0.0
            continue
        if logits or not identity:
            highest = -np.inf
            for j in range(m):
                z = v[j] if logits else np.log(max(v[j] / total, LOG_FLOOR))
                v[j] = scale[j] * min(max(z, -LARGEST_LOGIT), LARGEST_LOGIT) + bias[j]
                highest = max(highest, v[j])
            total = 0.0
            for j in range(m):
                v[j] = np.exp(v[j] - highest)
                total += v[j]
        for j in range(m):
            rows[i, j] = v[j] / total
    return bad


@njit(cache=True, error_model="numpy")
def none_negative(flat):
    """Whether no entry is below zero."""
    fine = True
    for i in range(flat.size):
        fine &= flat[i] >= 0.0
    return fine


@njit(cache=True, error_model="numpy", fastmath=FAST)
def first_bad(rows):
    """Index of the first line that is not a row (finite, nonnegative, summing to one), or -1."""
    n, m = rows.shape
    found = n
    for i in range(n):
        total = 0.0
        for j in range(m):
            total += rows[i, j]
        if not abs(total - 1.0) <= SUM_TOLERANCE:
            found = i
            break
    # The sign has a pass of its own over the flat array, which is twice as fast as one with both.
    if not none_negative(rows[:found].ravel()):
        for i in range(found):
            if rows[i].min() < 0.0:
                return i
    return found if found < n else -1
