"""What the Kafka connector's errors say, read from its sources."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from stream_leip_connectors import kafka
from stream_leip_connectors.kafka import errors

FOLDER = Path(str(kafka.__file__)).parent
KINDS = {
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and kind.__module__ == errors.__name__
}
# How many words of a message tell it from others.
WORDS = 5


def texts() -> Iterator[tuple[str, str]]:
    """The file and the text of each error that is raised; … for what is filled in."""
    for path in sorted(FOLDER.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)):
                continue
            kind = node.exc.func
            if isinstance(kind, ast.Name) and kind.id in KINDS and node.exc.args:
                yield path.name, _text(node.exc.args[0])


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) for part in node.values)
    return "…"


def first_words(text: str) -> str:
    """The first words of a text that are its own, up to the next thing that is filled in."""
    parts = [part.strip(" ,.;:()[]'\"") for part in re.split(r"\s*…\s*", text)]
    runs = [" ".join(part.split()[:WORDS]).strip(" ,.;:()[]'\"") for part in parts if part]
    # Short runs between two names say little: the first that has at least three words.
    return next((run for run in runs if len(run.split()) >= 3), runs[0] if runs else "")
