"""stream-leip demo: example files to try the command on."""

from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import typer
from numpy.typing import NDArray

from stream_leip_connectors.console import say
from stream_leip_connectors.files import Example, example
from stream_leip_connectors.sinks import OutputError

app = typer.Typer(no_args_is_help=True)

HOME = [0.1] * 10
SHIFTED = [0.02, 0.02, 0.03, 0.03, 0.05, 0.05, 0.1, 0.1, 0.2, 0.4]
# 2026-01-05, a Monday, 08:00 UTC.
_MORNING = 1767600000.0
_SHOPS = {"north": HOME, "south": SHIFTED, "west": SHIFTED[::-1]}
_CONFIG = """\
# Settings of stream-leip. Flags and variables STREAM_LEIP_... beat this file; see
# "stream-leip config show --config demo/stream-leip.toml".
profile = "profile.json"
window = "sliding 4000 every 1000"

[watch]
dead_letters = "bad.jsonl"
"""


@app.callback()
def demo() -> None:
    """Example files to try the command on."""


@app.command()
def data(
    folder: Annotated[Path, typer.Argument(help="Where the files go.")] = Path("demo"),
) -> None:
    """Write example files: every command of the README can then be typed as it stands.

    Example: stream-leip demo data
    """
    given = example()
    contents = {
        "validation.csv": _csv(given.val_logits, given.val_labels),
        "today.csv": _csv(given.draw(SHIFTED, 5000)),
        "predictions.jsonl": _predictions(given),
        "shops.jsonl": _shops(given),
        "stream-leip.toml": _CONFIG.encode(),
    }
    contents["spoilt.jsonl"] = _spoil(contents["predictions.jsonl"])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            (folder / name).write_bytes(content)
            say(f"{folder / name}: {_ABOUT[name]}")
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written: {error.strerror or error}") from error


_ABOUT = {
    "validation.csv": "2000 labelled rows of a small MNIST network, to fit a profile to",
    "today.csv": "5000 rows after a shift, to estimate",
    "predictions.jsonl": "20,000 predictions; after 8000 the mix drifts, at 16,000 it jumps back",
    "shops.jsonl": "6000 predictions of three shops, each with a mix of its own",
    "spoilt.jsonl": "the predictions, with 20 lines that are none",
    "stream-leip.toml": "settings, for --config",
}


def _csv(logits: NDArray[np.float32], labels: NDArray[np.uint8] | None = None) -> bytes:
    names = [str(j) for j in range(logits.shape[1])]
    lines = [",".join(map(str, row)) for row in logits.tolist()]
    if labels is not None:
        names.append("label")
        lines = [f"{line},{label}" for line, label in zip(lines, labels.tolist(), strict=True)]
    return "\n".join([",".join(names), *lines, ""]).encode()


def _predictions(given: Example) -> bytes:
    """At home, then a slow drift, then home again; an event a second."""
    parts = [given.draw(HOME, 8000, seed=1)]
    for step in range(8):
        part = (step + 1) / 8
        mix = [(1 - part) * home + part * away for home, away in zip(HOME, SHIFTED, strict=True)]
        parts.append(given.draw(mix, 1000, seed=2 + step))
    parts.append(given.draw(HOME, 4000, seed=10))
    return _lines(np.concatenate(parts), {})


def _shops(given: Example) -> bytes:
    """Three streams in one file, event by event in turn."""
    logits = np.stack([given.draw(mix, 2000, seed=20) for mix in _SHOPS.values()], axis=1)
    return _lines(logits.reshape(-1, 10), {"key": list(_SHOPS) * 2000})


def _lines(logits: NDArray[np.float32], others: dict[str, list[str]]) -> bytes:
    encode = msgspec.json.encode
    lines = []
    for i, row in enumerate(logits.tolist()):
        more = {name: values[i] for name, values in others.items()}
        lines.append(encode({"id": i, "time": _MORNING + i, **more, "scores": row}))
    return b"\n".join([*lines, b""])


def _spoil(lines: bytes) -> bytes:
    whole = lines.split(b"\n")
    for number in range(500, 20_000, 1000):
        whole[number] = whole[number][: -(number % 77) - 1]
    return b"\n".join(whole)
