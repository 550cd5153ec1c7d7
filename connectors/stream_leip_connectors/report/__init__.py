"""A report of a replay, or of a file of updates: one HTML file that needs nothing from outside."""

from importlib import import_module
from pathlib import Path

from stream_leip import InputError, StreamLeipError
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
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
