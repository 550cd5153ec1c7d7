"""Labelled scores in files, for fitting; and the example data that come with the package."""

import csv
import io
from codecs import BOM_UTF8
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_leip import InputError
from stream_leip_connectors.detection import LABEL, RESERVED, SCORES
from stream_leip_connectors.tables import ParquetFile, read_npz

KINDS = ".csv, .npz, .parquet, .jsonl"


@dataclass(frozen=True, eq=False)
class Table:
    """What a file held: scores, and labels and class names where it had them."""

    scores: NDArray[Any] | Sequence[Any]
    labels: NDArray[Any] | Sequence[Any] | None
    classes: tuple[str, ...] | None
    found: str


def read(path: Path, label: str = LABEL, classes: tuple[str, ...] | None = None) -> Table:
    """Read a file of scores.

    Parameters
    ----------
    path
        An .npz has an array `scores`, and may have `labels` and `classes`. A .csv or .parquet has a
        column for each class. A .jsonl has an object a line, with `scores`.
    label
        The column of labels.
    classes
        The columns of scores, all that have no other use unless given; of lists and arrays, the
        names of their entries.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    kind = path.suffix.lower()
    if kind == ".npz":
        return _read_npz(path, classes)
    if kind == ".csv":
        return _read_csv(path, label, classes)
    if kind in (".parquet", ".pq"):
        return _read_parquet(path, label, classes)
    if kind in (".jsonl", ".ndjson"):
        return _read_jsonl(path, label, classes)
    raise InputError(
        f"{path}: files of type {path.suffix or 'none'!r} are unknown; use one of {KINDS}"
    )


def _read_npz(path: Path, classes: tuple[str, ...] | None) -> Table:
    held = read_npz(path)
    if classes is None and "classes" in held:
        classes = tuple(map(str, held["classes"]))
    found = ", ".join(f"array {name} {array.shape}" for name, array in held.items())
    return Table(held["scores"], held.get("labels"), classes, found)


def _read_csv(path: Path, label: str, chosen: tuple[str, ...] | None) -> Table:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text: {error}") from error
    header = next(csv.reader(io.StringIO(text)), [])
    classes = _class_columns(path, header, label, chosen)
    lines = text.splitlines()[1:]
    if not any(line.strip() for line in lines):
        raise InputError(f"{path}: no row below the header")

    def column(places: list[int] | int, kind: type[float] | type[str]) -> NDArray[Any]:
        return np.loadtxt(
            lines,
            kind,
            delimiter=",",
            usecols=places,
            ndmin=1 if isinstance(places, int) else 2,
            quotechar='"',
            comments=None,
        )

    try:
        scores = column([header.index(name) for name in classes], float)
        labels = column(header.index(label), str) if label in header else None
    except ValueError as error:
        raise InputError(
            f"{path}: {error} (rows count from the header). The columns read as scores are "
            f"{', '.join(classes[:10])}; name others with --classes"
        ) from error
    return Table(scores, labels, classes, _found(classes, label if labels is not None else None))


def _read_parquet(path: Path, label: str, chosen: tuple[str, ...] | None) -> Table:
    file = ParquetFile(path)
    lists = SCORES in file.names and not set(chosen or ()) & set(file.names)
    classes = chosen if lists else _class_columns(path, file.names, label, chosen)
    wanted = [SCORES] if classes is None or lists else list(classes)
    labelled = label in file.names
    parts = list(file.batches([*wanted, label] if labelled else wanted))
    if not parts:
        raise InputError(f"{path}: no rows in it")
    columns = {name: [part[name] for part in parts] for name in parts[0]}
    if classes is None or lists:
        scores = np.concatenate(columns[SCORES])
    else:
        try:
            each = [np.concatenate(columns[name]).astype(np.float64) for name in classes]
        except ValueError as error:
            raise InputError(
                f"{path}: {error}. The columns read as scores are {', '.join(classes[:10])}; "
                "name others with --classes"
            ) from error
        scores = np.column_stack(each)
    labels = np.concatenate([np.asarray(part) for part in columns[label]]) if labelled else None
    return Table(scores, labels, classes, _found(classes, label if labelled else None))


def _read_jsonl(path: Path, label: str, classes: tuple[str, ...] | None) -> Table:
    scores: list[Any] = []
    labels: list[Any] = []
    text = path.read_bytes().removeprefix(BOM_UTF8)
    for number, line in enumerate(text.split(b"\n"), 1):
        if not line or line.isspace():
            continue
        try:
            event = msgspec.json.decode(line, type=dict[str, Any])
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise InputError(f"{path}: line {number}: not a JSON object: {error}") from error
        if SCORES not in event:
            raise InputError(
                f"{path}: line {number}: no field {SCORES!r}; found {', '.join(event)}"
            )
        scores.append(event[SCORES])
        if label in event:
            labels.append(event[label])
    if not scores:
        raise InputError(f"{path}: no events in it")
    if labels and len(labels) < len(scores):
        raise InputError(f"{path}: {len(scores) - len(labels)} lines have no field {label!r}")
    if classes is None and isinstance(scores[0], dict):
        classes = tuple(scores[0])
    return Table(scores, labels or None, classes, _found(classes, label if labels else None))


def _class_columns(
    path: Path, header: Sequence[str], label: str, chosen: tuple[str, ...] | None
) -> tuple[str, ...]:
    if chosen is not None:
        missing = [name for name in chosen if name not in header]
        if missing:
            raise InputError(
                f"{path}: there is no column {missing[0]!r}; found {', '.join(header)}"
            )
        return chosen
    classes = tuple(name for name in header if name not in RESERVED | {label})
    if len(classes) < 2:
        raise InputError(
            f"{path}: the header names {len(classes)} classes: {list(header)}; "
            f"name each class's column, and {label!r} for the true class"
        )
    return classes


def _found(classes: tuple[str, ...] | None, label: str | None) -> str:
    names = "lists of scores"
    if classes is not None:
        shown = ", ".join(classes[:10]) + (", …" if len(classes) > 10 else "")
        names = f"{len(classes)} classes: {shown}"
    return f"{names}; " + (f"labels in {label!r}" if label is not None else "no labels")


@dataclass(frozen=True, eq=False)
class Example:
    """Logits of a small MNIST network: labelled validation rows, and test rows to draw from."""

    val_logits: NDArray[np.float32]
    val_labels: NDArray[np.uint8]
    test_logits: NDArray[np.float32]
    test_labels: NDArray[np.uint8]

    def draw(self, prior: list[float], n: int, seed: int = 0) -> NDArray[np.float32]:
        """Logits of `n` test rows, drawn with replacement so that their classes follow `prior`."""
        rng = np.random.default_rng(seed)
        shares = np.asarray(prior) / np.bincount(self.test_labels, minlength=len(prior))
        weight = shares[self.test_labels]
        return self.test_logits[rng.choice(len(weight), n, p=weight / weight.sum())]


def example() -> Example:
    """The data of the demonstration.

    Examples
    --------
    >>> from stream_leip_connectors.files import example
    >>> example().val_logits.shape
    (2000, 10)
    """
    with files("stream_leip_connectors").joinpath("data/mnist.npz").open("rb") as file:
        return Example(**np.load(file))
