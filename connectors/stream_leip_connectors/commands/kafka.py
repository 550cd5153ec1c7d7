"""stream-leip kafka: run, check, reset and demo."""

import logging
from pathlib import Path
from typing import Annotated, Any

import typer

from stream_leip import SourceProfile
from stream_leip_connectors.commands import kafka_options as options
from stream_leip_connectors.commands.kafka_demo import demo
from stream_leip_connectors.commands.options import ConfigFile, LogFormat, settings_of, takes
from stream_leip_connectors.config import KafkaSettings, LogSettings, MonitorSettings, WrongUsage
from stream_leip_connectors.console import out, say
from stream_leip_connectors.loading import load
from stream_leip_connectors.logs import log_to_stderr
from stream_leip_connectors.stopping import stopping
from stream_leip_connectors.window_text import parse_window

log = logging.getLogger("stream_leip.kafka")
app = typer.Typer(no_args_is_help=True, help="Watch a topic of predictions on Apache Kafka.")
app.command()(demo)


@app.command()
@takes(options.MONITOR | options.TOPICS | options.WORKING | options.SECURITY | options.OPERATING)
def run(
    flags: dict[str, Any],
    log_format: LogFormat = None,
    adopt: Annotated[
        bool,
        typer.Option(
            "--adopt",
            metavar="",
            help="The state is of another profile, or of other settings: close its panes with a "
            "last update, and start clean. Example: --profile v8.json --adopt",
        ),
    ] = False,
    config: ConfigFile = None,
) -> None:
    """Watch a topic: an update for each key, to another topic, whenever a window ends.

    Exactly once: updates, dead letters, state and input offsets are one transaction, every second.
    SIGTERM and Ctrl-C finish the batch, commit, leave the group and exit with 0; whoever takes over
    goes on from there.

    Example: stream-leip kafka run --input predictions --create-topics
    """
    flags |= _profiles(flags["profile"])
    taken = load(MonitorSettings, settings_of(MonitorSettings, flags), config).values
    io = load(KafkaSettings, settings_of(KafkaSettings, flags), config).values
    from stream_leip_connectors.kafka.monitor import KafkaMonitor  # noqa: PLC0415

    log_to_stderr(load(LogSettings, {"format": log_format}, config).values.format)
    monitor = KafkaMonitor(
        {name: SourceProfile.load(path) for name, path in io.models.items()}
        or SourceProfile.load(taken.profile),
        io,
        parse_window(taken.window),
        taken.estimator,
        adopt=adopt,
        **taken.options(),
    )
    with stopping(monitor.stop):
        monitor.run()
    log.info("ended: %s", monitor.total)


def _profiles(given: list[str] | None) -> dict[str, Any]:
    """One profile, or a path for each model."""
    split = [each.rpartition("=") for each in given or ()]
    models = {name: Path(path) for name, sign, path in split if sign}
    if not models and len(split) < 2:
        return {"profile": Path(split[0][2]) if split else None}
    if len(models) < len(split):
        raise WrongUsage(
            f"--profile: {', '.join(given or ())}; several models need a name each, as in "
            "--profile v7=v7.json --profile v8=v8.json"
        )
    return {"profile": None, "models": models}


@app.command()
@takes(options.TOPICS | options.WORKING | options.SECURITY)
def check(flags: dict[str, Any], config: ConfigFile = None) -> None:
    """Reach the brokers, and say what a run with these settings would miss there.

    Topics, their partitions and clean-up, rights, transactions and codecs: a line for each, with
    the remedy. Nothing is made or written. Exit code 1 if something is wrong.

    Example: stream-leip kafka check --bootstrap localhost:9092 --input predictions
    """
    io = load(KafkaSettings, settings_of(KafkaSettings, flags), config).values
    from stream_leip_connectors.kafka.checking import check  # noqa: PLC0415

    wrong = 0
    for finding in check(io):
        out.print(str(finding), markup=False, soft_wrap=True)
        wrong += not finding.fine
    if wrong:
        say(f"{wrong} of these to mend")
        raise typer.Exit(1)


@app.command()
@takes(options.TOPICS | options.SECURITY)
def reset(
    flags: dict[str, Any],
    yes: Annotated[
        bool,
        typer.Option("--yes", metavar="", help="Do not ask. Example: --group fraud-priors --yes"),
    ] = False,
    config: ConfigFile = None,
) -> None:
    """Forget the state and the offsets of a group: the next run begins anew.

    Updates and dead letters that were written stay.

    Example: stream-leip kafka reset --group stream-leip --yes
    """
    io = load(KafkaSettings, settings_of(KafkaSettings, flags), config).values
    from stream_leip_connectors.kafka.monitor import reset  # noqa: PLC0415

    what = f"the offsets of group {io.group!r} and its state in {io.changelog_topic!r}"
    if io.scope == "topic":
        what += f", and what is of the whole topic: {io.panes_topic!r}, and state and offsets of it"
    if not yes:
        typer.confirm(f"Forget {what}?", abort=True, err=True)
    if reset(io):
        say(f"forgot {what}")
    else:
        say(
            f"there was no state in {io.changelog_topic!r}; the offsets of group {io.group!r}, if "
            "there were any, are forgotten. Is that the --group of the run?"
        )
