"""Adaptive memory as its recipe says it: whole streams, slow, nothing shared with the package."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
PANE, BLOCK = 50, 10
LENGTHS = [50 * 2**k for k in range(10)]
RATES = (1e-4, 1e-3, 1e-2, 1e-1)


def em(x: Array, start: Array) -> Array:
    prior = start
    for _ in range(2000):
        ahead: Array = prior * (x / (x @ prior)[:, None]).mean(axis=0)
        if np.abs(ahead - prior).sum() < 1e-7:
            return ahead
        prior = ahead
    return prior


def lazy_bank(rows: Array, source: Array) -> Array:
    """EM on each rung at each pane's end, kept until one in 32 of its rows is new."""
    x = rows.astype(np.float64) / source
    panes = len(x) // PANE
    bank = np.empty((panes, len(LENGTHS), len(source)))
    for k, length in enumerate(LENGTHS):
        renewed = 0
        prior = source
        for pane in range(panes):
            end = PANE * (pane + 1)
            n = min(length, end)
            if 32 * (end - renewed) >= n:
                renewed = end
                if k and n == min(LENGTHS[k - 1], end):
                    prior = bank[pane, k - 1]
                else:
                    prior = em(x[end - n : end], 0.98 * prior + 0.02 * source)
            bank[pane, k] = prior
    return bank


def experts(bank: Array, source: Array) -> Array:
    """Bets of windows, trends and the source at each pane's end."""
    out = np.empty((len(bank), 20, len(source)))
    for pane, priors in enumerate(bank):
        n = [min(length, PANE * (pane + 1)) for length in LENGTHS]
        for k in range(10):
            out[pane, k] = (n[k] * priors[k] + 2 * source) / (n[k] + 2)
        for k in range(1, 10):
            short, long, size = priors[k - 1], priors[k], float(n[k])
            bet = short
            if n[k] >= 1.5 * n[k - 1]:
                bet = np.maximum(short + n[k - 1] / (n[k] - n[k - 1]) * (short - long), 0)
                bet, size = bet / bet.sum(), n[k] / 5
            out[pane, 9 + k] = (size * bet + 2 * source) / (size + 2)
        out[pane, 19] = source
    return out


def climb() -> Array:
    matrix = np.eye(20)
    for offset, lengths in ((0, LENGTHS), (10, LENGTHS[1:])):
        for k in range(len(lengths) - 1):
            up = PANE / lengths[k]
            matrix[offset + k, offset + k] = 1 - up
            matrix[offset + k, offset + k + 1] = up
    return matrix


def track(rows: Array, bets: Array, source: Array) -> Array:  # noqa: PLR0915  (one recipe)
    """The prior at each pane's end. Experts: 20 of the ladder, 5 restarts, and the carried one."""
    x = rows.astype(np.float64) / source
    m, panes = len(source), len(bets)
    windows, trends = 4.0 ** np.arange(10), 4.0 ** np.arange(9)
    first = np.concatenate([windows / windows.mean(), 0.1 * trends / trends.mean(), [10.0]])
    rate = 1 / np.array(RATES)
    w = np.zeros((m + 1, 4, 26))
    w[:, :, :20] = np.outer(rate / rate.sum(), first / first.sum())
    layers, up = np.array([0.5, 0.5]), climb()
    now = np.tile(source, (20, 1))
    joint, joint_n = np.tile(m / 2 * source, (6, 1)), np.full(6, m / 2)
    each, each_n = np.tile(source, (6, 1)), np.ones((6, m))
    out = np.empty((panes, m))

    def predict() -> tuple[Array, Array]:
        total = w.sum(axis=1)
        by_joint = total[m, :20] @ now + total[m, 20:] @ (joint / joint_n[:, None])
        by_each = np.einsum("ji,ij->j", total[:m, :20], now)
        by_each += np.einsum("jk,kj->j", total[:m, 20:], each / each_n)
        return by_joint, by_each / by_each.sum()

    for pane in range(panes):
        joint[:5], joint_n[:5], each[:5], each_n[:5] = m / 2 * source, m / 2, source, 1.0
        for block in range(5):
            if pane:
                for s in range(4):
                    part = RATES[s] * 0.5 / 5
                    mass = w[:, s].sum(axis=1)
                    w[:, s] *= 1 - part
                    w[:, s, 20 + block] += part * mass
            by_joint, by_each = predict()
            mixed = layers[0] * by_joint + layers[1] * by_each
            factor = np.ones((m + 1, 26))
            begin = PANE * pane + BLOCK * block
            for event in x[begin : begin + BLOCK]:
                total = event @ mixed
                layers = layers * np.array([event @ by_joint, event @ by_each]) / total
                factor[m, :20] *= now @ event / total
                a = event / total
                r = (1 - a * mixed) / (1 - mixed)
                factor[:m, :20] *= (r + now * (a - r)).T
                for k in (*range(block + 1), 5):
                    value = event @ joint[k]
                    factor[m, 20 + k] *= value / joint_n[k] / total
                    joint[k] += event * joint[k] / value
                    joint_n[k] += 1
                    q = each[k] / each_n[k]
                    v = r + q * (a - r)
                    factor[:m, 20 + k] *= v
                    each[k] += q * a / v
                    each_n[k] += 1
            layers = 0.998 * layers / layers.sum() + 0.002 * 0.5
            w *= factor[:, None, :]
            w /= w.sum(axis=(1, 2), keepdims=True)
        now = bets[pane]
        by_joint, by_each = predict()
        out[pane] = layers[0] * by_joint + layers[1] * by_each
        share = w[:, :, 20:25].sum(axis=1) if pane else np.ones((m + 1, 5))
        share = share / np.maximum(share.sum(axis=1, keepdims=True), 1e-300)
        joint[5], joint_n[5] = share[m] @ joint[:5], share[m] @ joint_n[:5]
        each[5] = np.einsum("jk,kj->j", share[:m], each[:5])
        each_n[5] = np.einsum("jk,kj->j", share[:m], each_n[:5])
        restarted = w[:, :, 20:25].sum(axis=2)
        ladder = w[:, :, :20].copy()
        ladder[:, :, 0] += w[:, :, 25]
        ladder = ladder @ up
        mass = ladder.sum(axis=2) + restarted
        change = np.array(RATES)[:, None] * 0.5
        w[:, :, :20] = (1 - change) * ladder + change * mass[:, :, None] / 20
        w[:, :, 20:25] = 0.0
        w[:, :, 25] = (1 - change[:, 0]) * restarted
    return out
