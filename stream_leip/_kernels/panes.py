"""Order of panes: merging sorted runs of rank keys, counting labels along the order, thinning."""

import numpy as np
from numba import njit


@njit(cache=True, error_model="numpy")
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


@njit(cache=True, error_model="numpy")
def checkpoints(labels, m, step):
    """Label counts before every `step`-th row."""
    out = np.zeros((labels.size // step + 1, m), np.int64)
    counts = np.zeros(m, np.int64)
    for i in range(labels.size):
        if i % step == 0:
            out[i // step] = counts
        counts[labels[i]] += 1
    if labels.size % step == 0:
        out[labels.size // step] = counts
    return out


@njit(cache=True, error_model="numpy")
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
