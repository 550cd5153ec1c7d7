"""What the site has that no file holds: the help text of every verb, as the command prints it."""

import re
from collections.abc import Iterator
from typing import Any

import typer
from stream_leip_connectors.cli import app
from typer.testing import CliRunner

WIDTH = 78
# On the page that has this line, every verb's help comes in its place.
PLACE = "<!-- every verb's help -->"
_STYLING = re.compile(r"\x1b\[[0-9;]*m")


def verbs(command: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The names of each verb, those of groups first."""
    for name, inner in command.commands.items():
        if hasattr(inner, "commands"):
            yield from verbs(inner, (*before, name))
        else:
            yield (*before, name)


def help_text(verb: tuple[str, ...]) -> str:
    """What `--help` prints after a verb."""
    plain = {"COLUMNS": str(WIDTH), "NO_COLOR": "1", "TERM": "dumb"}
    done = CliRunner().invoke(app, [*verb, "--help"], env=plain, prog_name="stream-leip")
    if done.exit_code != 0:
        raise RuntimeError(f"stream-leip {' '.join(verb)} --help failed: {done.output}")
    lines = _STYLING.sub("", done.output).splitlines()
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the help texts where a page asks for them."""
    if PLACE not in markdown:
        return markdown
    parts = [
        f"## {' '.join(verb)}\n\n```text\n{help_text(verb)}\n```"
        for verb in verbs(typer.main.get_command(app))
    ]
    return markdown.replace(PLACE, "\n\n".join(parts))
