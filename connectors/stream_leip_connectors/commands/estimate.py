"""stream-leip estimate."""

import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import typer
from numpy.typing import NDArray
from rich.markup import escape
from rich.table import Table

from stream_leip import (
    BBSE,
    EM,
    LEIP,
    RLLS,
    Auto,
    ClassifyAndCount,
    Estimate,
    Estimator,
    InputError,
    MeanPosterior,
    Monitor,
    SourceProfile,
    Tumbling,
    Update,
)
from stream_leip_connectors.batches import Opening
from stream_leip_connectors.commands.options import ConfigFile, option
from stream_leip_connectors.config import MonitorSettings
from stream_leip_connectors.console import out, say
from stream_leip_connectors.detection import ABSENT, Asked
from stream_leip_connectors.loading import load
from stream_leip_connectors.reading import open_reader

LEVEL = 0.95
ESTIMATORS: dict[str, Estimator] = {
    "auto": Auto(),
    "LEIP": LEIP(),
    "EM": EM(),
    "RLLS": RLLS(),
    "BBSE": BBSE(),
    "CC": ClassifyAndCount(),
    "PCC": MeanPosterior(),
}


def estimate(
    scores: Annotated[
        Path,
        typer.Argument(
            help="Unlabelled scores: .csv or .parquet (a column for each class, by name), .npz "
            "(array scores), .jsonl, or - for JSON lines on stdin."
        ),
    ],
    profile: Annotated[Path | None, option(MonitorSettings, "profile", "--profile v7.json")] = None,
    field: Annotated[
        str | None,
        typer.Option(
            "--scores",
            help="JSON field or Parquet column with lists of scores, if not found by itself. "
            "Example: --scores probabilities",
        ),
    ] = None,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            metavar="",
            help="For machines: one JSON object. Example: --json | jq .priors.auto",
        ),
    ] = False,
    skip_bad: Annotated[
        bool,
        typer.Option(
            "--skip-bad",
            metavar="",
            help="Leave bad rows out; exit with 1 if there are any. "
            "Example: stream-leip estimate demo/spoilt.jsonl --skip-bad",
        ),
    ] = False,
    config: ConfigFile = None,
) -> None:
    """Estimate the class mix of a batch, with all estimators side by side.

    Example: stream-leip estimate demo/today.csv
    """
    settings = load(MonitorSettings, {"profile": profile}, config).values
    source = SourceProfile.load(settings.profile)
    matrix, bad = read_scores(scores, source, field)
    if bad and not skip_bad:
        _, reason = bad[0]
        more, them = "", "it"
        if len(bad) > 1:
            more, them = f" (the first of {len(bad)} bad ones)", "them"
        raise InputError(f"{scores}: {reason}{more}; --skip-bad leaves {them} out")
    if not len(matrix):
        raise InputError(f"{scores}: no good row in it")
    rows = source.rows(matrix)
    found = {name: each.estimate(rows, source) for name, each in ESTIMATORS.items()}
    # The interval comes with a monitor's update.
    (update,) = Monitor(source, Tumbling(count=len(matrix)), level=LEVEL).update_many(matrix)
    if json:
        sys.stdout.buffer.write(_as_json(source, found, update, len(bad)) + b"\n")
        sys.stdout.buffer.flush()
    else:
        title = f"class mix of {len(rows)} rows; low to high: auto's {LEVEL:.0%} interval"
        out.print(estimates_table(source, found, title, update, out.width))
        details = found["auto"].details
        reason = f"auto takes {details['estimator']}: {details['reason']}"
        out.print(reason, markup=False, soft_wrap=True)
    if bad:
        say(f"{len(bad)} bad row{'s' if len(bad) > 1 else ''} left out; {bad[0][1]}")
        raise typer.Exit(1)


def read_scores(
    path: Path, source: SourceProfile, field: str | None
) -> tuple[NDArray[np.floating[Any]], list[tuple[int, str]]]:
    """The good scores of an input, and (line or row, reason) of the bad ones."""
    reader = open_reader(Opening(path, source, Asked(field, ABSENT, ABSENT)))
    parts: list[NDArray[np.floating[Any]]] = []
    bad: list[tuple[int, str]] = []
    with closing(reader):
        while (batch := reader.read()) is not None:
            events = batch.events
            _, refused = source.screen(events.scores)
            reasons = dict(refused) | dict(events.bad)
            bad += [
                (int(batch.numbers[i]), f"{reader.unit} {batch.numbers[i]}: {reason}")
                for i, reason in sorted(reasons.items())
            ]
            parts.append(np.delete(events.scores, list(reasons), axis=0))
    empty = np.empty((0, len(source.classes)))
    return np.concatenate([part for part in parts if len(part)] or [empty]), bad


def estimates_table(
    profile: SourceProfile,
    found: dict[str, Estimate],
    title: str,
    update: Update,
    width: int,
) -> Table:
    """Estimates side by side, a line for each class, in so many columns of text."""
    columns: dict[str, NDArray[np.float64]] = {"source": profile.hard_prior}
    for name, each in found.items():
        columns[name] = each.prior
        if name == "auto" and update.low is not None:
            columns["low"] = update.low
            columns["high"] = update.high if update.high is not None else update.low
    # On a narrow terminal columns move together, then long names fold: figures stay whole.
    lengths = [max(5, *map(len, profile.classes)), *(max(5, len(name)) for name in columns)]
    gap = 2 if sum(lengths) + 2 * len(lengths) <= width else 1
    table = Table(title=title, title_justify="left", box=None, padding=(0, gap, 0, 0))
    table.add_column("class", overflow="fold")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True, min_width=len("0.000"))
    for j, name in enumerate(profile.classes):
        table.add_row(escape(name), *(f"{column[j]:.3f}" for column in columns.values()))
    return table


def _as_json(profile: SourceProfile, found: dict[str, Estimate], update: Update, bad: int) -> bytes:
    return msgspec.json.encode(
        {
            "classes": profile.classes,
            "n": found["auto"].n,
            "bad": bad,
            "estimator": found["auto"].details["estimator"],
            "reason": found["auto"].details["reason"],
            "priors": {name: each.prior.tolist() for name, each in found.items()},
            "low": None if update.low is None else update.low.tolist(),
            "high": None if update.high is None else update.high.tolist(),
        }
    )
