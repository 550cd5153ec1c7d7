"""Order of panes: merging sorted runs of rank keys, counting labels along the order, thinning."""

import numpy as np
from numba import njit


@njit(cache=True, error_model="numpy", fastmath=False)
def merge_runs(keys, starts):
    """The order that sorts `keys`, which are sorted from each start to the next.

    Neighbouring runs are merged in pairs until one is left: each level reads every key once. On
    equal keys the earlier run goes first.
    """
    n = keys.size
    order = np.arange(n, dtype=np.int64)
    spare = np.empty(n, np.int64)
    edges = np.append(starts, n)
    while edges.size > 2:
        pairs = edges.size // 2
        merged = np.empty(pairs + 1, np.int64)
        for p in range(pairs):
            left = edges[2 * p]
            middle = edges[2 * p + 1]
            right = edges[2 * p + 2] if 2 * p + 2 < edges.size else middle
            merged[p] = left
            a = left
            b = middle
            for place in range(left, right):
                if b >= right or (a < middle and keys[order[a]] <= keys[order[b]]):
                    spare[place] = order[a]
                    a += 1
                else:
                    spare[place] = order[b]
                    b += 1
        merged[pairs] = n
        edges = merged
        order, spare = spare, order
    return order


@njit(cache=True, error_model="numpy", fastmath=False)
def checkpoints(labels, m, step):
    """Label counts before every `step`-th row."""
    out = np.zeros((labels.size // step + 1, m), np.int64)
    counts = np.zeros(m, np.int64)
    for k in range(out.shape[0]):
        out[k] = counts
        for label in labels[k * step : (k + 1) * step]:
            counts[label] += 1
    return out


@njit(cache=True, error_model="numpy", fastmath=False)
def kept(events, level):
    """Which event numbers stay at a thinning level: one in 2**level, by a hash of the number."""
    out = np.empty(events.size, np.bool_)
    mask = (np.uint64(1) << np.uint64(level)) - np.uint64(1)
    for i in range(events.size):
        # The finaliser of splitmix64: every bit of the number stirs every bit of the hash.
        z = np.uint64(events[i]) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
        out[i] = (z & mask) == 0
    return out


@njit(cache=True, error_model="numpy", fastmath=False)
def _age(mark, newest, mask):
    return (newest - np.int64(mark)) & mask


@njit(cache=True, error_model="numpy", fastmath=False)
def _mask(marks):
    return np.int64(-1) if marks.itemsize == 8 else (np.int64(1) << (8 * marks.itemsize)) - 1


@njit(cache=True, error_model="numpy", fastmath=False)
def ages(marks, newest):
    """How many panes before the newest one each mark's pane is."""
    mask = _mask(marks)
    out = np.empty(marks.size, np.int64)
    for i in range(marks.size):
        out[i] = _age(marks[i], newest, mask)
    return out


@njit(cache=True, error_model="numpy", fastmath=False)
def merge_pair(
    rows_a, classes_a, labels_a, keys_a, marks_a, newest, oldest_age, shift_a,
    rows_b, classes_b, labels_b, keys_b, number, shift_b,
    rows, classes, labels, keys, marks,
):  # fmt: skip
    """Merge two runs in order; of the first, rows of panes older than `oldest_age` are left out."""
    mask = _mask(marks)
    # Assigning a row at a time is three times slower than entry by entry.
    width = rows.shape[1]
    k = classes.shape[1]
    a = 0
    b = 0
    for place in range(keys.size):
        while a < keys_a.size and _age(marks_a[a], newest, mask) > oldest_age:
            a += 1
        before = b == keys_b.size
        if not before and a < keys_a.size:
            before = keys_a[a] + np.uint64(shift_a) < keys_b[b] + np.uint64(shift_b)
        if before:
            for j in range(width):
                rows[place, j] = rows_a[a, j]
            labels[place] = labels_a[a]
            keys[place] = keys_a[a] + np.uint64(shift_a)
            marks[place] = marks_a[a]
            for j in range(k):
                classes[place, j] = classes_a[a, j]
            a += 1
        else:
            for j in range(width):
                rows[place, j] = rows_b[b, j]
            labels[place] = labels_b[b]
            keys[place] = keys_b[b] + np.uint64(shift_b)
            marks[place] = number
            for j in range(k):
                classes[place, j] = classes_b[b, j]
            b += 1


@njit(cache=True, error_model="numpy", fastmath=False)
def put_in_order(rows, classes, labels, events, first, keys, in_order, classes_in_order, ranked):
    """Fill rows, classes and labels in the order of `keys`, whose places become event numbers."""
    k = classes_in_order.shape[1]
    for place in range(keys.size):
        i = np.int64(keys[place] & np.uint64(0xFFFFFFFF))
        for j in range(rows.shape[1]):
            in_order[place, j] = rows[i, j]
        for j in range(k):
            classes_in_order[place, j] = classes[i, j]
        ranked[place] = labels[i]
        keys[place] = (keys[place] - np.uint64(i)) + np.uint64(events[i] - first)
