"""fit_profile: from labelled validation scores to a source profile."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_leip.arrays import Kind, Labels, Matrix, Rows, Scores, Vector
from stream_leip.calibration import (
    FOLDS,
    METHODS,
    Calibrator,
    Method,
    apply,
    as_logits,
    choose_method,
    ece,
    fit_calibrator,
    folds_by_label,
    kept_rows,
    nll,
)
from stream_leip.errors import InputError
from stream_leip.estimators.auto import CANDIDATES
from stream_leip.evidence import gather
from stream_leip.profile import ReplayErrors, SourceProfile
from stream_leip.rows import ScoresLike, as_scores, frame_columns, is_frame, require
from stream_leip.validation import Validation

Progress = Callable[[int, int], None]
Fit = Callable[[Matrix, Labels], Calibrator]

ALPHAS = (0.1, 1.0, 10.0)
SIZES = (200, 1000, 5000)
DRAWS = 20


def fit_profile(
    scores: ScoresLike,
    labels: ArrayLike,
    classes: Sequence[object] | None = None,
    kind: Kind = "logits",
    calibration: Method | Literal["auto"] = "BCTS",
    seed: int = 0,
    progress: Progress | None = None,
) -> SourceProfile:
    """Fit a source profile to labelled validation scores.

    Parameters
    ----------
    scores
        A 2-D array, a list of lists, a list of dicts by class name, or a data frame with a column
        for each class.
    labels
        The true class of each row: a class name, or its column. Integers are columns, unless the
        class names are integers themselves.
    classes
        Names in the order of the columns; the names of the dicts or the frame, or "0", "1", …,
        unless given.
    kind
        "logits" or "probabilities"; every later entrance takes the same.
    calibration
        "none", "TS", "BCTS", "NBVS", "VS", or "auto" for the best by cross-validation.
    seed
        Of folds and replays.
    progress
        Called with how many of how many replays are done.

    Raises
    ------
    InputError
        If scores or labels cannot be used: the message says which, and what to do.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip import fit_profile
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(3, size=900)
    >>> logits = 4.0 * np.eye(3)[labels] + rng.normal(size=(900, 3))
    >>> profile = fit_profile(logits, labels, classes=["cat", "dog", "fox"])
    >>> profile.accuracy > 0.99
    True
    """
    _check_settings(kind, calibration, seed)
    names = _class_names(scores, classes)
    checked = as_scores(scores, names, kind)
    truth = _label_columns(labels, names, len(checked))
    if kind == "logits":
        _refuse_probabilities(checked)
    logits = as_logits(checked, kind)
    method = choose_method(logits, truth, seed) if calibration == "auto" else calibration
    data = Labelled(checked, logits, truth, names, kind)
    return replace(
        fit_source(data, method, int(seed)),
        replay=judge(data, partial(fit_calibrator, method), seed, progress=progress),
    )


def fit_source(data: "Labelled", method: Method, seed: int) -> SourceProfile:
    """The profile of checked data, without judging estimators on replays of them."""
    return describe_source(data, fit_calibrator(method, data.logits, data.labels), seed)


def describe_source(data: "Labelled", calibrator: Calibrator, seed: int) -> SourceProfile:
    """The same, with a calibrator that is fitted already."""
    profile = _describe(data, calibrator, ReplayErrors((), {}), seed)
    rows = profile.rows(data.scores)
    return replace(profile, known=gather(rows, data.labels, data.logits, calibrator, seed))


def renew_source(before: SourceProfile, data: "Labelled", calibrator: Calibrator) -> SourceProfile:
    """A profile with the calibrator, priors and recalls of newer data, and all else as it was."""
    found = _describe(data, calibrator, before.replay, before.seed)
    return replace(found, known=before.known)


@dataclass(frozen=True)
class Labelled:
    """Checked validation data."""

    scores: Scores
    logits: Matrix
    labels: Labels
    classes: tuple[str, ...]
    kind: Kind

    def part(self, mask: NDArray[np.bool_]) -> "Labelled":
        """Some of the rows."""
        return replace(
            self, scores=self.scores[mask], logits=self.logits[mask], labels=self.labels[mask]
        )


def _describe(
    data: Labelled, calibrator: Calibrator, errors: ReplayErrors, seed: int
) -> SourceProfile:
    n, m = data.logits.shape
    rows = require(data.scores, data.classes, data.kind, calibrator)
    hard = np.zeros((m, m))
    np.add.at(hard, (rows.argmax(axis=1), data.labels), 1.0 / n)
    # Some class may get no mass at all; its prior must still divide.
    posterior = np.maximum(rows.astype(np.float64), 1e-12)
    posterior /= posterior.sum(axis=1, keepdims=True)
    soft = np.stack([np.bincount(data.labels, by, minlength=m) for by in posterior.T]) / n
    plain = apply(Calibrator("none", np.ones(m), np.zeros(m)), data.logits)
    calibrated = apply(calibrator, data.logits)
    validation = Validation(
        n=n,
        hard=hard,
        soft=soft,
        nll=(nll(plain, data.labels), nll(calibrated, data.labels)),
        ece=(ece(plain, data.labels), ece(calibrated, data.labels)),
    )
    return SourceProfile(data.classes, data.kind, calibrator, validation, errors, seed)


def judge(
    data: Labelled,
    fit: Fit,
    seed: int,
    draws: int = DRAWS,
    sizes: tuple[int, ...] = SIZES,
    progress: Progress | None = None,
) -> ReplayErrors:
    """Judge the candidates of `Auto` on Dirichlet shifts of held-out folds."""
    rng = np.random.default_rng(seed)
    m = len(data.classes)
    total = FOLDS * len(ALPHAS) * len(sizes) * draws
    sums = {name: np.zeros(len(sizes)) for name in CANDIDATES}
    done = 0
    for held_out in folds_by_label(data.labels, rng):
        kept = data.part(kept_rows(data.labels, held_out))
        calibrator = fit(kept.logits, kept.labels)
        source = _describe(kept, calibrator, ReplayErrors((), {}), seed)
        rows = source.rows(data.scores[held_out])
        pools = _pools(data.labels[held_out], m)
        for place, size in enumerate(sizes):
            for alpha in np.repeat(ALPHAS, draws):
                prior = rng.dirichlet(np.full(m, alpha))
                drawn = _draw(rows, pools, prior, size, rng)
                for name, estimator in CANDIDATES.items():
                    found = estimator.estimate(drawn, source).prior
                    sums[name][place] += 0.5 * float(np.abs(found - prior).sum())
                done += 1
                if progress is not None:
                    progress(done, total)
    each = total / len(sizes)
    return ReplayErrors(sizes, {name: tuple((by / each).tolist()) for name, by in sums.items()})


def _pools(labels: Labels, m: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows sorted by label, and where each label's rows begin."""
    return np.argsort(labels, kind="stable"), np.searchsorted(np.sort(labels), np.arange(m + 1))


def _draw(
    rows: Rows,
    pools: tuple[NDArray[np.int64], NDArray[np.int64]],
    prior: Vector,
    size: int,
    rng: np.random.Generator,
) -> Rows:
    """Rows with replacement, their classes by `prior`."""
    order, begin = pools
    label = np.repeat(np.arange(len(prior)), rng.multinomial(size, prior))
    width = np.diff(begin)[label]
    return rows[order[begin[label] + (rng.random(size) * width).astype(np.int64)]]


def _check_settings(kind: object, calibration: object, seed: object) -> None:
    if kind not in ("logits", "probabilities"):
        raise InputError(f'kind: {kind!r} is unknown; use "logits" or "probabilities"')
    if calibration != "auto" and calibration not in METHODS:
        raise InputError(
            f"calibration: {calibration!r} is unknown; use one of {', '.join(METHODS)} or auto"
        )
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
        raise InputError(f"seed: {seed!r}; use a whole number of at least zero")


def _require_batch(scores: ScoresLike) -> None:
    """Refuse what has no rows to count classes by; the gate refuses the rest."""
    if np.ndim(scores) == 0 if isinstance(scores, np.ndarray) else not isinstance(scores, Sequence):
        raise InputError(
            f"scores: a {type(scores).__name__} is no batch of rows; pass a 2-D array, lists, or "
            "dicts by class name"
        )
    if len(scores) == 0:
        raise InputError("scores: there are none; a profile needs validation rows of every class")


def _class_names(scores: ScoresLike, classes: Sequence[object] | None) -> tuple[str, ...]:
    if is_frame(scores):
        classes = list(frame_columns(scores)) if classes is None else classes
    else:
        _require_batch(scores)
    if classes is None:
        first = scores[0]  # type: ignore[index]  # a frame has its names
        if isinstance(first, Mapping):
            names = tuple(map(_name, first))
        elif hasattr(first, "__len__") and not isinstance(first, str):
            names = tuple(map(str, range(len(first))))
        else:
            raise InputError(
                "scores: not rows × classes; pass a 2-D array, lists, or dicts by class name"
            )
    elif isinstance(classes, str) or not isinstance(classes, Iterable):
        raise InputError(f"classes: {classes!r}; give a list of names, one for each column")
    else:
        names = tuple(map(_name, classes))
    if len(names) < 2:
        raise InputError(f"classes: {list(names)}: there must be at least two")
    if len(names) > np.iinfo(np.uint16).max:
        raise InputError(f"classes: {len(names)} are more than the 65535 that labels can count")
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise InputError(f"classes: {name!r} stands {times} times; give each a name of its own")
    return names


def _name(given: object) -> str:
    """A class's name; 3.0 is the class 3."""
    if isinstance(given, float | np.floating) and float(given).is_integer():
        return str(int(given))
    return str(given)


def _label_columns(labels: ArrayLike, classes: tuple[str, ...], n: int) -> Labels:
    try:
        given = np.asarray(labels)
    except ValueError as error:
        raise InputError(f"labels: not one for each row ({error})") from error
    if given.ndim != 1:
        raise InputError(f"labels: the array has {given.ndim} dimensions, not 1; one label a row")
    if len(given) != n:
        raise InputError(f"labels: {len(given)} labels for {n} rows of scores; give one a row")
    if given.dtype.kind == "f":
        odd = np.flatnonzero(~((given == np.floor(given)) & (np.abs(given) < 2**31)))
        if len(odd):
            raise InputError(
                f"labels: label {given[odd[0]]} of row {odd[0]} is no class or column; "
                "give class names or columns"
            )
        given = given.astype(np.int64)
    integers = np.issubdtype(given.dtype, np.integer)
    if not integers or all(name.lstrip("-").isdigit() for name in classes):
        column = {name: j for j, name in enumerate(classes)}
        unique, inverse = np.unique(given.astype(str), return_inverse=True)
        unknown = [name for name in unique if name not in column]
        if unknown:
            raise InputError(
                f"labels: {str(unknown[0])!r} is no class; the classes are "
                f"{', '.join(classes[:10])}{', …' if len(classes) > 10 else ''}"
            )
        truth = np.array([column[str(name)] for name in unique], np.int64)[inverse]
    else:
        truth = given.astype(np.int64)
        outside = np.flatnonzero((truth < 0) | (truth >= len(classes)))
        if len(outside):
            raise InputError(
                f"labels: label {truth[outside[0]]} of row {outside[0]} is out of range; "
                f"with {len(classes)} classes labels go from 0 to {len(classes) - 1}"
            )
    _refuse_too_few(truth, classes)
    return truth


def _refuse_too_few(truth: Labels, classes: tuple[str, ...]) -> None:
    present = np.bincount(truth, minlength=len(classes))
    if np.count_nonzero(present) == 1:
        raise InputError(
            f"labels: all {len(truth)} are {classes[int(truth[0])]!r}; "
            "validation data need rows of every class"
        )
    if len(truth) < len(classes):
        raise InputError(
            f"labels: {len(truth)} rows for {len(classes)} classes; "
            "validation data need rows of every class"
        )
    if not present.all():
        absent = [name for name, count in zip(classes, present, strict=True) if not count]
        raise InputError(
            f"labels: no validation row of class {absent[0]!r}"
            + (f" and {len(absent) - 1} more" if len(absent) > 1 else "")
            + "; add such rows, or fit without its column"
        )


def _refuse_probabilities(scores: Scores) -> None:
    if scores.min() >= 0.0 and np.allclose(scores.sum(axis=1, dtype=np.float64), 1.0, atol=1e-3):
        raise InputError(
            "scores: every row is nonnegative and sums to one, so these are probabilities; "
            'pass kind="probabilities"'
        )
