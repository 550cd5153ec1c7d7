"""`stream-leip replay`: a simulated drift, monitors side by side on it, and a report."""

import importlib.util
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
import numpy as np
import typer
from rich.live import Live

from stream_leip import InputError, Monitor, SourceProfile, Tumbling, fit_profile
from stream_leip.arrays import Scores
from stream_leip.replay import (
    Appearing,
    Bernoulli,
    Constant,
    Jumps,
    Linear,
    LogitNoise,
    Point,
    Pool,
    Rising,
    Schedule,
    Seasonal,
    Sinusoidal,
    Square,
    Stream,
    Sudden,
    Temperature,
    Traffic,
    Violation,
    Walk,
    replay,
    to_record,
)
from stream_leip_connectors import files
from stream_leip_connectors.commands.feeding import feed_topic
from stream_leip_connectors.commands.options import check_apart
from stream_leip_connectors.commands.replay_view import View, summarise
from stream_leip_connectors.console import out, people
from stream_leip_connectors.mixes import read_mixes
from stream_leip_connectors.report import from_result, write_report

FRAMES_A_SECOND = 8.0

SCHEDULES: dict[str, Callable[[], Schedule]] = {
    "tour": lambda: (
        Constant()
        .then(Constant({-1: 0.6}))
        .then(Linear(to={0: 0.5}))
        .then(Seasonal(day=0.5, weekly=0.0))
    ),
    "constant": Constant,
    "sudden": lambda: Sudden(to={-1: 0.5}),
    "linear": lambda: Linear(to={-1: 0.5}),
    "sinusoidal": lambda: Sinusoidal(to={-1: 0.5}),
    "square": lambda: Square(to={-1: 0.5}),
    "bernoulli": lambda: Bernoulli(to={-1: 0.5}),
    "jumps": Jumps,
    "walk": Walk,
    "seasonal": Seasonal,
    "rising": lambda: Rising(-1),
    "appearing": lambda: Appearing(-1),
}

Name = StrEnum("Name", list(SCHEDULES))  # type: ignore[misc]


class Breach(StrEnum):
    """A change that is not label shift."""

    noise = "noise"
    temperature = "temperature"


BREACHES: dict[Breach, Violation] = {
    Breach.noise: LogitNoise(2.0, begin=0.5),
    Breach.temperature: Temperature(0.5, begin=0.5),
}


def replay_command(
    scores: Annotated[
        Path | None,
        typer.Argument(
            help="Labelled scores to draw events from: .npz (arrays scores, labels), .csv or "
            ".parquet (a column for each class, and one named label), or .jsonl. The shipped "
            "example unless given. "
            "Example: stream-leip replay demo/validation.csv"
        ),
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(
            help="Made by 'stream-leip fit'. Unless given, half of the scores are for fitting one. "
            "Example: --profile profile.json"
        ),
    ] = None,
    schedule: Annotated[
        Name,
        typer.Option(
            metavar="NAME",
            help=f"How the true mix moves: {', '.join(SCHEDULES)}. Example: --schedule square",
        ),
    ] = Name.tour,  # type: ignore[attr-defined]
    table: Annotated[
        Path | None,
        typer.Option(
            help="A schedule of your own: .csv with a column time and one a class. "
            "Example: --table mixes.csv"
        ),
    ] = None,
    events: Annotated[int, typer.Option(min=1, help="How many. Example: --events 20000")] = 50_000,
    seed: Annotated[
        int, typer.Option(min=0, help="The same seed, the same events. Example: --seed 7")
    ] = 0,
    breach: Annotated[
        Breach | None,
        typer.Option(
            help="Change the scores halfway in a way that is not label shift. "
            "Example: --breach noise"
        ),
    ] = None,
    out_of_order: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="Share held up for up to a second, so that others overtake. "
            "Example: --out-of-order 0.1",
        ),
    ] = 0.0,
    late: Annotated[
        float,
        typer.Option(min=0, max=1, help="Share that come a minute late. Example: --late 0.01"),
    ] = 0.0,
    duplicates: Annotated[
        float,
        typer.Option(min=0, max=1, help="Share that come twice. Example: --duplicates 0.01"),
    ] = 0.0,
    bad: Annotated[
        float, typer.Option(min=0, max=1, help="Share of broken events. Example: --bad 0.01")
    ] = 0.0,
    report: Annotated[
        Path, typer.Option(help="Where the report goes. Example: --report drift.html")
    ] = Path("report.html"),
    no_report: Annotated[
        bool, typer.Option("--no-report", metavar="", help="Draw none. Example: --no-report --json")
    ] = False,
    updates: Annotated[
        Path | None,
        typer.Option(
            help="Write every update, with the truth, as JSON lines. Example: --updates drift.jsonl"
        ),
    ] = None,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            metavar="",
            help="For machines: one JSON object. Example: --json | jq .monitors",
        ),
    ] = False,
    to_kafka: Annotated[
        str | None,
        typer.Option(
            metavar="BOOTSTRAP",
            help="Write the events to a Kafka topic instead, and run no monitors. Passwords and "
            "certificates: variables STREAM_LEIP_KAFKA_…, or stream-leip.toml, table 'kafka'. "
            "Example: --to-kafka localhost:9092",
        ),
    ] = None,
    topic: Annotated[
        str, typer.Option(help="With --to-kafka: which. Example: --topic events")
    ] = "predictions",
    rate: Annotated[
        float,
        typer.Option(
            min=0.001, help="With --to-kafka: events a second, at most. Example: --rate 200"
        ),
    ] = 1000.0,
    keys: Annotated[
        int,
        typer.Option(
            min=1,
            help="With --to-kafka: so many keys, each event one by chance. Example: --keys 5",
        ),
    ] = 1,
) -> None:
    """Replay a simulated drift on monitors side by side, and draw a report; or feed a Kafka topic.

    Example: stream-leip replay --schedule square --events 20000
    """
    drawn = None if no_report else report
    check_apart(
        {
            "the input": scores,
            "--profile": profile,
            "--table": table,
            "--report": drawn,
            "--updates": updates,
        }
    )
    for name, path in (("--report", drawn), ("--updates", updates)):
        if path is not None and not path.parent.is_dir():
            raise InputError(f"{name}: there is no folder {path.parent}; make it first")
    with people.status("fitting a profile (the first run compiles the kernels, about 20 s)"):
        source, pool = source_and_pool(scores, profile, seed)
    chosen = SCHEDULES[schedule.value]() if table is None else read_mixes(table, source.classes)
    traffic = Traffic(out_of_order=out_of_order, late=late, duplicates=duplicates, bad=bad)
    violations = () if breach is None else (BREACHES[breach],)
    if to_kafka is not None:
        names = tuple(f"key-{number}" for number in range(keys))
        # Event times go on from now: a broker deletes what is older than its retention.
        traffic = replace(traffic, rate=rate, begin=time.time(), keys=names)
        prior = source.soft_prior
        stream = Stream(pool, chosen, events, prior, traffic, violations, source.kind, seed)
        feed_topic(stream, to_kafka, topic, rate)
        return
    lines = None if updates is None else _opened(updates)
    view = View(source, events)
    try:
        with Live(view, console=people, refresh_per_second=FRAMES_A_SECOND, transient=True):

            def on_update(name: str, point: Point) -> None:
                view.note(name, point)
                if lines is not None:
                    lines.write(msgspec.json.encode(to_record(name, point)) + b"\n")

            result = replay(
                monitors(source),
                pool,
                chosen,
                events,
                traffic=traffic,
                violations=violations,
                seed=seed,
                on_update=on_update,
                progress=view.advance,
            )
    finally:
        if lines is not None:
            lines.close()
    if json:
        sys.stdout.buffer.write(msgspec.json.encode(result.to_dict()) + b"\n")
    else:
        summarise(result, view.rate, out)
    if no_report:
        return
    if importlib.util.find_spec("bokeh") is None:
        people.print("no report: Bokeh is not installed; pip install 'stream-leip[report]'")
        return
    write_report(from_result(result), report)
    people.print(f"report written to {report}", markup=False)


def monitors(profile: SourceProfile) -> dict[str, Monitor]:
    """The monitors that are compared."""
    return {
        "adaptive": Monitor(profile, on_bad="skip"),
        "tumbling LEIP": Monitor(profile, Tumbling(count=1000), "LEIP", on_bad="skip"),
        "tumbling EM": Monitor(profile, Tumbling(count=1000), "EM", on_bad="skip"),
    }


def source_and_pool(
    scores: Path | None, profile: Path | None, seed: int
) -> tuple[SourceProfile, Pool]:
    """The profile, and what events are drawn from: of the shipped example unless given."""
    if scores is None:
        data = files.example()
        known = data.val_logits, data.val_labels
        source = fit_profile(*known) if profile is None else SourceProfile.load(profile)
        return source, Pool(data.test_logits, data.test_labels.astype(np.int64))
    held = files.read(scores)
    if held.labels is None:
        raise InputError(
            f"{scores}: no labels; add an array 'labels' (.npz), or a column or field 'label'"
        )
    labels = np.asarray(held.labels)
    matrix = _matrix(held, scores)
    if profile is not None:
        source = SourceProfile.load(profile)
        if held.classes not in (None, source.classes):
            raise InputError(
                f"{scores}: its classes are not the profile's, in this order: "
                f"{', '.join(source.classes[:10])}; reorder the columns"
            )
        return source, Pool(matrix, labels, source.classes)
    half = np.zeros(len(labels), bool)
    half[np.random.default_rng(seed).permutation(len(labels))[: len(labels) // 2]] = True
    source = fit_profile(matrix[half], labels[half], held.classes)
    return source, Pool(matrix[~half], labels[~half], source.classes)


def _matrix(held: files.Table, path: Path) -> Scores:
    """The scores as an array; those of JSON lines are lists, or objects by class."""
    if isinstance(held.scores, np.ndarray):
        return held.scores
    names = held.classes or ()
    try:
        rows = [[row[j] for j in names] if isinstance(row, dict) else row for row in held.scores]
        return np.array(rows, np.float64)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: every line needs a score for each class, to draw events from: {error}"
        ) from error


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("wb")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
