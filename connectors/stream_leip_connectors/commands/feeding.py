"""Writing a replayed drift to a topic, with a bar for people to watch."""

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from stream_leip.replay import Stream
from stream_leip_connectors.config import KafkaSettings
from stream_leip_connectors.console import people, say
from stream_leip_connectors.loading import load
from stream_leip_connectors.stopping import stopping


def feed_topic(stream: Stream, bootstrap: str, topic: str, rate: float) -> None:
    """Send all events; passwords and certificates are those of the Kafka settings."""
    io = load(KafkaSettings, {"bootstrap": bootstrap, "input": topic}).values
    from stream_leip_connectors.kafka.connection import Connection  # noqa: PLC0415
    from stream_leip_connectors.kafka.feeding import Feed  # noqa: PLC0415

    feed = Feed(Connection(io.bootstrap, io.client_options()), topic, rate)
    bar = Progress(
        TextColumn("feeding"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=people, transient=True,
    )  # fmt: skip
    task = bar.add_task("", total=stream.n)
    with stopping() as stop, bar:
        sent = feed.run(stream, lambda events: bar.advance(task, len(events)), lambda: stop.asked)
    say(f"{sent:,} events written to {topic}")
