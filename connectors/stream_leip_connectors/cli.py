"""The stream-leip command: one verb, one module of `commands`."""

import logging
import sys
from inspect import cleandoc
from typing import Annotated

import typer
from rich.markup import escape

from stream_leip import StreamLeipError, __version__
from stream_leip_connectors.commands import (
    config,
    dashboard,
    demo,
    estimate,
    fit,
    kafka,
    replay,
    report,
    watch,
)
from stream_leip_connectors.config import WrongUsage
from stream_leip_connectors.console import out, people
from stream_leip_connectors.logs import in_json

app = typer.Typer(
    name="stream-leip",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="What the class mix behind a classifier's predictions is now, without labels.",
)
app.command()(fit.fit)
app.command()(estimate.estimate)
app.command()(watch.watch)
app.command("replay")(replay.replay_command)
app.command("report")(report.report_command)
app.command()(dashboard.dashboard)
app.add_typer(kafka.app, name="kafka")
app.add_typer(demo.app, name="demo")
app.add_typer(config.app, name="config")


def _unwrap(verbs: typer.Typer) -> None:
    """Have help texts wrapped where the terminal ends, not where the source's lines do."""
    for verb in verbs.registered_commands:
        paragraphs = cleandoc(verb.callback.__doc__ or "").split("\n\n")
        verb.help = "\n\n".join(" ".join(each.split()) for each in paragraphs)
    for group in verbs.registered_groups:
        if group.typer_instance is not None:
            _unwrap(group.typer_instance)


_unwrap(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        out.print(f"stream-leip {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            metavar="",
            help="Print the version.",
        ),
    ] = False,
) -> None:
    pass


def _show(error: StreamLeipError) -> None:
    people.print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)


def main(arguments: list[str] | None = None) -> None:
    """Run the command; errors of ours become one line, and exit code 2 for wrong usage, else 1."""
    try:
        app(arguments)
    except StreamLeipError as error:
        if in_json():
            logging.getLogger("stream_leip").error("%s", error)
        else:
            _show(error)
        sys.exit(2 if isinstance(error, WrongUsage) else 1)
    except KeyboardInterrupt:
        sys.exit(130)
