"""Where lines of JSON go: a file that can be taken back to a length, or stdout."""

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from stream_leip import SnapshotError, StreamLeipError
from stream_leip.whole_file import write_whole

Mark: TypeAlias = dict[str, Any]


class OutputError(StreamLeipError):
    """Something could not be written; the message names it, the cause and the remedy."""


class Sink:
    """Lines to a file, or to stdout if it has no path.

    Parameters
    ----------
    path
        The file; None for stdout.
    mark
        What `mark` gave: a file of the same path is resumed, and what was written to it after
        the mark is taken back. Otherwise a file begins anew.
    """

    def __init__(self, path: Path | None, mark: Mark | None = None) -> None:
        self._name = "stdout" if path is None else str(path)
        self._file: Any
        if path is None:
            if sys.stdout is None:
                raise OutputError("stdout: it is closed; name a file with --output")
            # What a buffer could not write it would try again when Python ends.
            self._file = getattr(sys.stdout.buffer, "raw", sys.stdout.buffer)
            return
        length = mark["length"] if mark is not None and mark["name"] == self._name else None
        with self._errors():
            if length is None:
                self._file = path.open("wb", buffering=0)
                return
            size = path.stat().st_size if path.is_file() else 0
            if size < length:
                raise SnapshotError(
                    f"{path}: has {size} bytes, but {length} were written to it before; bring it "
                    "back, or begin anew without the old state"
                )
            self._file = (
                path.open("r+b", buffering=0) if path.is_file() else path.open("wb", buffering=0)
            )
            self._file.truncate(length)
            self._file.seek(length)

    def write(self, lines: Iterable[bytes]) -> None:
        """Write lines, and hand them on at once."""
        block = memoryview(b"".join(line + b"\n" for line in lines))
        with self._errors():
            while block:
                block = block[self._file.write(block) :]

    def mark(self) -> Mark:
        """How many bytes the file has, all of them on the disk; None for what is no file."""
        length = None
        with self._errors():
            if self._name != "stdout" and stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
                os.fsync(self._file.fileno())
                length = self._file.tell()
        return {"name": self._name, "length": length}

    def close(self) -> None:
        """Let go of the file."""
        if self._name != "stdout":
            self._file.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError as error:
            # Nobody reads any more; Python would try once again when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise OutputError(f"{self._name}: its reader has gone") from error
        except OSError as error:
            raise OutputError(
                f"{self._name}: cannot be written: {error.strerror or error}; mend that and run "
                "again: with --state it goes on from the last state"
            ) from error


def write_state(path: Path, data: bytes) -> None:
    """Replace a state by another, or leave it as it was."""
    try:
        write_whole(path, data)
    except OSError as error:
        kept = "; the previous one is kept" if path.exists() else ""
        raise OutputError(
            f"{path}: cannot be written: {error.strerror or error}{kept}. Make room, or choose "
            "another place"
        ) from error
