"""Scores and labels in files: .npz and .csv; and the example data that come with the package."""

import csv
import io
import zipfile
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_leip import InputError

LABEL = "label"


@dataclass(frozen=True, eq=False)
class Table:
    """What a file held: scores, and labels and class names where it had them."""

    scores: NDArray[Any]
    labels: NDArray[Any] | None
    classes: tuple[str, ...] | None


def read(path: Path) -> Table:
    """Read a file of scores.

    An .npz has an array `scores`, and may have `labels` and `classes`. A .csv has a header that
    names the classes, and may have a column `label`.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    if path.suffix == ".npz":
        return _read_npz(path)
    if path.suffix == ".csv":
        return _read_csv(path)
    raise InputError(
        f"{path}: files of type {path.suffix or 'none'!r} are unknown; use .npz or .csv"
    )


def _read_npz(path: Path) -> Table:
    try:
        with zipfile.ZipFile(path), np.load(path, allow_pickle=False) as data:
            held = {name: data[name] for name in data.files}
    except Exception as error:  # numpy raises whatever the parsers behind it do
        raise InputError(f"{path}: not a readable .npz file: {error}") from error
    if "scores" not in held:
        found = ", ".join(held) or "nothing"
        raise InputError(
            f"{path}: no array 'scores'; found {found}. Save it with np.savez(scores=…)"
        )
    if "classes" in held and held["classes"].ndim != 1:
        raise InputError(f"{path}: the array 'classes' is not a list of names")
    classes = tuple(map(str, held["classes"])) if "classes" in held else None
    return Table(held["scores"], held.get("labels"), classes)


def _read_csv(path: Path) -> Table:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text: {error}") from error
    header = next(csv.reader(io.StringIO(text)), [])
    classes = tuple(name for name in header if name != LABEL)
    if len(classes) < 2:
        raise InputError(
            f"{path}: the header names {len(classes)} classes: {header}; "
            f"name each class's column, and {LABEL!r} for the true class"
        )
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
        scores = column([place for place, name in enumerate(header) if name != LABEL], float)
        labels = column(header.index(LABEL), str) if LABEL in header else None
    except ValueError as error:
        raise InputError(f"{path}: {error} (rows count from the header)") from error
    return Table(scores, labels, classes)


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
