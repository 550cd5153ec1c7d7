"""Bytes from a file, a growing file or a pipe, in blocks that end where a record does."""

import os
import select
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from stream_leip import InputError, SnapshotError

BLOCK = 1 << 18
# A line longer than this is not of events.
LONGEST = 1 << 26
_PAUSE = 0.1
_CHECKED = 4096

# How many bytes of what was read are whole records.
Cut = Callable[[bytes], int]


class Source(Protocol):
    """Where bytes come from."""

    position: int
    rotated: bool

    def read(self) -> bytes | None:
        """Whole records; nothing if there are none yet; None at the end.

        The very last may be a record that is not finished.
        """

    def unread(self, block: bytes) -> None:
        """Give back the last block: it will be there again."""

    def mark(self) -> dict[str, Any]:
        """How far reading came; a source made with it goes on from there."""

    def close(self) -> None:
        """Let go of the file."""


def line_cut(data: bytes) -> int:
    """Where the last whole line ends."""
    return data.rfind(b"\n") + 1


class FileSource:
    """A file, read to its end, or followed as it grows.

    Parameters
    ----------
    path
        The file.
    cut
        Where whole records end.
    follow
        Wait for more at the end. A file that is replaced or cut short, as logs are when they are
        rotated, is read anew from its beginning.
    mark
        What `mark` gave.
    """

    def __init__(
        self, path: Path, cut: Cut = line_cut, *, follow: bool = False, mark: Any = None
    ) -> None:
        self.rotated = False
        self._path = path
        self._cut = cut
        self._follow = follow
        self._pending = b""
        self._last = b""
        try:
            self._file = path.open("rb", buffering=0)
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
        self.position = 0
        if mark is not None:
            try:
                self._resume(mark)
            except SnapshotError:
                self._file.close()
                raise

    def _resume(self, mark: dict[str, Any]) -> None:
        size = os.fstat(self._file.fileno()).st_size
        position, checked, checksum = mark["position"], mark["checked"], mark["checksum"]
        if size < position:
            raise SnapshotError(
                f"{self._path}: has {size} bytes, but {position} were read of it before; it was "
                "cut short or replaced. Bring it back, or begin anew without the old state"
            )
        self._file.seek(position - checked)
        self._last = self._file.read(checked)
        if zlib.crc32(self._last) != checksum:
            raise SnapshotError(
                f"{self._path}: is not the file that was read before: what stands before byte "
                f"{position} is not the same. Bring it back, or begin anew without the old state"
            )
        self.position = position

    def read(self) -> bytes | None:
        """Whole records; nothing if there are none yet; None at the end."""
        data = self._pending
        while True:
            chunk = self._file.read(BLOCK)
            if not chunk:
                break
            data += chunk
            cut = self._cut(data)
            if cut:
                self._pending = data[cut:]
                return self._consume(data[:cut])
            _refuse_endless(data, str(self._path))
        self._pending = data
        if self._follow:
            time.sleep(_PAUSE)
            return self._begin_anew() if self._was_rotated() else b""
        if not data:
            return None
        self._pending = b""
        return self._consume(data)

    def _consume(self, block: bytes) -> bytes:
        self.position += len(block)
        self._last = (self._last + block[-_CHECKED:])[-_CHECKED:]
        return block

    def _was_rotated(self) -> bool:
        """Whether another file has this name now, and this one is read, or this one was emptied."""
        here = os.fstat(self._file.fileno())
        if here.st_size < self.position + len(self._pending):
            return True
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            return False  # between the two steps of a rotation
        replaced = (there.st_ino, there.st_dev) != (here.st_ino, here.st_dev)
        return replaced and here.st_size <= self.position + len(self._pending)

    def _begin_anew(self) -> bytes:
        """Open the file by its name again; what was left of the old one is its last line."""
        try:
            file = self._path.open("rb", buffering=0)
        except FileNotFoundError:
            return b""  # emptied, and gone since: it is looked for again
        rest = self._pending
        self._file.close()
        self._file = file
        self.position, self._pending, self._last = 0, b"", b""
        self.rotated = True
        return rest

    def unread(self, block: bytes) -> None:
        """Give back the last block: it will be there again."""
        self.position -= len(block)
        # What stands before it is read again for the checksum.
        begin = max(0, self.position - _CHECKED)
        self._file.seek(begin)
        self._last = self._file.read(self.position - begin)
        self._pending = b""

    def mark(self) -> dict[str, Any]:
        """How far reading came."""
        checksum = zlib.crc32(self._last)
        return {"position": self.position, "checked": len(self._last), "checksum": checksum}

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


class PipeSource:
    """A pipe, or whatever stdin is: what was read of it cannot be read again.

    Parameters
    ----------
    descriptor
        Of the open pipe.
    cut
        Where whole records end.
    mark
        What `mark` gave: the pipe goes on where the last one was left.
    """

    def __init__(self, descriptor: int, cut: Cut = line_cut, *, mark: Any = None) -> None:
        self.rotated = False
        self._descriptor = descriptor
        self._cut = cut
        self.position: int = 0 if mark is None else mark["position"]
        self._pending: bytes = b"" if mark is None else mark["pending"]
        self._ended = False

    def read(self) -> bytes | None:
        """Whole records; nothing if there are none yet; None at the end."""
        if self._ended:
            return None
        data, cut = self._pending, 0
        while cut < BLOCK and self._ready(0.0 if cut else _PAUSE):
            chunk = os.read(self._descriptor, BLOCK)
            if not chunk:
                self._ended = True
                cut = len(data)
                break
            data += chunk
            cut = self._cut(data)
            _refuse_endless(data[cut:], "stdin")
        self._pending = data[cut:]
        self.position += cut
        return None if self._ended and not cut else data[:cut]

    def _ready(self, seconds: float) -> bool:
        if os.name == "nt":
            return True  # its pipes cannot be asked
        return bool(select.select([self._descriptor], [], [], seconds)[0])

    def unread(self, block: bytes) -> None:
        """Keep the last block in the mark."""
        self.position -= len(block)
        self._pending = block + self._pending

    def mark(self) -> dict[str, Any]:
        """How far reading came, and what was read of a record not yet whole."""
        return {"position": self.position, "pending": self._pending}

    def close(self) -> None:
        """Let go of the pipe, unless it is stdin."""
        if sys.stdin is None or self._descriptor != sys.stdin.fileno():
            os.close(self._descriptor)


def _refuse_endless(pending: bytes, name: str) -> None:
    if len(pending) > LONGEST:
        raise InputError(
            f"{name}: a line of more than {LONGEST >> 20} MB is no event; name the right --format, "
            "or end lines"
        )
