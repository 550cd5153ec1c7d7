"""stream-leip watch."""

import time as clock
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Annotated, Any

import typer

from stream_leip import SourceProfile
from stream_leip_connectors.batches import Opening, Reader
from stream_leip_connectors.commands.options import (
    MONITOR,
    ConfigFile,
    check_apart,
    option,
    settings_of,
    takes,
)
from stream_leip_connectors.config import MonitorSettings, WatchSettings, WrongUsage
from stream_leip_connectors.console import say
from stream_leip_connectors.detection import Asked, describe
from stream_leip_connectors.live import counted, live_table
from stream_leip_connectors.loading import load
from stream_leip_connectors.reading import STDIN, open_reader
from stream_leip_connectors.sinks import Sink
from stream_leip_connectors.stopping import stopping
from stream_leip_connectors.watching import Saved, Watch

OPTIONS: dict[str, Any] = {
    "profile": Annotated[Path | None, option(MonitorSettings, "profile", "--profile v7.json")],
    **MONITOR,
    "key": Annotated[str | None, option(WatchSettings, "key", "--key shop")],
    "time": Annotated[str | None, option(WatchSettings, "time", "--time created_at")],
    "scores": Annotated[str | None, option(WatchSettings, "scores", "--scores probs")],
    "format": Annotated[
        str | None,
        option(
            WatchSettings,
            "format",
            "cat scores.csv | stream-leip watch --format csv",
            lambda: ["jsonl", "csv", "parquet", "npz", "float32"],
        ),
    ],
    "output": Annotated[Path | None, option(WatchSettings, "output", "--output p.jsonl")],
    "state": Annotated[Path | None, option(WatchSettings, "state", "--state watch.state")],
    "state_every": Annotated[
        float | None, option(WatchSettings, "state_every", "--state-every 60")
    ],
    "dead_letters": Annotated[
        Path | None, option(WatchSettings, "dead_letters", "--dead-letters bad.jsonl")
    ],
}


@takes(OPTIONS)
def watch(
    flags: dict[str, Any],
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="JSON lines, .csv, .parquet, .npz or .f32; - or nothing for JSON lines on stdin.",
        ),
    ] = STDIN,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            "-f",
            metavar="",
            help="Wait for more when the file ends, as for a log that grows, until Ctrl-C. "
            "Example: stream-leip watch log.jsonl --follow",
        ),
    ] = False,
    config: ConfigFile = None,
) -> None:
    """Watch a stream of predictions: an update, as a line of JSON, whenever a window ends.

    stdout is data, stderr is people. Ctrl-C and SIGTERM finish the batch, write the state and exit
    with 0; a run with the same --state then goes on as if there had been no pause. Exit code 1 if
    some lines could not be used.

    Example: stream-leip watch demo/predictions.jsonl --window "tumbling 2000"
    """
    taken = load(MonitorSettings, settings_of(MonitorSettings, flags), config).values
    io = load(WatchSettings, settings_of(WatchSettings, flags), config).values
    if source == STDIN and follow:
        raise WrongUsage("--follow: stdin is followed to its end in any case; leave it out")
    name = "stdin" if source == STDIN else str(source)
    check_apart(
        {
            "the input": None if source == STDIN else source,
            "--profile": taken.profile,
            "--output": io.output,
            "--state": io.state,
            "--dead-letters": io.dead_letters,
        }
    )
    with stopping() as stop, ExitStack() as held:
        fitted = SourceProfile.load(taken.profile)
        saved = None if io.state is None else Saved.load(io.state, fitted, taken)
        before = {} if saved is None else saved.fields
        reader = open_reader(
            Opening(
                source,
                fitted,
                Asked(io.scores, io.time, io.key),
                io.format,
                follow=follow,
                keep_unfinished=io.state is not None,
                mark=before.get("reader"),
            )
        )
        held.callback(reader.close)
        updates = held.enter_context(closing(Sink(io.output, before.get("updates"))))
        letters = None
        if io.dead_letters is not None:
            mark = before.get("letters")
            letters = held.enter_context(closing(Sink(io.dead_letters, mark)))
        watching = Watch(fitted, taken, reader, name, updates, letters, saved)
        bad_before = watching.counts.bad
        _run(watching, reader, name, fitted, io.state_every, lambda: stop.asked)
        bad = watching.counts.bad - bad_before
    if bad:
        what = "it is" if bad == 1 else "they are"
        where = f"{what} in {io.dead_letters}" if io.dead_letters else "see --dead-letters"
        units = reader.unit if bad == 1 else f"{reader.unit}s"
        say(
            f"{bad:,} {units} of {name} could not be used ({where}); the first: "
            f"{watching.first_bad}"
        )
        raise typer.Exit(0 if stop.asked else 1)


def _run(
    watching: Watch,
    reader: Reader,
    name: str,
    profile: SourceProfile,
    every: float,
    asked: Callable[[], bool],
) -> None:
    """Feed until the end or until asked to stop; keep the state."""
    watching.save()  # a place that cannot be written is better known now than at the end
    saved_at = clock.monotonic()
    said = False
    with live_table(watching, profile) as show:
        while not asked() and watching.step():
            if not said and reader.fields is not None:
                said = True
                say(f"{name}: {describe(reader.fields)}")
            if clock.monotonic() - saved_at >= every:
                watching.save()
                saved_at = clock.monotonic()
            show()
        watching.save()
    if getattr(reader, "unfinished", False):
        say(f"{name}: its last line is not finished; it is left for the next run")
    say(counted(watching.counts, watching.keys))
    now = watching.now()
    if now is not None and now.n:
        say(f"now: {now}")
