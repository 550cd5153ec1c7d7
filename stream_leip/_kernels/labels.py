"""LEIP's passes over rows: rank them, label the unsure ones in order, label all of them once more.

A rank key holds a row's confidence and its place: the distance of the top probability from one, in
steps of float32, above the row's index. Sorting keys puts the most confident first, ties by
arrival.
"""

import numpy as np
from numba import njit

from stream_leip._kernels.fast import FAST
from stream_leip._kernels.gate import SUM_TOLERANCE

_ONE = 0x3F800000  # the bits of float32 1.0
_INDEX = np.uint64(0xFFFFFFFF)
_HIGH = np.uint64(32)
_LABEL = 0xFFFF
_BIN = 17
# More than a row can sum to, whatever the check of rows let through.
_WHOLE = 1.0 + 2.0 * SUM_TOLERANCE


@njit(cache=True, error_model="numpy", fastmath=FAST)
def rank(rows, bits, keys, labels):
    """Fill each row's rank key and label; return whether all rows sum to one.

    `bits` is `rows` seen as int32: positive floats and their bits are in the same order, and the
    maximum of integers that hold both value and class vectorises where a search does not.
    """
    n, m = rows.shape
    for i in range(n):
        best = np.int64(0)
        total = 0.0
        for j in range(m):
            best = max(best, (np.int64(bits[i, j]) << 16) | (_LABEL - j))
            total += rows[i, j]
        if not abs(total - 1.0) <= SUM_TOLERANCE:
            return False
        labels[i] = _LABEL - (best & _LABEL)
        keys[i] = (np.uint64(max(_ONE - (best >> 16), 0)) << _HIGH) | np.uint64(i)
    return True


@njit(cache=True, error_model="numpy")
def count(labels, counts):
    """Add all labels to `counts`."""
    for label in labels:
        counts[label] += 1.0


@njit(cache=True, error_model="numpy")
def _bin(key):
    """Bins of equal relative width: a float's exponent and 6 bits of its mantissa."""
    distance = np.float32(np.int64(key >> _HIGH) + 1)
    return (np.int64(distance.view(np.int32)) >> _BIN) - (_ONE >> _BIN)


@njit(cache=True, error_model="numpy")
def split(keys, place):
    """Move small keys to the front until the `place`-th smallest is near the start of the rest.

    Returns where the rest begins: at `place`, or before it by keys of about the same confidence,
    so that sorting the rest costs little more than it must.
    """
    bins = np.zeros(2048, np.int32)
    for key in keys:
        bins[_bin(key)] += 1
    begin = 0
    edge = 0
    while begin + bins[edge] <= place:
        begin += bins[edge]
        edge += 1
    first = np.int32((edge + (_ONE >> _BIN)) << _BIN)
    limit = np.uint64(np.ceil(first.view(np.float32)) - 1.0) << _HIGH
    left = 0
    right = keys.size - 1
    while left <= right:
        if keys[left] < limit:
            left += 1
        else:
            keys[left], keys[right] = keys[right], keys[left]
            right -= 1
    return left


@njit(cache=True, error_model="numpy")
def _top(key):
    return np.int32(_ONE - np.int64(key >> _HIGH)).view(np.float32)


@njit(cache=True, error_model="numpy")
def quantile(keys, begin, place):
    """Linear quantile of the top probabilities at `place` from the lowest, as numpy's.

    Keys are sorted from `begin` on, and smaller before it. Also returns where in the keys the row
    at or next below `place` is.
    """
    below = min(np.int64(place), keys.size - 1)
    behind = keys.size - 1 - below
    low = np.float64(_top(keys[behind]))
    if behind == 0 or place == below:
        return low, behind
    before = keys[behind - 1] if behind > begin else keys[:begin].max()
    return low + (np.float64(_top(before)) - low) * (place - below), behind


@njit(cache=True, error_model="numpy")
def _best(row, ratio, own):
    """The class of the largest updated posterior; `own` where all are zero."""
    best = np.int64(own)
    value = 0.0
    for j in range(row.size):
        updated = row[j] * ratio[j]
        if updated > value:
            value = updated
            best = j
    return best


@njit(cache=True, error_model="numpy")
def confident(labels, weights, keys, behind, threshold, counts):
    """Find where the keys fall below the threshold, and count the labels before that.

    Keys are sorted from `behind` on, and at or above the threshold before it. Without weights,
    `counts` come with all labels, and those of the few keys below are taken off.
    """
    while behind < keys.size and _top(keys[behind]) >= threshold:
        behind += 1
    if weights.size > 0:
        for key in keys[:behind]:
            i = np.int64(key & _INDEX)
            counts[labels[i]] += weights[i]
    else:
        for key in keys[behind:]:
            counts[labels[np.int64(key & _INDEX)]] -= 1.0
    return behind


@njit(cache=True, error_model="numpy")
def relabel(rows, labels, weights, keys, ordered, behind, source, counts, final):
    """Label the rows from `behind` on in order, then all of them, and count these labels.

    `counts` come with what the labels before `behind` count, and `final`, where there are no
    weights, with all labels. Rows are in the order of their keys if `ordered`; else a key says
    where its row is.
    """
    _label_in_order(rows, labels, weights, keys, ordered, behind, source, counts)
    _label_all(rows, labels, weights, keys, ordered, source, counts, final)


@njit(cache=True, error_model="numpy")
def _label_in_order(rows, labels, weights, keys, ordered, behind, source, counts):
    """Label rows one by one, each under the counts that the ones before left."""
    weighted = weights.size > 0
    ratio = counts / source
    largest = ratio.max()
    for place in range(behind, keys.size):
        i = place if ordered else np.int64(keys[place] & _INDEX)
        own = labels[i]
        top = rows[i, own]
        # No other entry is above what the top one leaves of the whole.
        if ratio[own] * top > largest * (_WHOLE - top):
            best = np.int64(own)
        else:
            best = _best(rows[i], ratio, own)
        counts[best] += weights[i] if weighted else 1.0
        ratio[best] = counts[best] / source[best]
        largest = max(largest, ratio[best])


@njit(cache=True, error_model="numpy")
def _label_all(rows, labels, weights, keys, ordered, source, counts, final):
    """Label every row under the prior that `counts` give."""
    weighted = weights.size > 0
    ratio = counts / source
    largest = ratio.max()
    # By the argument above a row keeps its label when its top probability is this near to one.
    near = np.zeros(ratio.size, np.uint64)
    for j in range(ratio.size):
        keeps = np.float32(largest * _WHOLE / (ratio[j] + largest))
        if keeps < 1.0:
            near[j] = np.uint64(_ONE - np.int64(keeps.view(np.int32)) - 1) << _HIGH
    for place in range(keys.size):
        key = keys[place]
        i = place if ordered else np.int64(key & _INDEX)
        own = labels[i]
        best = np.int64(own) if key < near[own] else _best(rows[i], ratio, own)
        if weighted:
            final[best] += weights[i]
        elif best != own:
            final[own] -= 1.0
            final[best] += 1.0
