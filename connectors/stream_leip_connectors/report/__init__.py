"""A report of a replay, or of a file of updates: one HTML file that needs nothing from outside."""

from importlib import import_module
from pathlib import Path

from stream_leip import InputError, StreamLeipError
from stream_leip.whole_file import write_whole
from stream_leip_connectors.figures.history import History, Lane
from stream_leip_connectors.report.gathering import from_result, read_updates

__all__ = ["History", "Lane", "from_result", "read_updates", "write_report"]


def write_report(history: History, path: Path) -> None:
    """Write the report; a file that was there stays as it was if that fails.

    Raises
    ------
    StreamLeipError
        If Bokeh is not installed.
    InputError
        If the file cannot be written.
    """
    try:
        import_module("bokeh")
    except ImportError as error:
        raise StreamLeipError(
            "report: Bokeh is not installed; pip install 'stream-leip[report]'"
        ) from error
    text = import_module("stream_leip_connectors.report.page").render(history)
    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
