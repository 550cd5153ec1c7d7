"""Scores and labels in files: .npz and .csv; and the example data that come with the package."""

import csv
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

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
        with np.load(path, allow_pickle=False) as data:
            held = {name: data[name] for name in data.files}
    except (ValueError, OSError, BadZipFile, EOFError) as error:
        raise InputError(f"{path}: not a readable .npz file: {error}") from error
    if "scores" not in held:
        found = ", ".join(held) or "nothing"
        raise InputError(
            f"{path}: no array 'scores'; found {found}. Save it with np.savez(scores=…)"
        )
    classes = tuple(map(str, held["classes"])) if "classes" in held else None
    return Table(held["scores"], held.get("labels"), classes)


def _read_csv(path: Path) -> Table:
    with path.open(newline="", encoding="utf-8") as file:
        header = next(csv.reader(file), [])
    classes = tuple(name for name in header if name != LABEL)
    if len(classes) < 2:
        raise InputError(
            f"{path}: the header names {len(classes)} classes: {header}; "
            f"name each class's column, and {LABEL!r} for the true class"
        )
    columns = [place for place, name in enumerate(header) if name != LABEL]
    try:
        scores = np.loadtxt(
            path, delimiter=",", skiprows=1, usecols=columns, ndmin=2, quotechar='"'
        )
        labels = None
        if LABEL in header:
            labels = np.loadtxt(
                path,
                str,
                delimiter=",",
                skiprows=1,
                usecols=header.index(LABEL),
                ndmin=1,
                quotechar='"',
            )
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error
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
