"""The stream-leip command."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
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
    SourceProfile,
    StreamLeipError,
    __version__,
    fit_profile,
)
from stream_leip_connectors import files
from stream_leip_connectors.replaying import replay_command
from stream_leip_connectors.reporting import report_command

# stdout is data, stderr is people.
out = Console(highlight=False, emoji=False)
people = Console(stderr=True, highlight=False, emoji=False)

app = typer.Typer(
    name="stream-leip",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="What the class mix behind a classifier's predictions is now, without labels.",
)

ESTIMATORS: dict[str, Estimator] = {
    "auto": Auto(),
    "LEIP": LEIP(),
    "EM": EM(),
    "RLLS": RLLS(),
    "BBSE": BBSE(),
    "CC": ClassifyAndCount(),
    "PCC": MeanPosterior(),
}


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


def _show_version(wanted: bool) -> None:
    if wanted:
        out.print(f"stream-leip {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


@app.command()
def fit(
    scores: Annotated[
        Path,
        typer.Argument(
            help="Labelled validation scores: .npz (arrays scores, labels, and classes if you "
            "like) or .csv (a column for each class, and one named label)."
        ),
    ],
    output: Annotated[Path, typer.Option(help="Where the profile goes.")] = Path("profile.json"),
    kind: Annotated[Kind, typer.Option(help="What the scores are.")] = Kind.logits,
    calibration: Annotated[
        Calibration, typer.Option(help="Calibrator; auto takes the best by cross-validation.")
    ] = Calibration.bcts,
    seed: Annotated[int, typer.Option(min=0, help="Of folds and replays.")] = 0,
) -> None:
    """Fit a profile of the source to labelled validation scores, and show it.

    Example: stream-leip fit validation.npz --output profile.json
    """
    table = files.read(scores)
    if table.labels is None:
        raise InputError(
            f"{scores}: no labels; add an array 'labels' (.npz) or a column 'label' (.csv)"
        )
    if not output.parent.is_dir():
        raise InputError(f"--output: there is no folder {output.parent}; make it first")
    with _progress("fitting") as advance:
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
    people.print(f"written to {output}", markup=False)


@app.command()
def estimate(
    scores: Annotated[Path, typer.Argument(help="Unlabelled scores: .npz (array scores) or .csv.")],
    profile: Annotated[Path, typer.Option(help="Made by 'stream-leip fit'.")] = Path(
        "profile.json"
    ),
    json: Annotated[bool, typer.Option("--json", help="For machines: one JSON object.")] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave bad rows out; exit with 1 if there are any.")
    ] = False,
) -> None:
    """Estimate the class mix of a batch, with all estimators side by side.

    Example: stream-leip estimate today.npz --profile profile.json
    """
    source = SourceProfile.load(profile)
    table = files.read(scores)
    if table.classes is not None and table.classes != source.classes:
        raise InputError(
            f"{scores}: the classes are {', '.join(table.classes[:10])}, but the profile's are "
            f"{', '.join(source.classes[:10])}, in this order; reorder the columns"
        )
    rows, bad = source.screen(table.scores)
    if bad and not skip_bad:
        source.rows(table.scores)
    found = {name: each.estimate(rows, source) for name, each in ESTIMATORS.items()}
    if json:
        sys.stdout.buffer.write(_estimates_json(source, found, len(bad)) + b"\n")
    else:
        out.print(_estimates_table(source, found, f"class mix of {len(rows)} rows"))
        details = found["auto"].details
        out.print(f"auto takes {details['estimator']}: {details['reason']}", markup=False)
    if bad:
        index, reason = bad[0]
        people.print(f"{len(bad)} bad rows left out; row {index}: {reason}", markup=False)
        raise typer.Exit(1)


app.command("replay")(replay_command)
app.command("report")(report_command)


def _estimates_table(
    profile: SourceProfile,
    found: dict[str, Estimate],
    title: str,
) -> Table:
    table = Table(title=title, title_justify="left")
    for name in ("class", "source", *found):
        table.add_column(name, justify="left" if name == "class" else "right")
    for j, name in enumerate(profile.classes):
        shares = [profile.hard_prior[j], *(each.prior[j] for each in found.values())]
        table.add_row(escape(name), *(f"{share:.3f}" for share in shares))
    return table


def _estimates_json(profile: SourceProfile, found: dict[str, Estimate], bad: int) -> bytes:
    return msgspec.json.encode(
        {
            "classes": profile.classes,
            "n": found["auto"].n,
            "bad": bad,
            "estimator": found["auto"].details["estimator"],
            "reason": found["auto"].details["reason"],
            "priors": {name: each.prior.tolist() for name, each in found.items()},
        }
    )


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int, int], None]]:
    with Progress(console=people, transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def main(arguments: list[str] | None = None) -> None:
    """Run the command; errors of ours become one line and exit code 1."""
    try:
        app(arguments)
    except StreamLeipError as error:
        people.print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
