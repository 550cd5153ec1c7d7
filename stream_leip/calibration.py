"""Calibrators of logits: none, TS, BCTS, NBVS and VS, fitted by likelihood."""

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from stream_leip._kernels import calibration as kernel
from stream_leip._kernels.gate import LARGEST_LOGIT, LOG_FLOOR
from stream_leip.arrays import Kind, Labels, Matrix, Scores, Vector
from stream_leip.errors import InputError

Method: TypeAlias = Literal["none", "TS", "BCTS", "NBVS", "VS"]
METHODS: tuple[Method, ...] = get_args(Method)

# Separable data have no optimum: the scale, in units of the logits' spread, grows until it is this
# or the loss is as good as gone. Real calibrators are within 10.
_LIMIT = 100.0
_NO_LOSS = 1e-6
# Of the calibrator with a ridge: so many rows' worth, Newton steps, and what is near enough a row.
_RIDGE = 1.0
_STEPS = 50
_NEAR = 1e-7
FOLDS = 5


@dataclass(frozen=True, eq=False)
class Calibrator:
    """A map of logits z to scale·z + bias, before the softmax.

    Parameters
    ----------
    method
        "none", "TS" (one scale), "BCTS" (one scale, a bias for each class), "NBVS" (a scale for
        each class) or "VS" (both for each class).
    scale, bias
        One entry for each class.
    bounded
        True when the fit ended at its bounds or left no loss: the validation data are separable.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip.calibration import fit_calibrator
    >>> logits = np.array([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0], [0.0, 2.0], [1.5, 0.0], [1.0, 0.0]])
    >>> calibrator = fit_calibrator("TS", logits, np.array([0, 1, 0, 1, 1, 0]))
    >>> calibrator.scale.round(2)
    array([0.97, 0.97])
    """

    method: Method
    scale: Vector
    bias: Vector
    bounded: bool = False

    @property
    def identity(self) -> bool:
        """Whether probabilities pass through unchanged."""
        return self.method == "none"


def as_logits(scores: Scores, kind: Kind) -> Matrix:
    """Scores as float64 logits; of probabilities, their logarithms."""
    z = scores.astype(np.float64)
    np.clip(z, -LARGEST_LOGIT, LARGEST_LOGIT, out=z)
    if kind == "probabilities":
        z /= z.sum(axis=1, keepdims=True)
        np.log(np.maximum(z, LOG_FLOOR), out=z)
    return z


def fit_calibrator(method: Method, logits: Matrix, labels: Labels) -> Calibrator:
    """Fit by mean negative log-likelihood, which is convex, to its minimum."""
    if method not in METHODS:
        raise InputError(f"calibration: {method!r} is unknown; use one of {', '.join(METHODS)}")
    m = logits.shape[1]
    if method == "none":
        return Calibrator(method, np.ones(m), np.zeros(m))
    one_scale = method in ("TS", "BCTS")
    with_bias = method in ("BCTS", "VS")
    # Of the median row: a few huge logits must not set the scale for all.
    spread = float(np.median(np.std(logits, axis=1))) or 1.0
    limit = max(_LIMIT, spread)
    z = logits / spread
    scales = 1 if one_scale else m
    rows = np.arange(len(labels))

    def unpack(theta: Vector) -> tuple[Vector, Vector]:
        scale = np.broadcast_to(theta[:scales], (m,))
        return scale, theta[scales:] if with_bias else np.zeros(m)

    def loss(theta: Vector) -> tuple[float, Vector]:
        scale, bias = unpack(theta)
        v = z * scale + bias
        norm = _log_norm(v)
        value = float(np.mean(norm[:, 0] - v[rows, labels]))
        residual = np.exp(v - norm)
        residual[rows, labels] -= 1.0
        residual /= len(labels)
        by_scale = np.einsum("ij,ij->j", residual, z)
        if one_scale:
            by_scale = by_scale.sum(keepdims=True)
        by_bias = residual.sum(axis=0) if with_bias else np.empty(0)
        return value, np.concatenate([by_scale, by_bias])

    start = np.concatenate([np.full(scales, spread), np.zeros(m if with_bias else 0)])
    lowest = 0.0 if one_scale else -limit
    bounds = [(lowest, limit)] * scales + [(-limit, limit)] * (len(start) - scales)
    # Importing it takes longer than all of stream_leip, and only fitting needs it.
    from scipy.optimize import minimize  # noqa: PLC0415

    fit = minimize(
        loss,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": 5000, "maxfun": 20000, "maxcor": 20, "ftol": 1e-15, "gtol": 1e-9},
    )
    found = fit.x if fit.fun <= loss(start)[0] else start
    scale, bias = unpack(found)
    bounded = bool(fit.fun < _NO_LOSS or np.any(np.abs(found) >= limit * (1 - 1e-9)))
    return Calibrator(method, scale / spread, bias - bias.mean(), bounded)


def steady_calibrator(
    logits: Matrix, labels: Labels, start: Calibrator | None = None
) -> Calibrator:
    """BCTS with a ridge, for few rows and for fits that follow each other.

    The ridge draws the scale to one and the biases to zero as a few rows would, so that there is
    one optimum, even where rows are separable, and small changes of the rows change it little.
    Newton's method finds it in a few steps, from `start` in fewer.
    """
    m = logits.shape[1]
    home = np.zeros(m + 1)
    home[0] = 1.0
    theta = home if start is None else np.concatenate([start.scale[:1], start.bias])
    z = np.ascontiguousarray(logits.T)
    gradient, bend = np.empty(m + 1), np.empty((m + 1, m + 1))

    def value(at: Vector) -> float:
        """The loss; slopes are left in the arrays."""
        away = at - home
        loss = float(kernel.slopes(z, labels, at, gradient, bend))
        gradient[:] += _RIDGE * away
        bend[np.diag_indices(m + 1)] += _RIDGE
        return loss + 0.5 * _RIDGE * float(away @ away)

    loss = value(theta)
    for _ in range(_STEPS):
        # At zero scale a step to below it is none: only the biases move.
        fixed = theta[0] <= 0.0 and gradient[0] > 0.0
        free = slice(1 if fixed else 0, None)
        step = np.zeros(m + 1)
        step[free] = np.linalg.solve(bend[free, free], gradient[free])
        gain = float(gradient @ step)
        before, part = theta, 1.0
        theta = _stepped(before, step)
        if gain <= _NEAR * len(labels):
            break  # from here one step more squares what is left
        found = value(theta)
        while not found <= loss - 1e-4 * part * gain and part > 1e-3:
            part *= 0.5
            theta = _stepped(before, part * step)
            found = value(theta)
        loss = found
    return Calibrator("BCTS", np.full(m, theta[0]), theta[1:] - theta[1:].mean())


def _stepped(theta: Vector, step: Vector) -> Vector:
    """Where a step leads; the scale, which comes first, stays above zero."""
    found: Vector = theta - step
    found[0] = max(found[0], 0.0)
    return found


def apply(calibrator: Calibrator, logits: Matrix) -> Matrix:
    """Calibrated log-posteriors in float64, for fitting; streams go through the gate instead."""
    v = logits * calibrator.scale + calibrator.bias
    return v - _log_norm(v)


def _log_norm(v: Matrix) -> Matrix:
    """The logarithm of each row's sum of exponentials, as a column."""
    top: Matrix = v.max(axis=1, keepdims=True)
    norm: Matrix = top + np.log(np.exp(v - top).sum(axis=1, keepdims=True))
    return norm


def nll(log_posteriors: Matrix, labels: Labels) -> float:
    """Mean negative log-likelihood of the labels."""
    return float(-np.mean(log_posteriors[np.arange(len(labels)), labels]))


def ece(log_posteriors: Matrix, labels: Labels, bins: int = 15) -> float:
    """Expected calibration error of the top probability, in equal bins."""
    top = np.exp(log_posteriors.max(axis=1))
    correct = log_posteriors.argmax(axis=1) == labels
    place = np.minimum((top * bins).astype(np.int64), bins - 1)
    difference = np.bincount(place, correct - top, minlength=bins)
    return float(np.abs(difference).sum() / len(labels))


def folds_by_label(labels: Labels, rng: np.random.Generator) -> list[NDArray[np.bool_]]:
    """Masks of the held-out rows, stratified; a class of fewer than 5 rows sits in every fold."""
    place = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        if len(members) < FOLDS:
            place[members] = -1
        else:
            place[rng.permutation(members)] = np.arange(len(members)) % FOLDS
    return [(place == fold) | (place == -1) for fold in range(FOLDS)]


def kept_rows(labels: Labels, held_out: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The rows to fit on beside a held-out fold: all others, and the classes in every fold."""
    everywhere = np.bincount(labels)[labels] < FOLDS
    return ~held_out | everywhere


def choose_method(logits: Matrix, labels: Labels, seed: int) -> Method:
    """The method of least cross-validated negative log-likelihood."""
    folds = folds_by_label(labels, np.random.default_rng(seed))
    losses = dict.fromkeys(METHODS, 0.0)
    for held_out in folds:
        kept = kept_rows(labels, held_out)
        for method in METHODS:
            calibrator = fit_calibrator(method, logits[kept], labels[kept])
            held = apply(calibrator, logits[held_out])
            losses[method] += nll(held, labels[held_out]) * held_out.sum()
    return min(METHODS, key=losses.__getitem__)
