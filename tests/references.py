"""Slow, plain versions of the estimators, written apart from the kernels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Array = NDArray[Any]


def leip(rows: Array, source: Array, share: float, smoothing: float = 0.0) -> Array:
    """The paper's algorithm, row by row, in the order of its text."""
    rows = rows.astype(float)
    tops = [max(row) for row in rows]
    threshold = np.quantile(tops, 1.0 - share)
    counts = [smoothing] * len(source)
    for row, top in zip(rows, tops, strict=True):
        if top >= threshold:
            counts[int(np.argmax(row))] += 1
    unsure = [i for i, top in enumerate(tops) if top < threshold]
    unsure.sort(key=lambda i: -tops[i])
    for i in unsure:
        counts[_updated_label(rows[i], counts, source)] += 1
    final = [0] * len(source)
    for row in rows:
        final[_updated_label(row, counts, source)] += 1
    return np.array(final) / len(rows)


def weighted_leip(
    rows: Array, source: Array, weights: Array, share: float, fixed: float | None
) -> Array:
    """The same with row weights; a row stands at the middle of its weight along the quantiles."""
    rows = rows.astype(float)
    order = sorted(range(len(rows)), key=lambda i: (-max(rows[i]), i))
    threshold = fixed
    if threshold is None:
        middles, passed = [], 0.0
        for i in reversed(order):
            middles.append(passed + weights[i] / 2)
            passed += weights[i]
        target = middles[0] + (1.0 - share) * (middles[-1] - middles[0])
        threshold = np.interp(target, middles, [max(rows[i]) for i in reversed(order)])
    counts = [0.0] * len(source)
    for i in order:
        sure = max(rows[i]) >= threshold
        label = int(np.argmax(rows[i])) if sure else _updated_label(rows[i], counts, source)
        counts[label] += weights[i]
    final = np.zeros(len(source))
    for row, weight in zip(rows, weights, strict=True):
        final[_updated_label(row, counts, source)] += weight
    return np.asarray(final / final.sum())


def _updated_label(row: Array, counts: list[float], source: Array) -> int:
    posterior = [c / s * p for c, s, p in zip(counts, source, row, strict=True)]
    return int(np.argmax(posterior)) if max(posterior) > 0 else int(np.argmax(row))


def log_likelihood(rows: Array, source: Array, prior: Array) -> float:
    """Mean log-likelihood of a prior relative to the source."""
    return float(np.mean([np.log((row / source) @ prior) for row in rows.astype(float)]))


def em(rows: Array, source: Array, steps: int) -> Array:
    """Textbook EM."""
    prior = source.copy()
    for _ in range(steps):
        total = np.zeros(len(source))
        for row in rows.astype(float):
            updated = prior / source * row
            total += updated / updated.sum()
        prior = total / len(rows)
    return prior


def rlls(confusion: Array, mean: Array, size: float) -> float:
    """The least value of RLLS's objective that a general solver finds."""

    def objective(w: Array) -> float:
        return float(
            np.linalg.norm(confusion @ w - mean) + size * np.sqrt(((w - 1) ** 2).sum() + 1e-18)
        )

    starts = [np.ones(len(mean)), np.maximum(np.linalg.pinv(confusion) @ mean, 0)]
    bounds = [(0, None)] * len(mean)
    return min(
        minimize(objective, x, bounds=bounds, method="L-BFGS-B", options={"maxiter": 5000}).fun
        for x in starts
    )


def calibration_optimum(logits: Array, labels: Array, one_scale: bool, with_bias: bool) -> float:
    """The least mean negative log-likelihood, by Newton's method with the full Hessian."""
    n, m = logits.shape
    truth = np.eye(m)[labels]
    scales = 1 if one_scale else m
    theta = np.concatenate([np.ones(scales), np.zeros(m if with_bias else 0)])
    loss = np.inf
    for _ in range(100):
        v = logits * theta[:scales] + (theta[scales:] if with_bias else 0.0)
        v -= v.max(axis=1, keepdims=True)
        p = np.exp(v) / np.exp(v).sum(axis=1, keepdims=True)
        loss = -np.mean(np.log(p[np.arange(n), labels]))
        # One row's derivative of its m values by the parameters.
        by_scale = logits[:, :, None] if one_scale else logits[:, :, None] * np.eye(m)
        parts = [by_scale] + ([np.broadcast_to(np.eye(m), (n, m, m))] if with_bias else [])
        jacobian = np.concatenate(parts, axis=2)
        gradient = np.einsum("nj,njk->k", p - truth, jacobian) / n
        mean = np.einsum("nj,njk->nk", p, jacobian)
        hessian = np.einsum("nj,njk,njl->kl", p, jacobian, jacobian) - mean.T @ mean
        step = np.linalg.lstsq(hessian / n, gradient, rcond=1e-12)[0]
        theta = theta - step
        if np.abs(step).max() < 1e-12:
            break
    return float(loss)
