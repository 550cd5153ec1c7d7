"""stream-leip fit."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from stream_leip import InputError, fit_profile
from stream_leip_connectors import files
from stream_leip_connectors.commands.options import check_apart
from stream_leip_connectors.console import out, people, say


class Kind(StrEnum):
    """What the scores are."""

    logits = "logits"
    probabilities = "probabilities"


class Calibration(StrEnum):
    """How scores are calibrated."""

    none = "none"
    ts = "TS"
    bcts = "BCTS"
    nbvs = "NBVS"
    vs = "VS"
    auto = "auto"


def fit(
    scores: Annotated[
        Path,
        typer.Argument(
            help="Labelled validation scores: .csv or .parquet (a column for each class, and one "
            "named label), .npz (arrays scores, labels, and classes if you like), or .jsonl "
            '({"scores": [0.7, 0.2, 0.1], "label": "cat"}).'
        ),
    ],
    output: Annotated[
        Path, typer.Option(help="Where the profile goes. Example: --output models/v7.json")
    ] = Path("profile.json"),
    kind: Annotated[
        Kind,
        typer.Option(
            help="What the scores are: logits, or probabilities that sum to one. "
            "Example: --kind probabilities"
        ),
    ] = Kind.logits,
    label: Annotated[
        str, typer.Option(help="Column with the true class. Example: --label truth")
    ] = "label",
    classes: Annotated[
        str | None,
        typer.Option(
            help="Columns with the scores, separated by commas; all but label, time, timestamp, "
            "key and id unless given. Of arrays and lists, the names of their entries. "
            "Example: --classes cat,dog,fox"
        ),
    ] = None,
    calibration: Annotated[
        Calibration,
        typer.Option(
            help="Calibrator: temperature (TS), with biases (BCTS), a scale for each class (NBVS, "
            "VS); auto takes the best by cross-validation. Example: --calibration auto"
        ),
    ] = Calibration.bcts,
    seed: Annotated[int, typer.Option(min=0, help="Of folds and replays. Example: --seed 7")] = 0,
) -> None:
    """Fit a profile of the source to labelled validation scores, and show it.

    Example: stream-leip fit demo/validation.csv --output profile.json
    """
    check_apart({"the input": scores, "--output": output})
    chosen = None if classes is None else tuple(classes.split(","))
    table = files.read(scores, label, chosen)
    if table.labels is None:
        raise InputError(
            f"{scores}: no labels; add an array 'labels' (.npz) or a column {label!r}, or name "
            f"the column with --label. Found: {table.found}"
        )
    if not output.parent.is_dir():
        raise InputError(f"--output: there is no folder {output.parent}; make it first")
    say(f"{scores}: {table.found}")
    with _progress("fitting (the first run compiles, about 20 s)") as advance:
        profile = fit_profile(
            table.scores,
            table.labels,
            table.classes,
            kind.value,
            calibration.value,
            seed,
            advance,
        )
    profile.save(output)
    out.print(str(profile), markup=False)
    say(f"written to {output}")


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int, int], None]]:
    with Progress(console=people, transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
