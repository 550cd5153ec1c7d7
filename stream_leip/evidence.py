"""From calibrated validation rows to the evidence that intervals, alarm and check need."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stream_leip.arrays import Labels, Matrix, Rows, Vector
from stream_leip.calibration import Calibrator
from stream_leip.validation import ClassFeatures, Evidence

KEPT = 2000
GROUPS = 50
FEWEST = 3
FLOOR = 1e-12
_FOLDS = 10
_RIDGE = 1e-3
_LEAST_SPREAD = 1e-3
_NEAREST = 0.05


def gather(
    rows: Rows, labels: Labels, logits: Matrix, calibrator: Calibrator, seed: int
) -> Evidence:
    """Evidence from calibrated rows, their labels, and the logits they were made of."""
    posterior = _posterior(rows)
    fitted = _Fitted.of(posterior, labels, logits, calibrator)
    kept = _keep(labels, posterior.shape[1], np.random.default_rng(seed))
    hard = fitted.covariance(fitted.hard_influence())
    # With biases the mean posterior is the share of the labels, whatever the rows.
    same = calibrator.method in ("BCTS", "VS")
    return Evidence(
        np.cov(posterior.T),
        hard if same else fitted.covariance(fitted.soft_influence()),
        hard,
        _predict_normaliser(posterior, logits, calibrator),
        rows[kept],
        labels[kept],
        class_features(posterior, labels, seed),
    )


def _keep(labels: Labels, m: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Random rows, in order: half the room is shared evenly between the classes."""
    n = len(labels)
    if n <= KEPT:
        return np.arange(n)
    shuffled = rng.permutation(n)
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    count = np.bincount(labels, minlength=m)
    rank = np.arange(n) - np.repeat(np.cumsum(count) - count, count)
    first = by_class[rank < max(1, KEPT // (2 * m))][:KEPT]
    rest = shuffled[~np.isin(shuffled, first)]
    return np.sort(np.concatenate([first, rest[: KEPT - len(first)]]))


@dataclass(frozen=True, eq=False)
class _Fitted:
    """How each validation row pulls at the calibrator's parameters: pinv(information) · score.

    A row that pulls the fit towards itself looks better fitted than it is; dividing by one less its
    leverage makes up for that (as in a jackknife), which matters where many parameters were fitted
    to few rows.

    The parameters are the scales, then, where the method has them, the biases. A scale's direction
    is the logarithm of the row for a scale in common (as good as the logits when there are biases,
    and the same but for a factor when there are none), and scale · logit for one of its own.
    """

    posterior: Matrix
    labels: Labels
    scales: int
    information: Matrix
    influence: Matrix

    @classmethod
    def of(
        cls, posterior: Matrix, labels: Labels, logits: Matrix, calibrator: Calibrator
    ) -> "_Fitted":
        m = posterior.shape[1]
        residual = -posterior
        residual[np.arange(len(labels)), labels] += 1.0
        method = calibrator.method
        scales = {"none": 0, "TS": 1, "BCTS": 1, "NBVS": m, "VS": m}[method]
        if scales == m:
            score, information = _own_scales(posterior, residual, calibrator.scale * logits)
        else:
            score, information = _one_scale(posterior, residual, np.log(posterior))
        score, information = (
            score[:, -(scales + m) :],
            information[-(scales + m) :, -(scales + m) :],
        )
        fitted = slice(0, scales + (m if method in ("BCTS", "VS") else 0))
        influence = np.zeros_like(score)
        if fitted.stop:
            inverse = np.linalg.pinv(information[fitted, fitted], rcond=1e-9, hermitian=True)
            influence[:, fitted] = score[:, fitted] @ inverse
            pulled = np.einsum("ij,ij->i", score, influence) / len(labels)
            influence /= 1.0 - _leverage(pulled, posterior[np.arange(len(labels)), labels])[:, None]
        return cls(posterior, labels, scales, information, influence)

    def soft_influence(self) -> Matrix:
        """On each class's mean posterior: the row's own, and through the calibrator."""
        moved = self.influence @ self.information[:, self.scales :]
        mean = self.posterior.mean(axis=0)
        found: Matrix = (self.posterior - mean + moved) / mean
        return found

    def hard_influence(self) -> Matrix:
        """On each class's share of the labels."""
        m = self.posterior.shape[1]
        share = np.bincount(self.labels, minlength=m) / len(self.labels)
        found: Matrix = np.eye(m)[self.labels] / share - 1.0
        return found

    def covariance(self, of_log_prior: Matrix) -> Matrix:
        """Of the scales, and of each class's bias less the logarithm of its prior."""
        influence = self.influence.copy()
        influence[:, self.scales :] -= of_log_prior
        found: Matrix = influence.T @ influence / float(len(influence)) ** 2
        return found


def _leverage(pulled: Vector, likelihood: Vector) -> Vector:
    """How far each row is fitted by itself, along its residual: its pull over Pearson's χ²."""
    return np.clip(pulled * likelihood / np.maximum(1.0 - likelihood, FLOOR), 0.0, 0.9)


def _one_scale(posterior: Matrix, residual: Matrix, direction: Matrix) -> tuple[Matrix, Matrix]:
    """Scores by row, and mean information, of a scale in common and of a bias for each class."""
    weighted = posterior * direction
    level = weighted.sum(axis=1, keepdims=True)
    among = np.array([[np.mean((weighted * direction).sum(axis=1) - level[:, 0] ** 2)]])
    across = (weighted - posterior * level).mean(axis=0)[None, :]
    score = np.concatenate([(residual * direction).sum(axis=1, keepdims=True), residual], axis=1)
    return score, _blocks(among, across, posterior)


def _own_scales(posterior: Matrix, residual: Matrix, direction: Matrix) -> tuple[Matrix, Matrix]:
    """The same of a scale and a bias for each class."""
    weighted = posterior * direction
    n = len(posterior)
    among = np.diag((weighted * direction).mean(axis=0)) - weighted.T @ weighted / n
    across = np.diag(weighted.mean(axis=0)) - weighted.T @ posterior / n
    score = np.concatenate([residual * direction, residual], axis=1)
    return score, _blocks(among, across, posterior)


def _blocks(among: Matrix, across: Matrix, posterior: Matrix) -> Matrix:
    biases = np.diag(posterior.mean(axis=0)) - posterior.T @ posterior / len(posterior)
    return np.block([[among, across], [across.T, biases]])


def _predict_normaliser(posterior: Matrix, logits: Matrix, calibrator: Calibrator) -> Vector:
    """Least squares, each row by how unsure it is: sure rows tell nothing of their scales."""
    if calibrator.method not in ("NBVS", "VS"):
        return np.empty(0)
    log_rows = np.log(posterior)
    values = logits * calibrator.scale + calibrator.bias
    top = posterior.argmax(axis=1)
    rows = np.arange(len(top))
    divided = values[rows, top] - log_rows[rows, top]
    weight = np.sqrt(1.0 - (posterior**2).sum(axis=1) + 1e-6)
    design = np.concatenate([np.ones((len(top), 1)), log_rows], axis=1)
    found: Vector = np.linalg.lstsq(design * weight[:, None], divided * weight, rcond=1e-9)[0]
    return found


def keep_entries(rows: Rows, k: int, spread: Vector) -> Rows:
    """Rows of which the `k` largest entries are known, and the rest spread over the others."""
    inside = np.argpartition(-rows, min(k, rows.shape[1]) - 1, axis=1)[:, :k]
    entries = np.take_along_axis(rows, inside, axis=1)
    rest = np.maximum(1.0 - entries.sum(axis=1, dtype=np.float64), 0.0)
    others = np.maximum(1.0 - spread[inside].sum(axis=1), FLOOR)
    out: Rows = ((rest / others)[:, None] * spread).astype(np.float32)
    np.put_along_axis(out, inside, entries, axis=1)
    return out


def truncate(evidence: Evidence, k: int, spread: Vector, seed: int) -> Evidence:
    """The evidence for streams that keep `k` entries of a row: the kept rows, so treated.

    A row of few entries looks odd beside full ones, and estimates from them are off by what the
    other entries would have told; seen on validation rows of as few entries, neither is a surprise.
    """
    rows = keep_entries(evidence.rows, k, spread)
    features = class_features(_posterior(rows), evidence.labels, seed, evidence.features.groups)
    return replace(evidence, rows=rows, features=features)


def _posterior(rows: Rows) -> Matrix:
    posterior = np.maximum(rows.astype(np.float64), FLOOR)
    posterior /= posterior.sum(axis=1, keepdims=True)
    return posterior


def class_features(
    posterior: Matrix, labels: Labels, seed: int, groups: NDArray[np.int64] | None = None
) -> ClassFeatures:
    """The assumption check's view of the validation rows."""
    n, m = posterior.shape
    counts = np.bincount(labels, minlength=m)
    groups = group_classes(counts) if groups is None else groups
    g = int(groups.max()) + 1
    if g < m:
        posterior = _sum_groups(posterior, groups, g)
    logs = np.log(posterior)
    centred = logs - logs.mean(axis=1, keepdims=True)
    predicted = posterior.argmax(axis=1)
    # Scored without their own fold, so that validation rows are as strange as any other.
    folds = np.random.default_rng(seed).permutation(n) % _FOLDS
    atypical = np.empty(n)
    for fold in range(_FOLDS):
        held = folds == fold
        if held.any():
            typical = _typical(centred[~held], predicted[~held], g)
            atypical[held] = _score(centred[held], predicted[held], *typical)
    offset = float(atypical.mean())
    features = np.zeros((n, 2 * g))
    features[:, : g - 1] = posterior[:, :-1]
    features[:, g - 1] = -np.einsum("ij,ij->i", posterior, logs)
    features[np.arange(n), g + predicted] = atypical - offset
    means = np.tile(features.mean(axis=0)[:, None], m)
    for c in np.flatnonzero(counts):
        means[:, c] = features[labels == c].mean(axis=0)
    covariances = _within(features - means.T[labels], groups, labels)
    centres, factor = _typical(centred, predicted, g)
    variances = np.append(features.var(axis=0), atypical.var())
    return ClassFeatures(groups, centres, factor, offset, means, covariances, variances, counts)


def _within(about: Matrix, groups: NDArray[np.int64], labels: Labels) -> NDArray[np.float64]:
    """Covariance within the classes of each group, from rows less their class's mean."""
    pooled = about.T @ about / max(1, len(about) - len(np.unique(labels)))
    found = np.tile(pooled, (int(groups.max()) + 1, 1, 1))
    for c in range(len(found)):
        here = about[groups[labels] == c]
        free = len(here) - len(np.unique(labels[groups[labels] == c]))
        if len(here) >= FEWEST and free >= FEWEST - 1:
            found[c] = here.T @ here / free
    return found


def group_classes(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each class on its own, or the largest ones and, last, a group of the rest."""
    m = len(counts)
    if m <= GROUPS:
        return np.arange(m)
    groups = np.full(m, GROUPS - 1)
    largest = np.sort(np.argsort(-counts, kind="stable")[: GROUPS - 1])
    groups[largest] = np.arange(GROUPS - 1)
    return groups


def _sum_groups(posterior: Matrix, groups: NDArray[np.int64], g: int) -> Matrix:
    member = np.zeros((len(groups), g))
    member[np.arange(len(groups)), groups] = 1.0
    summed: Matrix = posterior @ member
    return summed


def _typical(centred: Matrix, predicted: Labels, g: int) -> tuple[Matrix, Matrix]:
    """Centres of the predicted classes, and the factor of the inverse covariance about them."""
    centres = np.tile(centred.mean(axis=0), (g, 1))
    for c in range(g):
        here = predicted == c
        if here.sum() >= FEWEST:
            centres[c] = centred[here].mean(axis=0)
    about = centred - centres[predicted]
    within = about.T @ about / max(1, len(centred) - g)
    # Where log-rows do not vary at all, rounding must not pass for how much they do.
    size = max(float(np.trace(within)) / g, _LEAST_SPREAD)
    within += _RIDGE * size * np.eye(g)
    return centres, np.linalg.cholesky(np.linalg.inv(within))


def _score(centred: Matrix, predicted: Labels, centres: Matrix, factor: Matrix) -> Vector:
    about = (centred - centres[predicted]) @ factor
    found: Vector = np.log((about * about).mean(axis=1) + _NEAREST)
    return found
