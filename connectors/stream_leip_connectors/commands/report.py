"""`stream-leip report`: a report from a file of updates."""

from pathlib import Path
from typing import Annotated

import typer

from stream_leip_connectors.commands.options import check_apart
from stream_leip_connectors.console import say
from stream_leip_connectors.report import read_updates, write_report


def report_command(
    updates: Annotated[
        Path, typer.Argument(help="Updates as JSON lines, with or without a field truth.")
    ],
    output: Annotated[
        Path, typer.Option(help="Where the report goes. Example: --output today.html")
    ] = Path("report.html"),
) -> None:
    """Draw a report of updates that were written to a file.

    Example: stream-leip report updates.jsonl --output report.html
    """
    check_apart({"the input": updates, "--output": output})
    history = read_updates(updates)
    write_report(history, output)
    for said in (*history.sentences, *history.notes):
        say(said)
    say(f"report written to {output}")
