"""The joint unit alone, for rows that keep their largest entries only (see `mixture`).

Beside its entries such a row is in proportion to the source prior, so that x = row / source is one
number there, `rate`, and x·prior is rate plus a sum over the entries.
"""

import numpy as np
from numba import njit

from stream_leip._kernels.fast import FAST
from stream_leip._kernels.likelihood import rest_rate
from stream_leip._kernels.mixture import (
    BLOCK,
    CARRIED,
    EXPERTS,
    LADDER,
    RESTARTS,
    begin_pane,
    predict,
    restart,
    reweigh,
)
from stream_leip._kernels.wager import bet_on_entries


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def take_sparse(state, wager, rows, classes, source):
    """Let a pane's rows, or those that came of it so far, judge the experts."""
    n, width = rows.shape
    m = source.size
    if state.panes[0] > 0:
        begin_pane(state, source)
    joint = np.empty(m)
    each = np.empty(m)
    mixed = np.empty(m)
    bet = np.empty(m)
    value = np.empty(EXPERTS)
    factors = np.empty((1, EXPERTS))
    # Counts are scale times what is stored, so that a row touches its own entries only.
    scale = np.ones(RESTARTS + 1)
    for begin in range(0, n, BLOCK):
        block = begin // BLOCK
        if state.panes[0] > 0:
            restart(state, block)
        if begin > 0:
            _rescale(state.counts, scale)
        predict(state, source, joint, each, mixed, bet)
        active = block + 2
        factors[:] = 1.0
        end = min(begin + BLOCK, n)
        bet_on_entries(wager, rows[begin:end], classes[begin:end], source, bet)
        for e in range(begin, end):
            rate = rest_rate(rows, classes, source, e)
            by_joint = rate
            value[:LADDER] = rate
            for k in range(active):
                value[CARRIED + k] = rate * state.seen[k]
            for h in range(width):
                c = classes[e, h]
                x = rows[e, h] / source[c] - rate
                by_joint += x * joint[c]
                for i in range(LADDER):
                    value[i] += x * state.experts[c, i]
                for k in range(active):
                    value[CARRIED + k] += x * scale[k] * state.counts[c, k]
            for i in range(LADDER):
                factors[0, i] *= value[i] / by_joint
            for k in range(active):
                v = value[CARRIED + k]
                factors[0, CARRIED + k] *= v / (state.seen[k] * by_joint)
                beside = 1.0 + rate / v
                scale[k] *= beside
                for h in range(width):
                    c = classes[e, h]
                    state.counts[c, k] *= (1.0 + rows[e, h] / (source[c] * v)) / beside
                state.seen[k] += 1.0
        reweigh(state, factors)
    _rescale(state.counts, scale)


@njit(cache=True, error_model="numpy", fastmath=False)
def _rescale(counts, scale):
    for j in range(counts.shape[0]):
        for k in range(scale.size):
            counts[j, k] *= scale[k]
    scale[:] = 1.0
