"""Writing a file whole, or not at all."""

import os
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file by another of these bytes; one that was there stays if that fails.

    What is there and no file, as a device or a pipe, is written to: it must not be replaced by a
    file. Of a link, what it leads to is replaced.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    target = path.resolve()
    partial = target.with_name(target.name + ".partial")
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    except OSError:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
