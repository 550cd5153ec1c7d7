"""Events from any input, batch by batch, and how far it was read."""

import os
import sys
from codecs import BOM_UTF8
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_leip import InputError, SnapshotError
from stream_leip_connectors.batches import Batch, Opening, Reader, named
from stream_leip_connectors.config import WrongUsage
from stream_leip_connectors.csv_lines import CsvDecoder, csv_header
from stream_leip_connectors.detection import ABSENT, Asked, find_in_event, find_in_table
from stream_leip_connectors.events import EventDecoder, Events, Fields, float32_rows
from stream_leip_connectors.sources import FileSource, PipeSource, Source, line_cut
from stream_leip_connectors.tables import table_reader

FORMATS = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".log": "jsonl", ".csv": "csv",
    ".parquet": "parquet", ".pq": "parquet", ".npz": "npz", ".f32": "float32",
}  # fmt: skip
STDIN = Path("-")
# Events to look at before an input is called unclear.
_EXAMPLES = 100

Decode: TypeAlias = Callable[[bytes], tuple[Events, NDArray[np.int64]]]


def open_reader(opening: Opening) -> Reader:
    """The reader of a file or of stdin."""
    path = opening.path
    if path != STDIN and not path.is_file() and not path.is_fifo():
        raise InputError(f"{path}: {'a folder, not a file' if path.is_dir() else 'no such file'}")
    piped = path == STDIN or path.is_fifo()
    known = opening.format or ("jsonl" if piped else FORMATS.get(path.suffix.lower()))
    if known is None:
        raise InputError(
            f"{path}: files of type {path.suffix or 'none'!r} are unknown; "
            f"use one of {', '.join(FORMATS)}, or say --format"
        )
    if opening.mark is not None:
        _check_mark(opening, known)
    if known in ("parquet", "npz"):
        if opening.follow or piped:
            raise WrongUsage(f"--format: {known} can only be read from a whole file")
        return table_reader(opening, known, _origin(opening, known))
    return LineReader(opening, known)


def _check_mark(opening: Opening, known: str) -> None:
    """Refuse to go on with an input of another kind, or with other fields of it."""
    mark = opening.mark or {}
    before, now = mark["from"], _origin(opening, known)
    if before != now:
        raise SnapshotError(f"state: of {before}, not of {now}; use another --state")
    if mark["fields"] is not None:
        for name, given in opening.asked._asdict().items():
            found = mark["fields"][name] or ABSENT
            if given is not None and given != found:
                raise SnapshotError(
                    f"state: made with --{name} {found}, not {given}; leave that as it was, or use "
                    "another --state"
                )


def _origin(opening: Opening, known: str) -> str:
    piped = opening.path == STDIN or opening.path.is_fifo()
    return f"{known} from " + ("a pipe" if piped else "a file")


class LineReader:
    """Events of JSON lines, lines of CSV, or rows of float32."""

    def __init__(self, opening: Opening, known: str) -> None:
        self.unit = "row" if known == "float32" else "line"
        self.fields: Fields | None = None
        self.unfinished = False
        self._opening = opening
        self._name = "stdin" if opening.path == STDIN else str(opening.path)
        self._known = known
        self._decode: Decode | None = None
        self._number = 0
        self._header = b""
        self._ended = False
        self._size = 4 * len(opening.profile.classes)
        mark = opening.mark
        self._source = self._open(None if mark is None else mark["source"])
        if mark is not None:
            self._number = mark["number"]
            self._header = mark["header"]
            if mark["fields"] is not None:
                self._use(Fields(**mark["fields"]))

    def _open(self, mark: dict[str, Any] | None) -> Source:
        path, size = self._opening.path, self._size
        cut = line_cut if self.unit == "line" else lambda data: len(data) - len(data) % size
        if path == STDIN:
            return PipeSource(_stdin(), cut, mark=mark)
        if path.is_fifo():
            return PipeSource(os.open(path, os.O_RDONLY), cut, mark=mark)
        return FileSource(path, cut, follow=self._opening.follow, mark=mark)

    def read(self) -> Batch | None:
        """The next events."""
        whole = None if self._ended else self._source.read()
        if whole is None:
            return None
        batch = self._batch(whole) if whole else self._empty()
        if self._source.rotated:
            self._source.rotated = False
            self._number = 0
            if self._known == "csv":
                self._decode = None  # the new file has a header of its own
        return batch

    def _batch(self, whole: bytes) -> Batch:
        may_wait = self._opening.keep_unfinished and not self._finished(whole)
        if may_wait and self._known != "jsonl":
            return self._leave(whole)  # nobody can tell how much of it is missing
        # Some programs begin a text with a byte order mark.
        skipped = len(BOM_UTF8) if self._begins(whole) else 0
        block = whole[skipped:]
        first = self._number
        if self._decode is None:
            kept = self._begin(block)
            first += len(kept) < len(block)
            block = kept
        # A first block of which no line is JSON has only bad ones.
        decode = self._decode or EventDecoder(self._opening.profile).decode_lines
        events, numbers = decode(block)
        if may_wait and events.bad:
            return self._leave(whole)  # an object that lacks its end is no JSON
        self._number += len(whole) // self._size if self.unit == "row" else whole.count(b"\n")
        lines: list[bytes] = []

        def original(place: int) -> bytes:
            if self.unit == "row":
                return block[place * self._size : (place + 1) * self._size]
            if not lines:
                lines.extend(block.split(b"\n"))
            return lines[int(numbers[place])]

        return Batch(events, first + (self.unit == "line") + numbers, original)

    def _begins(self, block: bytes) -> bool:
        """Whether a text begins here, and with a byte order mark."""
        return self._number == 0 and self.unit == "line" and block.startswith(BOM_UTF8)

    def _begin(self, block: bytes) -> bytes:
        """Find out what the fields are, by the first block; give it without its header."""
        opening = self._opening
        classes = opening.profile.classes
        if self._known == "float32":
            self._use(Fields("scores"))
        elif self._known == "jsonl":
            fields = _fields_of_lines(block, classes, opening.asked, self._name)
            if fields is not None:
                self._use(fields)
        else:
            self._header, _, block = block.partition(b"\n")
            header = csv_header(self._header, self._name)
            self._use(named(self._name, find_in_table, header, classes, opening.asked))
        return block

    def _use(self, fields: Fields) -> None:
        """Decode by these fields from now on."""
        profile = self._opening.profile
        self.fields = fields
        if self._known == "float32":
            self._decode = _decode_float32(len(profile.classes))
        elif self._known == "jsonl":
            self._decode = EventDecoder(profile, fields).decode_lines
        else:
            if fields.scores is not None:
                raise InputError(
                    f"{self._name}: a column for each class is needed, not {fields.scores!r}; "
                    "use JSON lines or Parquet for lists"
                )
            header = csv_header(self._header, self._name)
            self._decode = named(
                self._name, CsvDecoder, header, profile.classes, fields
            ).decode_lines

    def _finished(self, block: bytes) -> bool:
        """Whether the last record is whole; the rest of a rotated file will not come any more."""
        if self._source.rotated:
            return True
        return len(block) % self._size == 0 if self.unit == "row" else block.endswith(b"\n")

    def _leave(self, block: bytes) -> Batch:
        """Leave a last record without its end for the next run."""
        self._source.unread(block)
        self.unfinished = self._ended = True
        return self._empty()

    def _empty(self) -> Batch:
        nothing = np.empty((0, len(self._opening.profile.classes)))
        return Batch(Events(nothing, None, None, []), np.empty(0, np.int64), lambda _: b"")

    def mark(self) -> dict[str, Any]:
        """How far reading came."""
        return {
            "from": _origin(self._opening, self._known),
            "source": self._source.mark(),
            "number": self._number,
            "header": self._header,
            "fields": None if self.fields is None or not self._decode else asdict(self.fields),
        }

    def close(self) -> None:
        """Let go of the input."""
        self._source.close()


def _stdin() -> int:
    if sys.stdin is None:
        raise InputError("stdin: it is closed; name a file, or pipe events in")
    return sys.stdin.fileno()


def _fields_of_lines(
    block: bytes, classes: tuple[str, ...], asked: Asked, name: str
) -> Fields | None:
    """What the first events say, or an error if they say nothing clear; None if there is none."""
    first: InputError | None = None
    seen = 0
    for line in block.split(b"\n"):
        try:
            event = msgspec.json.decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            continue
        try:
            return named(name, find_in_event, event, classes, asked)
        except InputError as error:
            first = first or error
        seen += 1
        if seen == _EXAMPLES:
            break
    if first is not None:
        raise first
    return None


def _decode_float32(classes: int) -> Decode:
    size = 4 * classes

    def decode(block: bytes) -> tuple[Events, NDArray[np.int64]]:
        rows = float32_rows(block[: len(block) - len(block) % size], classes)
        bad = []
        if len(block) % size:
            rows = np.vstack([rows, np.full(classes, np.nan, np.float32)])
            bad = [(len(rows) - 1, f"{len(block) % size} bytes, not {size}: the row is cut short")]
        return Events(rows, None, None, bad), np.arange(len(rows))

    return decode
