"""stream-leip dashboard."""

import functools
import logging
from pathlib import Path
from typing import Annotated

import typer

from stream_leip.replay import replay
from stream_leip_connectors import extras
from stream_leip_connectors.commands import replay as replaying
from stream_leip_connectors.commands.options import ConfigFile, option, settings_of
from stream_leip_connectors.config import (
    DashboardSettings,
    KafkaSettings,
    MonitorSettings,
    WrongUsage,
)
from stream_leip_connectors.console import people, say
from stream_leip_connectors.dashboard.feeds import Feed, FileFeed, KafkaFeed, ReplayFeed, running
from stream_leip_connectors.dashboard.streams import Streams
from stream_leip_connectors.loading import find_file, load
from stream_leip_connectors.stopping import stopping


def dashboard(
    updates_file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="Updates as JSON lines, as 'watch --output' writes them. It may grow, be "
            "rotated, go and come back. A replay is shown unless given.",
        ),
    ] = None,
    simulated: Annotated[
        bool,
        typer.Option(
            "--replay",
            metavar="",
            help="Show a simulated drift: the default. Example: --replay --schedule square",
        ),
    ] = False,
    kafka: Annotated[
        bool,
        typer.Option(
            "--kafka",
            metavar="",
            help="Show a Kafka topic of updates, with all its keys. "
            "Example: --kafka --updates priors",
        ),
    ] = False,
    bootstrap: Annotated[
        str | None, option(KafkaSettings, "bootstrap", "--bootstrap a:9092,b:9092")
    ] = None,
    updates: Annotated[str | None, option(KafkaSettings, "updates", "--updates priors")] = None,
    schedule: Annotated[
        replaying.Name,
        typer.Option(
            metavar="NAME",
            help=f"How the true mix of a replay moves: {', '.join(replaying.SCHEDULES)}. "
            "Example: --schedule square",
        ),
    ] = replaying.Name.tour,  # type: ignore[attr-defined]
    events: Annotated[
        int, typer.Option(min=1, help="How many a replay has. Example: --events 50000")
    ] = 200_000,
    pace: Annotated[
        float, typer.Option(min=1, help="Events a second of a replay. Example: --pace 500")
    ] = 2000.0,
    seed: Annotated[
        int, typer.Option(min=0, help="The same seed, the same events. Example: --seed 7")
    ] = 0,
    address: Annotated[
        str | None, option(DashboardSettings, "address", "--address 0.0.0.0")
    ] = None,
    port: Annotated[int | None, option(DashboardSettings, "port", "--port 8080")] = None,
    token: Annotated[
        str | None, option(DashboardSettings, "token", "--token correct-horse-battery")
    ] = None,
    origin: Annotated[
        str | None, option(DashboardSettings, "origin", "--origin dash.example.com")
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Serve a page that shows the mix as it moves, from a replay, a file or a Kafka topic.

    Open the address that it prints. Ctrl-C and SIGTERM end it. Connections to Kafka are secured as
    those of 'kafka run': by the table 'kafka' of the file, or variables STREAM_LEIP_KAFKA_….

    Example: stream-leip dashboard updates.jsonl --port 8080
    """
    flags = dict(locals())
    served = load(DashboardSettings, settings_of(DashboardSettings, flags), config).values
    named = {"FILE": updates_file is not None, "--replay": simulated, "--kafka": kafka}
    if sum(named.values()) > 1:
        both = " and ".join(name for name, given in named.items() if given)
        raise WrongUsage(f"{both}: there is one source at a time; leave one out")
    extras.bokeh()
    feed: Feed
    if updates_file is not None:
        feed = FileFeed(updates_file)
    elif kafka:
        io = load(KafkaSettings, settings_of(KafkaSettings, flags), config).values
        # The client would say the same of a broker that is away, many times.
        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        feed = KafkaFeed(io.bootstrap, io.updates, io.client_options())
    else:
        feed = _replay(schedule.value, events, pace, seed)
    from stream_leip_connectors.dashboard.page import Dashboard  # noqa: PLC0415

    streams = Streams()
    page = Dashboard(streams, feed, served, _configured(config))
    with stopping(page.stop), running(feed, streams):
        say(f"{feed.name}: open {page.url}{' and give the token' if served.needs_token else ''}")
        page.run()


def _replay(schedule: str, events: int, pace: float, seed: int) -> ReplayFeed:
    with people.status("fitting a profile (the first run compiles the kernels, about 20 s)"):
        source, pool = replaying.source_and_pool(None, None, seed)
    monitors = replaying.monitors(source)
    settings = {
        name: {"window": str(each.window), "estimator": str(each.estimator)}
        for name, each in monitors.items()
    }
    begin = functools.partial(
        replay, monitors, pool, replaying.SCHEDULES[schedule](), events, seed=seed
    )
    return ReplayFeed(
        f"replay of a drift ({schedule})",
        lambda on_update, progress: begin(on_update=on_update, progress=progress),
        pace,
        settings,
    )


def _configured(config: Path | None) -> dict[str, str]:
    """Settings of the monitor that a configuration file has, and which file that is."""
    file = find_file(config)
    if file is None:
        return {}
    found = load(MonitorSettings, {}, config)
    return {
        f"{name} in {file}": str(getattr(found.values, name))
        for name, origin in found.origins.items()
        if origin == str(file)
    }
