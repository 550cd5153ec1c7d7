"""Scores to calibrated rows, and the check of rows that arrive as such."""

import numpy as np
from numba import njit

from stream_leip._kernels.fast import FAST, FUSED

GOOD, NAN, INFINITE, NEGATIVE, SUM, ZERO = range(6)
SUM_TOLERANCE = 1e-3
# An exact zero becomes the smallest normal float32 before its logarithm is taken.
LOG_FLOOR = 1.1754943508222875e-38
# Beyond this a logit is as good as infinite, and the arithmetic below stays finite.
LARGEST_LOGIT = 1e30


# So many lines go through at a time, class by class: loops over lines vectorise, for any m. Of many
# classes fewer lines: a block should stay in the nearest cache.
_MOST, _LEAST = 128, 32
_ENTRIES = 4096
_LOG2_E = 1.4426950408889634
_LN_2_HIGH = 0.693147180369123816490
_LN_2_LOW = 1.90821492927058770002e-10
# Adding it rounds to a whole number, which is then in the lowest bits.
_ROUND = 6755399441055744.0
_LEAST_POWER = -708.0


@njit(cache=True, error_model="numpy", fastmath=False, inline="always")
def _exp(x):
    """e**x for x <= 0, to 3e-10 of itself: plain arithmetic, which vectorises as np.exp does not.

    A row is float32, whose own rounding is 6e-8.
    """
    x = x if x > _LEAST_POWER else _LEAST_POWER
    shifted = x * _LOG2_E + _ROUND
    whole = shifted - _ROUND
    r = (x - whole * _LN_2_HIGH) - whole * _LN_2_LOW
    p = 1.0 / 5040.0 + r * (1.0 / 40320.0)
    p = 1.0 / 720.0 + r * p
    p = 1.0 / 120.0 + r * p
    p = 1.0 / 24.0 + r * p
    p = 1.0 / 6.0 + r * p
    p = 0.5 + r * p
    p = 1.0 + r * p
    p = 1.0 + r * p
    power = (np.float64(shifted).view(np.int64) + 1023) << 52
    return p * np.int64(power).view(np.float64)


@njit(cache=True, error_model="numpy", fastmath=False)
def _reason(line, logits, total):
    """Why a line of scores is bad, if it is."""
    if not np.isfinite(total):
        # A sum of huge finite logits may overflow too, so each entry has its say.
        reason = GOOD
        for value in line:
            if np.isnan(value):
                return NAN
            if np.isinf(value):
                reason = INFINITE
        if reason != GOOD:
            return reason
    if logits:
        return GOOD
    if line.min() < 0.0:
        return NEGATIVE
    if total == 0.0:
        return ZERO
    return GOOD if abs(total - 1.0) <= SUM_TOLERANCE else SUM


@njit(cache=True, error_model="numpy", fastmath=False)
def calibrate(scores, logits, identity, scale, bias, rows, reasons):
    """Turn each line of scores into a row, or say why not; return the number of bad lines."""
    n, m = scores.shape
    block = max(_LEAST, min(_MOST, _ENTRIES // max(m, 1)))
    width = min(n, block)
    v = np.empty((m, width))
    narrow = np.empty(width, np.float32)
    total = np.empty(width)
    highest = np.empty(width)
    bad = 0
    for begin in range(0, n, block):
        size = min(n - begin, block)
        for r in range(size):
            line = scores[begin + r]
            # The sum, in order, keeps this loop from being made one of scattered stores.
            found = 0.0
            for j in range(m):
                value = np.float64(line[j])
                v[j, r] = value
                found += value
            total[r] = found
        odd = 0
        for r in range(size):
            odd += not np.isfinite(total[r])
        reasons[begin : begin + size] = GOOD
        spoilt = 0
        if odd > 0 or not logits:
            for r in range(size):
                reason = _reason(scores[begin + r], logits, total[r])
                reasons[begin + r] = reason
                spoilt += reason != GOOD
        if logits or not identity:
            _soften(v, size, logits, scale, bias, total, highest)
        for r in range(size):
            total[r] = 1.0 / total[r]
        for j in range(m):
            column = v[j]
            for r in range(size):
                narrow[r] = column[r] * total[r]
            for r in range(size):
                rows[begin + r, j] = narrow[r]
        if spoilt > 0:
            bad += spoilt
            for r in range(size):
                if reasons[begin + r] != GOOD:
                    rows[begin + r] = 0.0
    return bad


@njit(cache=True, error_model="numpy", fastmath=FUSED)
def _soften(v, size, logits, scale, bias, total, highest):
    """Calibrate a block of lines, class by class, and fill `total` with the sums of what is new."""
    highest[:] = -np.inf
    for j in range(v.shape[0]):
        column = v[j]
        if not logits:
            for r in range(size):
                column[r] = np.log(max(column[r] / total[r], LOG_FLOOR))
        by = scale[j]
        shift = bias[j]
        for r in range(size):
            z = column[r]
            z = z if z > -LARGEST_LOGIT else -LARGEST_LOGIT
            z = z if z < LARGEST_LOGIT else LARGEST_LOGIT
            z = by * z + shift
            column[r] = z
            highest[r] = z if z > highest[r] else highest[r]
    total[:] = 0.0
    for j in range(v.shape[0]):
        column = v[j]
        for r in range(size):
            e = _exp(column[r] - highest[r])
            column[r] = e
            total[r] += e


@njit(cache=True, error_model="numpy", fastmath=False)
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
