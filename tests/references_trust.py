"""Slow, plain versions of evidence, intervals and assumption check, written apart from them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import f as f_law

from stream_leip.calibration import Method

Array = NDArray[Any]
FLOOR = 1e-12


def softmax(v: Array) -> Array:
    e = np.exp(v - v.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def refit(method: Method, logits: Array, labels: Array, weights: Array) -> tuple[Array, Array]:
    """Scale and bias of the weighted likelihood's maximum, by Newton's method."""
    n, m = logits.shape
    scales = {"none": 0, "TS": 1, "BCTS": 1, "NBVS": m, "VS": m}[method]
    bias = method in ("BCTS", "VS")
    theta = np.concatenate([np.ones(scales), np.zeros(m if bias else 0)])
    by_scale = logits[:, :, None] if scales == 1 else logits[:, :, None] * np.eye(m)
    parts = [by_scale] * (scales > 0) + [np.broadcast_to(np.eye(m), (n, m, m))] * bias

    def unpack(theta: Array) -> tuple[Array, Array]:
        scale = np.broadcast_to(theta[:scales], m) if scales else np.ones(m)
        return scale, theta[scales:] if bias else np.zeros(m)

    for _ in range(200 if parts else 0):
        scale, shift = unpack(theta)
        p = softmax(logits * scale + shift)
        jacobian = np.concatenate(parts, axis=2)
        residual = (p - np.eye(m)[labels]) * weights[:, None]
        gradient = np.einsum("nj,njk->k", residual, jacobian)
        mean = np.einsum("nj,njk->nk", p, jacobian)
        hessian = np.einsum("n,nj,njk,njl->kl", weights, p, jacobian, jacobian)
        hessian -= np.einsum("n,nk,nl->kl", weights, mean, mean)
        step = np.linalg.lstsq(hessian, gradient, rcond=1e-10)[0]
        theta = theta - step
        if np.abs(step).max() < 1e-13:
            break
    return unpack(theta)


def log_x(
    method: Method, logits: Array, labels: Array, weights: Array, which: str, at: Array
) -> Array:
    """Calibrated log-posterior less log source prior, for the logits `at`, from weighted rows."""
    scale, bias = refit(method, logits, labels, weights)
    m = logits.shape[1]
    given = softmax(logits * scale + bias) if which == "soft" else np.eye(m)[labels]
    prior = weights @ given / weights.sum()
    return np.asarray(np.log(softmax(at * scale + bias)) - np.log(prior))


def jackknife_covariance(
    method: Method, logits: Array, labels: Array, which: str, at: Array, part: float
) -> Array:
    """Covariance of `log_x`, each row's influence by leaving a part of it out."""
    n = len(labels)
    influence = []
    for i in range(n):
        less = np.ones(n)
        less[i] -= part
        moved = [log_x(method, logits, labels, w, which, at) for w in (np.ones(n), less)]
        influence.append((moved[0] - moved[1]).ravel() / part)
    found = np.array(influence)
    return np.asarray(found.T @ found)


def _regularised(x: Array, weights: Array) -> Array:
    """EM with half a count of each class."""
    m = x.shape[1]
    prior = np.full(m, 1.0 / m)
    for _ in range(20_000):
        updated = x * prior
        updated /= updated.sum(axis=1, keepdims=True)
        new = (weights @ updated + 0.5) / (weights.sum() + 0.5 * m)
        if np.abs(new - prior).max() < 1e-13:
            break
        prior = new
    return prior


def _directions_of_scales(p: Array, fitted: int, bias: Array, normaliser: Array) -> list[Array]:
    """How a row's log-posterior moves with each scale, but for what all classes share."""
    logs = np.log(np.maximum(p, FLOOR))
    m = len(p)
    if fitted == m:
        return []
    if fitted == m + 1:
        return [logs]
    divided = normaliser[0] + normaliser[1:] @ logs
    return [np.eye(m)[k] * (logs[k] - bias[k] + divided) for k in range(m)]


def validation_parts(
    rows: Array, weights: Array, q: Array, source: Array, evidence: Any, which: str, bias: Array
) -> tuple[Array, Array, Array, float]:
    """Target matrix T, pull J, misfit b and count, row by row."""
    n, m = float(weights.sum()), len(source)
    fitted = evidence.soft if which == "soft" else evidence.hard
    gram, moved = np.zeros((m, m)), np.zeros((m, len(fitted)))
    for row, w in zip(rows.astype(float), weights, strict=True):
        p = np.maximum(row, FLOOR)
        g = p / source / ((p / source) @ q)
        gram += w * np.outer(g, g)
        directions = _directions_of_scales(p, len(fitted), bias, evidence.normaliser)
        for k, t in enumerate([*directions, *np.eye(m)]):
            moved[:, k] += w * g * (t - (q * g) @ t)
    counted = n + 0.5 * m
    target = np.linalg.inv((gram + np.diag(0.5 / q**2)) / counted) - np.outer(q, q)
    seen = np.zeros(m)
    for c in range(m):
        mine = np.maximum(evidence.rows[evidence.labels == c].astype(float), FLOOR) / source
        if len(mine) >= 2:
            seen += q[c] * (mine / (mine @ q)[:, None]).mean(axis=0)
    return target, target @ moved / n, target @ (seen - 1.0), counted


def interval(
    rows: Array, weights: Array, em_prior: Array, z2: float, source: Array, evidence: Any,
    which: str, bias: Array,
) -> tuple[Array, Array]:  # fmt: skip
    """The two ends, by bracketing each."""
    n, m = float(weights.sum()), len(source)
    x = np.maximum(rows.astype(float), FLOOR) / source
    q = _regularised(x, weights)
    target, pull, misfit, counted = validation_parts(
        rows, weights, q, source, evidence, which, bias
    )
    fitted = evidence.soft if which == "soft" else evidence.hard
    extra = z2 * (np.diag(pull @ fitted @ pull.T) + misfit**2)
    inside = [j for j in range(m) if n * em_prior[j] > 0.1]
    prior = np.array([em_prior[j] if j in inside else 0.0 for j in range(m)])
    prior /= prior.sum()
    g = x / (x @ prior)[:, None]
    information = (g * weights[:, None]).T @ g / n
    inverse = np.linalg.inv(information[np.ix_(inside, inside)] + 1e-9 * np.eye(len(inside)))
    low, high = np.zeros(m), np.zeros(m)
    for j in range(m):
        direction = np.zeros(m)
        if j in inside:
            place = inside.index(j)
            steep = inverse[place, place] - prior[j] ** 2
            if len(inside) > 1 and steep > 1e-12:
                direction[inside] = (inverse[place] - prior[inside] * prior[j]) / steep
            else:
                direction[j] = 1.0
        else:
            v = inverse @ information[inside, j]
            direction[inside] = -v - (1.0 - v.sum()) * prior[inside]
            direction[j] = 1.0
        r = g @ direction
        up = _end(r, weights, z2, 1.0 - prior[j])
        down = _end(-r, weights, z2, prior[j]) if j in inside else 0.0
        high[j] = min(1.0, prior[j] + np.sqrt(up**2 + extra[j]))
        wald = np.sqrt(z2 * target[j, j] / counted + extra[j])
        low[j] = max(0.0, min(prior[j] - np.sqrt(down**2 + extra[j]), prior[j] - wald))
    if len(inside) == 1:
        only = inside[0]
        low[only] = min(low[only], 1.0 - max(high[k] for k in range(m) if k != only))
    return low, high


def _end(r: Array, weights: Array, limit: float, cap: float) -> float:
    if r.min() < 0:
        cap = min(cap, (1.0 - 1e-9) / -r.min())
    if cap <= 0:
        return 0.0

    def fall(t: float) -> float:
        return float(-2.0 * (weights * np.log1p(t * r)).sum() - limit)

    return cap if fall(cap) <= 0 else float(brentq(fall, 0.0, cap, xtol=1e-14, rtol=1e-12))


def check_features(p: Array, features: Any) -> Array:
    """The features of one row, grouped already."""
    m = len(p)
    p = np.maximum(p.astype(float), FLOOR)
    logs = np.log(p)
    label = int(np.argmax(p))
    about = features.factor.T @ (logs - logs.mean() - features.centres[label])
    out = np.zeros(2 * m)
    out[: m - 1] = p[:-1]
    out[m - 1] = -(p * logs).sum()
    out[m + label] = np.log((about**2).mean() + 0.05) - features.offset
    return out


def check(rows: Array, features: Any, prior: Array) -> tuple[float, float]:
    """The probability, and the validation set's share."""
    found = np.array([check_features(row, features) for row in rows])
    m = rows.shape[1]
    summed = np.zeros((2 * m, m + 1))
    summed[:m, :m] = np.eye(m)
    summed[m:, m] = 1.0
    by_slot, _ = _hansen(found, np.eye(2 * m), features.variances[:-1], features, prior)
    variances = np.append(features.variances[:m], features.variances[-1])
    together, share = _hansen(found, summed, variances, features, prior)
    return min(1.0, 2.0 * min(by_slot, together)), share


def _hansen(
    found: Array, combine: Array, variances: Array, features: Any, prior: Array
) -> tuple[float, float]:
    values = found @ combine
    n, k = values.shape
    m, counts = len(prior), features.counts
    mean, own = values.mean(axis=0), np.cov(values.T) / n
    means = combine.T @ features.means
    within = [combine.T @ c @ combine for c in features.covariances]
    for _ in range(2):
        shares = np.maximum(prior, 0) / np.maximum(prior, 0).sum()
        total = own + sum(s**2 / c * w for s, c, w in zip(shares, counts, within, strict=True))
        total += np.diag(4.0 * variances * (1 / n**2 + ((shares / counts) ** 2).sum()))
        inverse = np.linalg.inv(total)
        # Least squares under a sum of one, by its Lagrangian.
        left = np.block([[means.T @ inverse @ means, np.ones((m, 1))], [np.ones((1, m)), 0.0]])
        prior = np.linalg.solve(left, np.append(means.T @ inverse @ mean, 1.0))[:m]
    residual = mean - means @ prior
    apart = means[:, :-1] - means[:, -1:]
    explained = inverse @ apart @ np.linalg.inv(apart.T @ inverse @ apart) @ apart.T @ inverse
    leaves, freedom = inverse - explained, k - m + 1
    parts = [
        s**2 / c * np.trace(leaves @ w) / freedom
        for s, c, w in zip(shares, counts, within, strict=True)
    ]
    noise = sum(part**2 / max(c - 1, 1) for part, c in zip(parts, counts, strict=True))
    noise += (np.trace(leaves @ own) / freedom) ** 2 / (n - 1)
    size = max(1.0 / noise, freedom + 3)
    statistic = residual @ inverse @ residual * (size - freedom + 1) / (size * freedom)
    return float(f_law.sf(statistic, freedom, size - freedom + 1)), float(sum(parts))
