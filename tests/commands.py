"""Running the command in this process: importing numba again for each call would take seconds."""

import contextlib
import io
import sys
from pathlib import Path
from typing import NamedTuple

from stream_leip_connectors.cli import main

COMMAND = Path(sys.executable).with_name("stream-leip")


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def run(*arguments: str | Path, cwd: Path) -> Done:
    """Run the command, and catch what it prints."""
    stdout, stderr = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in "oe")
    code = 0
    with (
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
    ):
        try:
            main(list(map(str, arguments)))
        except SystemExit as end:
            code = int(end.code or 0)
    return Done(code, *(stream.buffer.getvalue().decode() for stream in (stdout, stderr)))
