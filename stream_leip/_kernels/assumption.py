"""The assumption check: sums of features and of their products, and how well a mix fits them."""

import numpy as np
from numba import njit

from stream_leip._kernels.fast import FAST
from stream_leip._kernels.interval import FLOOR
from stream_leip._kernels.likelihood import rest_rate
from stream_leip._kernels.logs import fill_logs

_BLOCK = 64
_NEAREST = 0.05


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def _load(rows, classes, spread, groups, group_spread, members, start, size, out):
    """Rows from `start` on into `out`, an entry for each group and none below the floor."""
    k = rows.shape[1]
    g = group_spread.size
    alone = classes.size == 0 and g == k
    for b in range(size):
        i = start + b
        if alone:
            for j in range(k):
                out[b, j] = max(rows[i, j], FLOOR)
            continue
        if classes.size == 0:
            for j in range(g):
                out[b, j] = 0.0
            for j in range(k):
                out[b, groups[j]] += max(rows[i, j], FLOOR)
            continue
        rate = rest_rate(rows, classes, spread, i)
        for j in range(g):
            out[b, j] = rate * group_spread[j]
        for j in range(k):
            c = classes[i, j]
            out[b, groups[c]] += rows[i, j] - rate * spread[c]
        # As much as the classes of a group have together where each is at the floor.
        for j in range(g):
            out[b, j] = max(out[b, j], FLOOR * members[j])


@njit(cache=True, error_model="numpy", fastmath=FAST)
def feature_sums(rows, classes, spread, groups, group_spread, centres, factor, offset):
    """Sums over rows of the 2g features, and of their products.

    The features are all but the last entry of the row, its entropy, and its atypicality in the slot
    of the class it predicts. Only one slot of a row is not zero, so products of slots are diagonal.
    """
    n = rows.shape[0]
    g = group_spread.size
    total = np.zeros(2 * g)
    products = np.zeros((2 * g, 2 * g))
    held = np.empty((_BLOCK, g), np.float32)
    logs = np.empty((_BLOCK, g))
    about = np.empty((_BLOCK, g))
    plain = np.empty((_BLOCK, g))
    top = np.empty(_BLOCK, np.int64)
    members = np.zeros(g)
    for c in groups:
        members[c] += 1.0
    for start in range(0, n, _BLOCK):
        size = min(_BLOCK, n - start)
        _load(rows, classes, spread, groups, group_spread, members, start, size, held)
        fill_logs(held[:size].ravel(), logs[:size].ravel())
        for b in range(size):
            best = 0
            mean = 0.0
            entropy = 0.0
            for j in range(g):
                if held[b, j] > held[b, best]:
                    best = j
            for j in range(g):
                mean += logs[b, j]
                entropy -= held[b, j] * logs[b, j]
                plain[b, j] = held[b, j]
            mean /= g
            plain[b, g - 1] = entropy
            top[b] = best
            for j in range(g):
                about[b, j] = logs[b, j] - mean - centres[best, j]
        scaled = np.dot(about[:size], factor)
        products[:g, :g] += np.dot(plain[:size].T, plain[:size])
        for b in range(size):
            squares = 0.0
            for j in range(g):
                squares += scaled[b, j] * scaled[b, j]
            score = np.log(squares / g + _NEAREST) - offset
            slot = g + top[b]
            total[slot] += score
            products[slot, slot] += score * score
            for j in range(g):
                total[j] += plain[b, j]
                products[slot, j] += score * plain[b, j]
    for a in range(g, 2 * g):
        for j in range(g):
            products[j, a] = products[a, j]
    return total, products


@njit(cache=True, error_model="numpy", fastmath=False)
def _invert(gram):
    """The inverse on the directions in which classes differ at all, and how many these are."""
    values, vectors = np.linalg.eigh(gram)
    rank = 0
    for value in values:
        if value > 1e-10 * values[-1]:
            rank += 1
    some = np.ascontiguousarray(vectors[:, values.size - rank :])
    return np.dot(some / values[values.size - rank :], some.T), rank


@njit(cache=True, error_model="numpy", fastmath=False)
def misfit(
    total, products, n, combine, means, mix, covariances, variances, prior, counts, ridge, rounds
):
    """How badly the best mix of class means fits a mean: squared deviations in all.

    Also their degrees of freedom, what the covariance's own error is, and the share of the
    covariance that the classes' means cause.

    Parameters
    ----------
    total, products, n
        Sums over n rows of the features, and of their products.
    combine
        Features × k: what of them is looked at.
    means, mix
        Of the classes, k × classes; and how the m groups are mixed of classes.
    covariances, variances
        Of the groups, m × k², and how much a feature varies in all.
    prior, counts
        The mix to begin with, and the rows behind each group's mean.
    ridge, rounds
        Ridge in units of what one row says, and how often the mix is found anew.
    """
    whole = total / n
    own = (products - n * np.outer(whole, whole)) / (n * (n - 1.0))
    mean = np.dot(whole, combine)
    own = np.dot(np.dot(combine.T, own), combine)
    means = np.dot(means, mix)
    k = mean.size
    m = counts.size
    apart = np.empty((k, m - 1))
    for j in range(m - 1):
        apart[:, j] = means[:, j] - means[:, m - 1]
    rest = mean - means[:, m - 1]
    weight = np.empty(m)
    shares = np.empty(m)
    found = np.empty(m - 1)
    for _ in range(rounds):
        for j in range(m):
            shares[j] = max(prior[j], 0.0)
        shares /= shares.sum()
        weight = shares**2 / counts
        joint = own + np.dot(weight, covariances).reshape(k, k)
        more = ridge * (1.0 / n**2 + ((shares / counts) ** 2).sum())
        for i in range(k):
            joint[i, i] += more * variances[i]
        root = np.linalg.inv(np.linalg.cholesky(joint))
        turned = np.dot(root, apart)
        target = np.dot(root, rest)
        inverse, rank = _invert(np.dot(turned.T, turned))
        found = np.dot(inverse, np.dot(turned.T, target))
        prior = np.append(found, 1.0 - found.sum())
    left = target - np.dot(turned, found)
    freedom = k - rank
    leaves = np.dot(root.T, root - np.dot(turned, np.dot(inverse, np.dot(turned.T, root))))
    by_class = weight * np.dot(covariances, leaves.ravel()) / freedom
    by_target = (leaves * own).sum() / freedom
    noise = (by_class**2 / np.maximum(counts - 1.0, 1.0)).sum() + by_target**2 / (n - 1.0)
    return np.dot(left, left), freedom, noise, by_class.sum()
