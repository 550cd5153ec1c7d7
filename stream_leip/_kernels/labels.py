"""LEIP's passes over rows: rank them, label the unsure ones in order, label all of them once more.

A rank key holds a row's confidence and its place: the distance of the top probability from one, in
steps of float32, above the row's index. Sorting keys puts the most confident first, ties by
arrival.
"""

import numpy as np
from numba import njit

from stream_leip._kernels.fast import FAST
from stream_leip._kernels.gate import SUM_TOLERANCE
from stream_leip._kernels.likelihood import rest_rate

ONE = 0x3F800000  # the bits of float32 1.0
INDEX = np.uint64(0xFFFFFFFF)
HIGH = np.uint64(32)
_LABEL = 0xFFFF
_BIN = 46
_ONE64 = 0x3FF0000000000000  # the bits of float64 1.0
# More than a row can sum to, whatever the check of rows let through.
_WHOLE = 1.0 + 2.0 * SUM_TOLERANCE


@njit(cache=True, error_model="numpy", fastmath=False)
def _put(best, i, keys, labels):
    """Take the largest entry of row i apart, whose bits are above its class."""
    labels[i] = _LABEL - (best & _LABEL)
    keys[i] = (np.uint64(max(ONE - (best >> 16), 0)) << HIGH) | np.uint64(i)


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
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
        _put(best, i, keys, labels)
    return True


@njit(cache=True, error_model="numpy", fastmath=False)
def rank_checked(bits, keys, labels):
    """The same for rows that came through the gate, which sum to one."""
    n, m = bits.shape
    for i in range(n):
        best = np.int64(0)
        for j in range(m):
            best = max(best, (np.int64(bits[i, j]) << 16) | (_LABEL - j))
        _put(best, i, keys, labels)


@njit(cache=True, error_model="numpy", fastmath=False)
def count(labels, counts):
    """Add all labels to `counts`."""
    for label in labels:
        counts[label] += 1.0


@njit(cache=True, error_model="numpy", fastmath=False)
def _bin(key):
    """Bins of equal relative width: a float's exponent and 6 bits of its mantissa."""
    distance = np.float64(np.int64(key >> HIGH) + 1)
    return (distance.view(np.int64) >> _BIN) - (_ONE64 >> _BIN)


@njit(cache=True, error_model="numpy", fastmath=False)
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
    first = np.int64((edge + (_ONE64 >> _BIN)) << _BIN)
    limit = np.uint64(np.ceil(first.view(np.float64)) - 1.0) << HIGH
    left = 0
    right = keys.size - 1
    while left <= right:
        if keys[left] < limit:
            left += 1
        else:
            keys[left], keys[right] = keys[right], keys[left]
            right -= 1
    return left


@njit(cache=True, error_model="numpy", fastmath=False)
def _top(key):
    return np.int32(ONE - np.int64(key >> HIGH)).view(np.float32)


@njit(cache=True, error_model="numpy", fastmath=False)
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


@njit(cache=True, error_model="numpy", fastmath=False, forceinline=True)
def _best(rows, classes, spread, i, ratio, widest):
    """The class of row i's largest updated posterior, the first of equals; -1 if all are zero.

    `widest` is the largest of spread · ratio.
    """
    best = np.int64(-1)
    value = 0.0
    if classes.size == 0:
        # The value first, then its place: in one loop the branches are guessed wrong.
        for j in range(rows.shape[1]):
            updated = rows[i, j] * ratio[j]
            value = updated if updated > value else value
        if value > 0.0:
            for j in range(rows.shape[1]):
                if rows[i, j] * ratio[j] == value:
                    return np.int64(j)
        return best
    for j in range(rows.shape[1]):
        c = np.int64(classes[i, j])
        updated = rows[i, j] * ratio[c]
        if updated > value or (updated == value and value > 0.0 and c < best):
            value = updated
            best = c
    rate = rest_rate(rows, classes, spread, i)
    if rate * widest > value:
        # Of the other classes, the same one for every row that it is open to.
        other = np.int64(-1)
        heaviest = 0.0
        for c in range(spread.size):
            weight = spread[c] * ratio[c]
            if weight > heaviest and not _within(classes[i], c):
                heaviest = weight
                other = c
        if rate * heaviest > value:
            best = other
    return best


@njit(cache=True, error_model="numpy", fastmath=False)
def _within(classes, c):
    for each in classes:
        if each == c:
            return True
    return False


@njit(cache=True, error_model="numpy", fastmath=False)
def confident(labels, weights, keys, behind, threshold, counts):
    """Find where the keys fall below the threshold, and count the labels before that.

    Keys are sorted from `behind` on, and at or above the threshold before it. Without weights,
    `counts` come with all labels, and those of the few keys below are taken off.
    """
    while behind < keys.size and _top(keys[behind]) >= threshold:
        behind += 1
    if weights.size > 0:
        for key in keys[:behind]:
            i = np.int64(key & INDEX)
            counts[labels[i]] += weights[i]
    else:
        for key in keys[behind:]:
            counts[labels[np.int64(key & INDEX)]] -= 1.0
    return behind


@njit(cache=True, error_model="numpy", fastmath=False, forceinline=True)
def relabel(
    rows, classes, spread, labels, weights, keys, arrived, ordered, behind, source, counts, final
):
    """Label the rows from `behind` on in order, then all of them, and count these labels.

    `counts` come with what the labels before `behind` count, and `final`, where there are no
    weights, with all labels. Rows are in the order of their keys if `ordered`; else a key says
    where its row is, and `arrived` are the keys in the order of the rows, or empty. For `classes`
    and `spread` see `likelihood.gradient`. Returns how many rows kept their own label because none
    of their classes counts anything.
    """
    weighted = weights.size > 0
    ratio = counts / source
    largest = ratio.max()
    widest = (spread * ratio).max()
    kept = 0
    for place in range(behind, keys.size):
        key = keys[place]
        i = place if ordered else np.int64(key & INDEX)
        own = labels[i]
        top = _top(key)
        # No other entry is above what the top one leaves of the whole.
        if ratio[own] * top > largest * (_WHOLE - top):
            best = np.int64(own)
        else:
            best = _best(rows, classes, spread, i, ratio, widest)
        if best < 0:
            best = np.int64(own)
            kept += 1
        counts[best] += weights[i] if weighted else 1.0
        ratio[best] = counts[best] / source[best]
        largest = max(largest, ratio[best])
        widest = max(widest, spread[best] * ratio[best])
    # By the same argument a row with a top probability above this keeps its label.
    keeps = (largest * _WHOLE / (ratio + largest)).astype(np.float32)
    first = 0
    if ordered and not weighted:
        above = ONE - np.int64(keeps.view(np.int32).max())
        first = np.searchsorted(keys, np.uint64(max(above, 0)) << HIGH)
    for i in range(first, keys.size):
        own = labels[i]
        if arrived.size > 0:
            top = _top(arrived[i])
        else:
            top = rows[i, 0 if classes.size > 0 else own]
        if top > keeps[own]:
            best = np.int64(own)
        else:
            best = _best(rows, classes, spread, i, ratio, widest)
        if best < 0:
            best = np.int64(own)
        if weighted:
            final[best] += weights[i]
        elif best != own:
            final[own] -= 1.0
            final[best] += 1.0
    return kept


@njit(cache=True, error_model="numpy", fastmath=False, forceinline=True)
def label_arrived(rows, classes, spread, keys, labels, source, share, threshold, smoothing):
    """LEIP on rows in order of arrival, whose keys have a confidence and no place yet.

    Returns the counts of the final labels, the threshold (that of the confident `share`, unless it
    is negative), the counts and the number of confident rows, and how many rows `relabel` kept.
    """
    n = rows.shape[0]
    counts = np.zeros(source.size)
    count(labels, counts)
    final = counts.copy()
    placed = np.empty(n, np.uint64)
    for i in range(n):
        placed[i] = keys[i] | np.uint64(i)
    behind = 0
    if share >= 0.0:
        place = (n - 1) * (1.0 - share)
        begin = split(placed, n - 1 - np.int64(place))
        placed[begin:].sort()
        threshold, behind = quantile(placed, begin, place)
    else:
        placed.sort()
    none = np.empty(0)
    behind = confident(labels, none, placed, behind, threshold, counts)
    sure = counts.copy()
    counts += smoothing
    kept = relabel(
        rows, classes, spread, labels, none, placed, keys, False, behind, source, counts, final
    )
    return final, threshold, sure, behind, kept


@njit(cache=True, error_model="numpy", fastmath=False)
def rank_sparse(rows, classes, keys, labels):
    """Fill rank keys and labels of rows whose largest entry comes first."""
    for i in range(rows.shape[0]):
        labels[i] = classes[i, 0]
        distance = max(ONE - np.int64(np.float32(rows[i, 0]).view(np.int32)), 0)
        keys[i] = (np.uint64(distance) << HIGH) | np.uint64(i)


@njit(cache=True, error_model="numpy", fastmath=False)
def largest_entries(rows, values, classes):
    """Each row's largest entries, in descending order, the first of equals first."""
    k = values.shape[1]
    for i in range(rows.shape[0]):
        filled = 0
        for j in range(rows.shape[1]):
            value = rows[i, j]
            if filled == k and not value > values[i, k - 1]:
                continue
            place = min(filled, k - 1)
            while place > 0 and values[i, place - 1] < value:
                values[i, place] = values[i, place - 1]
                classes[i, place] = classes[i, place - 1]
                place -= 1
            values[i, place] = value
            classes[i, place] = j
            filled = min(filled + 1, k)
