"""Adaptive memory: two mixtures of experts that bet on the class mix, pane by pane (RECIPES, 1).

Experts bet on priors, and the likelihood of an event under a prior, x·prior, is linear in it, so
that bets mix exactly. A unit is what has weights of its own: each class, which bets on its share
with the others in proportion, and last the joint one, which bets on the whole prior. Rows that
keep only their largest entries have the joint unit alone. In every array experts come last:
windows, trends, the source, then what was carried over from the last pane's restarts, then the
restarts of this pane.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from stream_leip._kernels.fast import FAST
from stream_leip._kernels.wager import bet_on

PANE = 50
BLOCK = 10
RUNGS = 10
TRENDS = RUNGS - 1
SOURCE = RUNGS + TRENDS
LADDER = SOURCE + 1
CARRIED = LADDER
RESTARTS = PANE // BLOCK
EXPERTS = LADDER + 1 + RESTARTS

RATES = np.array([1e-4, 1e-3, 1e-2, 1e-1])  # changes a pane
_RESTART = 0.5  # the part of a change rate that restarts inside a pane
_SHARE = 0.002  # what the layers give each other a block
_PSEUDO = 2.0  # events of the source mixed into a rung's estimate
_TREND = 5.0  # 2·short − long varies five times as much as a mean
_EVEN = 1.0 / LADDER


class Mixture(NamedTuple):
    """The state; kernels change it in place.

    Parameters
    ----------
    weights
        Units × rates × experts, each unit summing to one; classes first, the joint unit last.
    layers
        Of the joint unit and of the classes.
    experts
        What the ladder's experts bet on, classes × experts.
    means, totals
        Restarts of the class units: share and events seen, classes × restarts.
    counts, seen
        Restarts of the joint unit: counts, classes × restarts, and their sums.
    estimate
        The prior at the end of the last pane.
    panes
        How many have ended.
    """

    weights: Any
    layers: Any
    experts: Any
    means: Any
    totals: Any
    counts: Any
    seen: Any
    estimate: Any
    panes: Any


def fresh(source: Any, joint_only: bool = False) -> Mixture:
    """The state before the first event."""
    m = len(source)
    units = 1 if joint_only else m + 1
    windows = 4.0 ** np.arange(RUNGS)
    trends = 4.0 ** np.arange(TRENDS)
    first = np.concatenate([windows / windows.mean(), 0.1 * trends / trends.mean(), [10.0]])
    rate = 1.0 / RATES
    weights = np.zeros((units, len(RATES), EXPERTS))
    weights[:, :, :LADDER] = np.outer(rate / rate.sum(), first / first.sum())
    restarts = np.ones((1, RESTARTS + 1))
    return Mixture(
        weights,
        np.array([1.0, 0.0]) if joint_only else np.full(2, 0.5),
        np.repeat(source[:, None], LADDER, 1),
        source[:, None] * restarts,
        np.ones((m, RESTARTS + 1)),
        0.5 * m * source[:, None] * restarts,
        0.5 * m * restarts[0],
        source.copy(),
        np.zeros(1, np.int64),
    )


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def predict(state, source, joint, each, mixed, bet):
    """Fill what the joint unit, the classes and both predict, and the bet: both less the source."""
    m = source.size
    units = state.weights.shape[0]
    total = np.empty(EXPERTS)
    if units == 1:
        each[:] = source
        bet[:] = source
    for u in range(units):
        total[:] = 0.0
        for s in range(RATES.size):
            for i in range(EXPERTS):
                total[i] += state.weights[u, s, i]
        home = total[SOURCE]
        total[SOURCE] = 0.0
        others = total.sum()
        if u < units - 1:
            share = 0.0
            for i in range(LADDER):
                share += total[i] * state.experts[u, i]
            for k in range(RESTARTS + 1):
                share += total[CARRIED + k] * state.means[u, k]
            each[u] = share + home * source[u]
            bet[u] = share / others
        else:
            scale = 1.0 / bet.sum()
            for j in range(m):
                share = 0.0
                for i in range(LADDER):
                    share += total[i] * state.experts[j, i]
                for k in range(RESTARTS + 1):
                    share += total[CARRIED + k] * state.counts[j, k] / state.seen[k]
                joint[j] = share + home * source[j]
                bet[j] = state.layers[0] * share / others + state.layers[1] * scale * bet[j]
    each /= each.sum()
    for j in range(m):
        mixed[j] = state.layers[0] * joint[j] + state.layers[1] * each[j]


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def begin_pane(state, source):
    """Pass the last pane's restarts on, let weights climb the ladder, and change at their rates."""
    m = source.size
    units = state.weights.shape[0]
    first = state.panes[0] == 1
    old = np.empty(EXPERTS)
    share = np.empty(RESTARTS)
    for u in range(units):
        share[:] = 1e-300 / RESTARTS
        for s in range(RATES.size):
            for k in range(RESTARTS):
                share[k] += state.weights[u, s, CARRIED + 1 + k]
        if first:
            share[:] = 1.0
        share /= share.sum()
        if u < units - 1:
            carried = 0.0
            total = 0.0
            for k in range(RESTARTS):
                carried += share[k] * state.means[u, k + 1] * state.totals[u, k + 1]
                total += share[k] * state.totals[u, k + 1]
            state.means[u, 0] = carried / total
            state.totals[u, 0] = total
            state.means[u, 1:] = source[u]
            state.totals[u, 1:] = 1.0
        else:
            state.seen[0] = 0.0
            for k in range(RESTARTS):
                state.seen[0] += share[k] * state.seen[k + 1]
            for j in range(m):
                carried = 0.0
                for k in range(RESTARTS):
                    carried += share[k] * state.counts[j, k + 1]
                state.counts[j, 0] = carried
                state.counts[j, 1:] = 0.5 * m * source[j]
            state.seen[1:] = 0.5 * m
        for s in range(RATES.size):
            w = state.weights[u, s]
            old[:] = w
            old[0] += old[CARRIED]
            restarted = old[CARRIED + 1 :].sum()
            _climb(old)
            mass = old[:LADDER].sum() + restarted
            change = RATES[s] * (1.0 - _RESTART)
            for i in range(LADDER):
                w[i] = (1.0 - change) * old[i] + change * mass * _EVEN
            w[CARRIED] = (1.0 - change) * restarted
            w[CARRIED + 1 :] = 0.0


@njit(cache=True, error_model="numpy", fastmath=False)
def _climb(w):
    """From rung W to 2W with probability 50 / W; windows and trends have ladders of their own."""
    for k in range(RUNGS - 2, -1, -1):
        moved = w[k] / 2.0**k
        w[k] -= moved
        w[k + 1] += moved
    for k in range(TRENDS - 2, -1, -1):
        moved = w[RUNGS + k] / 2.0 ** (k + 1)
        w[RUNGS + k] -= moved
        w[RUNGS + k + 1] += moved


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def take(state, wager, rows, source):
    """Let a pane's rows, or those that came of it so far, judge the experts."""
    n, m = rows.shape
    if state.panes[0] > 0:
        begin_pane(state, source)
    joint = np.empty(m)
    each = np.empty(m)
    mixed = np.empty(m)
    bet = np.empty(m)
    others = np.empty(m)
    x = np.empty(m)
    value = np.empty(EXPERTS)
    factors = np.empty((m + 1, EXPERTS))
    inverse = 1.0 / source
    for begin in range(0, n, BLOCK):
        block = begin // BLOCK
        if state.panes[0] > 0:
            restart(state, block)
        predict(state, source, joint, each, mixed, bet)
        for j in range(m):
            others[j] = 1.0 / max(1.0 - mixed[j], 1e-12)
        active = block + 2
        factors[:] = 1.0
        joint_factor = 1.0
        each_factor = 1.0
        bet_on(wager, rows[begin : begin + BLOCK], bet)
        for e in range(begin, min(begin + BLOCK, n)):
            by_joint = 0.0
            by_each = 0.0
            for j in range(m):
                x[j] = rows[e, j] * inverse[j]
                by_joint += x[j] * joint[j]
                by_each += x[j] * each[j]
            scale = 1.0 / (state.layers[0] * by_joint + state.layers[1] * by_each)
            joint_factor *= by_joint * scale
            each_factor *= by_each * scale
            value[:] = 0.0
            for j in range(m):
                for i in range(LADDER):
                    value[i] += x[j] * state.experts[j, i]
                for k in range(active):
                    value[CARRIED + k] += x[j] * state.counts[j, k]
            for i in range(LADDER):
                factors[m, i] *= value[i] * scale
            for k in range(active):
                factors[m, CARRIED + k] *= value[CARRIED + k] / state.seen[k] * scale
                value[CARRIED + k] = 1.0 / value[CARRIED + k]
            for j in range(m):
                up = x[j] * scale
                down = (1.0 - up * mixed[j]) * others[j]
                # Both are x·prior over x·mixed where the class has all, or nothing.
                slope = up - down
                for i in range(LADDER):
                    factors[j, i] *= down + state.experts[j, i] * slope
                for k in range(active):
                    v = down + state.means[j, k] * slope
                    factors[j, CARRIED + k] *= v
                    more = state.totals[j, k] + up / v
                    state.totals[j, k] += 1.0
                    state.means[j, k] *= more / state.totals[j, k]
                    state.counts[j, k] += x[j] * state.counts[j, k] * value[CARRIED + k]
            for k in range(active):
                state.seen[k] += 1.0
        _weigh_layers(state.layers, joint_factor, each_factor)
        reweigh(state, factors)


@njit(cache=True, error_model="numpy", fastmath=False)
def restart(state, block):
    """Move a part of every unit's mass to the restart that begins with this block."""
    for u in range(state.weights.shape[0]):
        for s in range(RATES.size):
            w = state.weights[u, s]
            moved = RATES[s] * _RESTART / RESTARTS
            mass = w.sum()
            w *= 1.0 - moved
            w[CARRIED + 1 + block] += moved * mass


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def reweigh(state, factors):
    """Multiply the weights of each unit's experts, whatever their rate, and normalise."""
    for u in range(state.weights.shape[0]):
        total = 0.0
        for s in range(RATES.size):
            for i in range(EXPERTS):
                state.weights[u, s, i] *= factors[u, i]
                total += state.weights[u, s, i]
        for s in range(RATES.size):
            for i in range(EXPERTS):
                state.weights[u, s, i] /= total


@njit(cache=True, error_model="numpy", fastmath=False)
def _weigh_layers(layers, joint_factor, each_factor):
    layers[0] *= joint_factor
    layers[1] *= each_factor
    whole = layers.sum()
    for layer in range(2):
        layers[layer] = (1.0 - _SHARE) * layers[layer] / whole + _SHARE * 0.5


@njit(cache=True, error_model="numpy", fastmath=False)
def shrunk(prior, n, source, out):
    """Mix pseudo-events of the source into an estimate of n events."""
    for j in range(source.size):
        out[j] = (n * prior[j] + _PSEUDO * source[j]) / (n + _PSEUDO)


@njit(cache=True, error_model="numpy", fastmath=False)
def set_experts(state, priors, sizes, source):
    """Bets of the windows, from their estimates and sizes, and of the trends between them."""
    m = source.size
    trend = np.empty(m)
    for k in range(RUNGS):
        shrunk(priors[k], sizes[k], source, state.experts[:, k])
        if k == 0:
            continue
        short = sizes[k - 1]
        long = sizes[k]
        if long >= 1.5 * short:
            gain = short / (long - short)
            for j in range(m):
                trend[j] = max(priors[k - 1, j] + gain * (priors[k - 1, j] - priors[k, j]), 0.0)
            trend /= trend.sum()
            shrunk(trend, long / _TREND, source, state.experts[:, RUNGS + k - 1])
        else:
            shrunk(priors[k - 1], long, source, state.experts[:, RUNGS + k - 1])


@njit(cache=True, error_model="numpy", fastmath=False, forceinline=True)
def end_pane(state, priors, sizes, source):
    """Take the new estimates of the rungs, and estimate the prior with them."""
    set_experts(state, priors, sizes, source)
    m = source.size
    predict(state, source, np.empty(m), np.empty(m), state.estimate, np.empty(m))
    state.panes[0] += 1


@njit(cache=True, error_model="numpy", fastmath=False)
def components(state, sizes, known, weights, means, events):
    """Weight, share and events behind each expert of each class, and the effective memory.

    `known` is how many events the source expert counts for. The memory is the mean length of the
    windows that the joint unit's experts look back on, the source's, which looks at none, left out.
    """
    units = state.weights.shape[0]
    for u in range(state.estimate.size):
        weights[u] = state.weights[u if units > 1 else 0].sum(axis=0)
        means[u, :LADDER] = state.experts[u]
        for k in range(RUNGS):
            events[u, k] = sizes[k]
            if k > 0:
                fast = sizes[k] >= 1.5 * sizes[k - 1]
                events[u, RUNGS + k - 1] = sizes[k] / _TREND if fast else sizes[k]
        events[u, SOURCE] = known
        for k in range(RESTARTS + 1):
            if units > 1:
                means[u, CARRIED + k] = state.means[u, k]
                events[u, CARRIED + k] = state.totals[u, k]
            else:
                means[u, CARRIED + k] = state.counts[u, k] / state.seen[k]
                events[u, CARRIED + k] = state.seen[k]
    return memory(state, sizes)


@njit(cache=True, error_model="numpy", fastmath=False)
def memory(state, sizes):
    """The mean length of the windows of the joint unit's experts; see `components`."""
    total = state.weights[-1].sum(axis=0)
    total[SOURCE] = 0.0
    length = 0.0
    for k in range(RUNGS):
        length += total[k] * sizes[k]
        if k > 0:
            length += total[RUNGS + k - 1] * sizes[k]
    for k in range(RESTARTS + 1):
        length += total[CARRIED + k] * (state.seen[k] - 0.5 * state.estimate.size)
    return length / max(total.sum(), 1e-300)
