"""Events from whole files of rows: .npz and Parquet."""

import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_leip import InputError
from stream_leip_connectors.batches import Batch, Opening, named
from stream_leip_connectors.columns import assemble
from stream_leip_connectors.detection import Asked, find_in_table
from stream_leip_connectors.events import Fields
from stream_leip_connectors.extras import pyarrow_compute, pyarrow_parquet

ROWS = 8192
_TICKS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


class TableReader:
    """Events of a whole file of rows: Parquet or .npz.

    Parameters
    ----------
    name
        Of the file.
    origin
        What the mark says it is of.
    fields
        What is where.
    begin
        The rows that were read before.
    batches
        Columns "scores", "time" and "key", where there are such, from there on.
    """

    unit = "row"

    def __init__(
        self, name: str, origin: str, fields: Fields, begin: int, batches: Iterator[dict[str, Any]]
    ) -> None:
        self._name = name
        self._origin = origin
        self.fields: Fields = fields
        self._row = begin
        self._batches = batches

    def read(self) -> Batch | None:
        """The next events."""
        columns = named(self._name, next, self._batches, None)
        if columns is None:
            return None
        events = assemble(columns["scores"], columns.get("time"), columns.get("key"), [])
        n = len(events.scores)
        numbers = np.arange(self._row, self._row + n)
        self._row += n

        def original(place: int) -> bytes:
            return msgspec.json.encode(
                {name: column[place] for name, column in columns.items()},
                enc_hook=lambda value: value.tolist(),
            )

        return Batch(events, numbers, original)

    def mark(self) -> dict[str, Any]:
        """How far reading came."""
        return {"from": self._origin, "row": self._row, "fields": asdict(self.fields)}

    def close(self) -> None:
        """Nothing is open."""


def table_reader(opening: Opening, known: str, origin: str) -> TableReader:
    """The reader of an .npz or a Parquet file."""
    begin = 0 if opening.mark is None else opening.mark["row"]
    columns = _npz_columns if known == "npz" else _parquet_columns
    fields, batches = named(str(opening.path), columns, opening, begin)
    return TableReader(str(opening.path), origin, fields, begin, batches)


def _npz_columns(opening: Opening, begin: int) -> tuple[Fields, Iterator[dict[str, Any]]]:
    held = read_npz(opening.path)
    classes = opening.profile.classes
    if "classes" in held and tuple(map(str, held["classes"])) != classes:
        given = ", ".join(map(str, held["classes"][:10]))
        raise InputError(
            f"the classes are {given}, but the profile's are {', '.join(classes[:10])}, in this "
            "order; reorder the columns"
        )
    scores = held["scores"]
    if scores.ndim != 2 or scores.shape[1] != len(classes):
        raise InputError(
            f"scores: an array of shape {scores.shape}, not rows × {len(classes)} classes"
        )
    plural = {"times": "time", "timestamps": "timestamp", "keys": "key"}
    arrays = {plural.get(name, name): array for name, array in held.items()}
    arrays = {
        name: array for name, array in arrays.items() if np.shape(array)[:1] == (len(scores),)
    }
    found = find_in_table(list(arrays), classes, Asked("scores", *opening.asked[1:]))
    wanted = {"scores": found.scores, "time": found.time, "key": found.key}
    columns = {name: arrays[given][begin:] for name, given in wanted.items() if given is not None}
    n = len(scores) - begin
    return found, (
        {name: column[at : at + ROWS] for name, column in columns.items()}
        for at in range(0, n, ROWS)
    )


def _parquet_columns(opening: Opening, begin: int) -> tuple[Fields, Iterator[dict[str, Any]]]:
    file = ParquetFile(opening.path)
    classes = opening.profile.classes
    found = find_in_table(file.names, classes, opening.asked)
    scores = list(classes) if found.scores is None else [found.scores]
    asked = {"time": found.time, "key": found.key}
    others = {name: given for name, given in asked.items() if given is not None}

    def batches() -> Iterator[dict[str, Any]]:
        for held in file.batches([*scores, *others.values()], begin):
            if found.scores is None:
                matrix = np.column_stack([_numbers(held[name], name) for name in classes])
            else:
                matrix = held[found.scores]
            if matrix.ndim != 2 or matrix.shape[1] != len(classes):
                raise InputError(f"column {scores[0]!r} has no list of {len(classes)} scores a row")
            yield {"scores": matrix, **{name: held[given] for name, given in others.items()}}

    return found, batches()


def _numbers(column: Any, name: str) -> NDArray[Any]:
    if not isinstance(column, np.ndarray) or column.dtype.kind not in "fiu":
        raise InputError(f"column {name!r} does not hold numbers")
    return column


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of an .npz; one of them is `scores`."""
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
    return held


class ParquetFile:
    """A Parquet file: its columns' names, and its rows in batches."""

    def __init__(self, path: Path) -> None:
        parquet = pyarrow_parquet()
        try:
            self._file = parquet.ParquetFile(path)
        except Exception as error:  # pyarrow has many kinds, some of them not its own
            raise InputError(f"{path}: not a readable Parquet file: {error}") from error
        self._path = path
        self.names: list[str] = list(self._file.schema_arrow.names)

    def batches(self, columns: Sequence[str], begin: int = 0) -> Iterator[dict[str, Any]]:
        """Columns as arrays or lists, from a row on."""
        groups: list[int] = []
        before = 0
        for group in range(self._file.num_row_groups):
            rows = self._file.metadata.row_group(group).num_rows
            if before + rows > begin or groups:
                groups.append(group)
            else:
                before += rows
        skip = begin - before
        try:
            for batch in self._file.iter_batches(ROWS, groups, list(columns)):
                if skip >= batch.num_rows:
                    skip -= batch.num_rows
                    continue
                part = batch.slice(skip)
                skip = 0
                yield {name: _column(part.column(name), name) for name in columns}
        except (OSError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{self._path}: cannot be read: {error}") from error


def _column(array: Any, name: str) -> Any:
    kind = str(array.type)
    if kind.startswith("timestamp"):
        if array.type.tz is None:
            raise InputError(
                f"time: column {name!r} has no time zone; store it as UTC, or as epoch seconds"
            )
        ticks = array.cast("int64").to_numpy(zero_copy_only=False).astype(np.float64)
        return ticks / _TICKS[array.type.unit]
    if kind.startswith(("list", "large_list", "fixed_size_list")):
        return _matrix(array, name)
    if kind in ("float", "double", "halffloat") or kind.startswith(("int", "uint")):
        return array.to_numpy(zero_copy_only=False)
    return array.to_pylist()


def _matrix(array: Any, name: str) -> NDArray[np.float64]:
    """A column of lists of one length."""
    lengths = set(pyarrow_compute().list_value_length(array).to_pylist())
    if len(lengths) != 1 or None in lengths:
        found = ", ".join(sorted(map(str, lengths))[:5])
        raise InputError(
            f"scores: the lists of column {name!r} have lengths {found}; make them one"
        )
    flat: NDArray[np.float64] = array.flatten().to_numpy(zero_copy_only=False).astype(np.float64)
    return flat.reshape(len(array), -1)
