"""The gate for scores: everything that becomes a row comes through here."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_leip._kernels import gate
from stream_leip.arrays import Kind, Rows, Scores, is_number
from stream_leip.calibration import Calibrator
from stream_leip.errors import BadRowsError, InputError


class Frame(Protocol):
    """A data frame of pandas, polars or pyarrow, told by what it has: none of them is imported."""

    @property
    def columns(self) -> Any:
        """The names of the columns, or the columns."""

    def __len__(self) -> int: ...


ScoresLike: TypeAlias = NDArray[Any] | Sequence[Any] | Frame


# Where a row of scores that was set aside stood, and why.
BadRow: TypeAlias = tuple[int, str]


def convert(
    scores: ScoresLike, classes: tuple[str, ...], kind: Kind, calibrator: Calibrator
) -> tuple[Rows, list[BadRow]]:
    """All scores as calibrated rows, and which of these are bad (they hold zeros)."""
    matrix, misshapen = _read(scores, classes)
    rows = np.empty(matrix.shape, np.float32)
    reasons = np.empty(len(matrix), np.uint8)
    bad = gate.calibrate(
        matrix,
        kind == "logits",
        calibrator.identity,
        calibrator.scale,
        calibrator.bias,
        rows,
        reasons,
    )
    if not bad:
        return rows, []
    return rows, [
        (int(i), misshapen.get(int(i)) or _explain(matrix[i], int(reasons[i]), classes))
        for i in np.flatnonzero(reasons)
    ]


def require(scores: ScoresLike, classes: tuple[str, ...], kind: Kind, by: Calibrator) -> Rows:
    """All scores as rows; BadRowsError if one is bad."""
    rows, bad = convert(scores, classes, kind, by)
    if bad:
        first, reason = bad[0]
        raise BadRowsError(first, len(bad), len(rows), reason)
    return rows


def screen(
    scores: ScoresLike, classes: tuple[str, ...], kind: Kind, by: Calibrator
) -> tuple[Rows, list[BadRow]]:
    """The good rows, and the bad ones with their reasons."""
    rows, bad = convert(scores, classes, kind, by)
    if bad:
        rows = np.delete(rows, [index for index, _ in bad], axis=0)
    return rows, bad


def as_scores(scores: ScoresLike, classes: tuple[str, ...], kind: Kind) -> Scores:
    """Checked scores that are not yet rows, for fitting."""
    uncalibrated = Calibrator("none", np.ones(len(classes)), np.zeros(len(classes)))
    require(scores, classes, kind, uncalibrated)
    return _read(scores, classes)[0]


def check_rows(rows: NDArray[Any], classes: int) -> Rows:
    """Rows as an estimator takes them: 2-D, float32, in C order, some."""
    if getattr(rows, "ndim", None) != 2:
        raise InputError(
            f"rows: {_describe(rows)} is not a 2-D array; make rows with profile.rows(scores)"
        )
    if rows.dtype.kind != "f":
        raise InputError(
            f"rows: the type is {rows.dtype}, not float32; make rows with profile.rows(scores)"
        )
    if rows.shape[1] != classes:
        raise InputError(
            f"rows: {rows.shape[1]} columns, but the profile has {classes} classes; "
            "make rows with this profile's rows(scores)"
        )
    if len(rows) == 0:
        raise InputError("rows: there are none; an estimate needs at least one row")
    with np.errstate(over="ignore"):  # what overflows is refused as no distribution
        return np.ascontiguousarray(rows, np.float32)


def check_distributions(rows: Rows) -> None:
    """Refuse rows of which some is not finite, nonnegative and of sum one."""
    bad = gate.first_bad(rows)
    if bad >= 0:
        raise InputError(
            f"rows: row {bad} is not a distribution: {_brief(rows[bad])}; "
            "make rows with profile.rows(scores)"
        )


def _read(scores: ScoresLike, classes: tuple[str, ...]) -> tuple[Scores, dict[int, str]]:
    """Scores as a float matrix; lines that cannot be one hold NaN, with their reason."""
    if isinstance(scores, np.ma.MaskedArray):
        # What is masked has no score; its row is bad by the NaN.
        scores = np.ma.filled(scores.astype(np.float64), np.nan)
    if isinstance(scores, np.ndarray) and scores.dtype != object:
        return _read_array(scores, classes), {}
    if is_frame(scores):
        return _read_frame(scores, classes), {}
    if isinstance(scores, str | bytes | Mapping) or not hasattr(scores, "__len__"):
        raise InputError(
            f"scores: {_describe(scores)} is not a batch of rows; pass a 2-D array, a list of "
            "lists, a list of dicts by class name (one row: a list with that row) or a frame"
        )
    # A frame, which could not be listed, went another way.
    lines = scores.tolist() if isinstance(scores, np.ndarray) else list(scores)  # type: ignore[arg-type]
    if not lines:
        return np.empty((0, len(classes))), {}
    if all(isinstance(line, Mapping) for line in lines):
        lines = _by_name(lines, classes)
    try:
        matrix = np.asarray(lines)
    except ValueError:
        return _read_lines(lines, classes)
    if matrix.dtype.kind in "fiu" and matrix.ndim == 2 and matrix.shape[1] == len(classes):
        return _native(matrix), {}
    if matrix.ndim == 1 and matrix.dtype.kind in "fiub":
        return _read_array(matrix, classes), {}
    return _read_lines(lines, classes)


def _read_array(scores: NDArray[Any], classes: tuple[str, ...]) -> Scores:
    if scores.dtype.kind not in "fiu":
        raise InputError(f"scores: an array of {scores.dtype} is not numbers; pass floats")
    if scores.ndim != 2:
        raise InputError(
            f"scores: the array has {scores.ndim} dimensions, not 2 (rows × classes); "
            "for one row pass scores[None, :]"
        )
    if scores.shape[1] != len(classes):
        raise InputError(
            f"scores: {scores.shape[1]} columns, but there are {len(classes)} classes: "
            f"{_names(classes)}"
        )
    return _native(scores)


def is_frame(scores: object) -> bool:
    """Whether these are columns with names: of pandas, polars, pyarrow, or alike."""
    return hasattr(type(scores), "columns")


def frame_columns(frame: Any) -> dict[str, Any]:
    """The columns of a frame by their names as text, and the names they go by."""
    if not hasattr(frame, "__len__"):
        raise InputError(
            f"scores: a {type(frame).__name__} has no rows yet; pass frame.collect(), say"
        )
    # pyarrow's `columns` are the columns themselves.
    return {str(name): name for name in getattr(frame, "column_names", frame.columns)}


def _read_frame(frame: Any, classes: tuple[str, ...]) -> Scores:
    """The column of each class, by name; other columns are left alone."""
    names = frame_columns(frame)
    missing = [name for name in classes if name not in names]
    if missing:
        raise InputError(
            f"scores: the frame has no column {missing[0]!r}; it has {_names(tuple(names))}, "
            f"and the classes are {_names(classes)}"
        )
    columns = [np.asarray(frame[names[name]]) for name in classes]
    for name, column in zip(classes, columns, strict=True):
        if column.ndim != 1 or column.dtype.kind not in "fiu":
            what = f"{column.dtype}, not numbers" if column.ndim == 1 else "there more than once"
            raise InputError(
                f"scores: column {name!r} of the frame is {what}; convert it to floats, or give "
                "the names of the score columns as classes"
            )
    return _native(np.column_stack(columns))


def _native(scores: NDArray[Any]) -> Scores:
    """In C order, of a float type that the kernels know; float32 stays as it is."""
    keep = scores.dtype in (np.float32, np.float16)
    return np.ascontiguousarray(scores, np.float32 if keep else np.float64)


def _by_name(lines: list[Any], classes: tuple[str, ...]) -> list[Any]:
    """Lines by class name, put in the order of the classes; those that do not fit stay dicts."""
    if len(classes) > 1 and all(len(line) == len(classes) for line in lines):
        try:
            return list(map(itemgetter(*classes), lines))
        except KeyError:
            pass  # integer keys, or a name that is none: looked at one by one
    ordered: list[Any] = []
    for line in lines:
        named = {str(name): value for name, value in line.items()}
        ordered.append([named[name] for name in classes] if named.keys() == set(classes) else line)
    return ordered


def _read_lines(lines: list[Any], classes: tuple[str, ...]) -> tuple[Scores, dict[int, str]]:
    """Line by line, for input of which some lines have no use."""
    matrix = np.full((len(lines), len(classes)), np.nan)
    misshapen: dict[int, str] = {}
    for i, line in enumerate(lines):
        if isinstance(line, Mapping):
            named = {str(name): value for name, value in line.items()}
            reason = _misnamed(named, classes)
            if reason:
                misshapen[i] = reason
                continue
            line = [named[name] for name in classes]  # noqa: PLW2901  (the same line, in order)
        try:
            values = np.asarray(line)
            fits = values.shape == (len(classes),) and values.dtype.kind in "fiu"
        except ValueError:
            fits = False
        if fits:
            matrix[i] = values
        else:
            misshapen[i] = _misfit(line, classes)
    return matrix, misshapen


def _misnamed(line: dict[str, Any], classes: tuple[str, ...]) -> str | None:
    unknown = [name for name in line if name not in classes]
    if unknown:
        return f"class {unknown[0]!r} is unknown; the classes are {_names(classes)}"
    missing = [name for name in classes if name not in line]
    if missing:
        return f"class {missing[0]!r} is missing; give a score for each of {_names(classes)}"
    return None


def _misfit(line: Any, classes: tuple[str, ...]) -> str:
    if isinstance(line, str | bytes) or not hasattr(line, "__len__"):
        return f"{_describe(line)} is not a row of numbers; give {len(classes)} scores"
    if len(line) != len(classes):
        return (
            f"{len(line)} scores for {len(classes)} classes ({_names(classes)}); "
            "give one score for each class"
        )
    odd = next((v for v in line if not is_number(v)), line)
    return f"{_describe(odd)} is not a score; give plain numbers"


def _explain(line: Scores, reason: int, classes: tuple[str, ...]) -> str:
    if reason == gate.NAN:
        name = classes[int(np.flatnonzero(np.isnan(line))[0])]
        return f"the score of class {name!r} is nan; drop the row, or mend the classifier"
    if reason == gate.INFINITE:
        place = int(np.flatnonzero(np.isinf(line))[0])
        return (
            f"the score of class {classes[place]!r} is {line[place]}; "
            "drop the row, or clip the logits to finite numbers"
        )
    if reason == gate.NEGATIVE:
        place = int(np.argmin(line))
        return (
            f"the probability of class {classes[place]!r} is {line[place]:.6g}, below zero; "
            'if these are logits, fit the profile with kind="logits"'
        )
    if reason == gate.ZERO:
        return "all probabilities are zero; drop the row, or mend the classifier"
    return (
        f"the probabilities sum to {float(np.sum(line, dtype=np.float64)):.6g}, not 1 "
        f'(within {gate.SUM_TOLERANCE}); if these are logits, fit the profile with kind="logits"'
    )


def _describe(value: object) -> str:
    text = repr(value)
    if len(text) > 40:
        text = text[:37] + "..."
    return f"{text} ({type(value).__name__})"


def _brief(values: Scores, most: int = 6) -> str:
    shown = ", ".join(f"{value:.4g}" for value in values[:most])
    return f"[{shown}{', …' if len(values) > most else ''}]"


def _names(classes: tuple[str, ...], most: int = 10) -> str:
    return ", ".join(classes[:most]) + (", …" if len(classes) > most else "")
