"""`stream-leip kafka demo`: a real broker, a drift, and the connector, for under a minute."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import typer
from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from stream_leip import SourceProfile, fit_profile
from stream_leip.replay import Events, Pool, Stream, Sudden, Traffic
from stream_leip_connectors import files
from stream_leip_connectors.console import out, people, say

_KEY = "demo"
_EVERY = 500
_LINES = 4
# Seconds that the connector may take after the last event.
_PATIENCE = 20.0
_COMMAND = "from stream_leip_connectors.cli import main; main()"


def demo(
    events: Annotated[
        int, typer.Option(min=2000, help="How many. Example: --events 30000")
    ] = 12_000,
    rate: Annotated[
        float, typer.Option(min=1.0, help="Events a second. Example: --rate 3000")
    ] = 1000.0,
) -> None:
    """Try the connector: a real broker on this machine, a drift fed to a topic, updates read back.

    Needs the extras kafka and local-broker, and nothing else; all of it is gone at the end. The
    first time, Kafka's jars are fetched.

    Example: stream-leip kafka demo
    """
    from stream_leip_connectors.kafka.clients import make_client  # noqa: PLC0415
    from stream_leip_connectors.kafka.connection import Connection  # noqa: PLC0415
    from stream_leip_connectors.kafka.feeding import Feed  # noqa: PLC0415
    from stream_leip_connectors.kafka.following import Follower  # noqa: PLC0415
    from stream_leip_connectors.kafka.local import VERSION, LocalBroker  # noqa: PLC0415
    from stream_leip_connectors.kafka.topics import administering  # noqa: PLC0415

    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="stream-leip-")))
        with people.status("fitting a profile to the shipped example"):
            profile, pool = _source_and_pool()
            profile.save(folder / "profile.json")
        with people.status(f"starting Apache Kafka {VERSION}"):
            broker = held.enter_context(LocalBroker())
        connection = Connection(broker.bootstrap)
        with administering(make_client("kafka-python", connection)) as admin:
            admin.create("predictions", 2, {})
        connector = held.enter_context(_connector(folder, broker.bootstrap))
        view = View(profile, events)
        follower = Follower(make_client("kafka-python", connection), "priors", view.take)
        follower.start()
        held.callback(follower.close)
        traffic = Traffic(rate=rate, begin=time.time(), keys=(_KEY,))
        stream = Stream(pool, Sudden(to={-1: 0.5}), events, profile.soft_prior, traffic)
        begun = time.monotonic()
        with Live(view, console=people, refresh_per_second=4, transient=True):
            Feed(connection, "predictions", rate).run(
                stream, view.fed, lambda: connector.poll() is not None
            )
            _wait_for_the_end(view, connector, events)
        took = time.monotonic() - begun
        _end(connector, folder)
    for sentence in summary(view, stream, took, VERSION):
        out.print(sentence, markup=False, soft_wrap=True)


def _source_and_pool() -> tuple[SourceProfile, Pool]:
    held = files.example()
    profile = fit_profile(held.val_logits, held.val_labels)
    return profile, Pool(held.test_logits, held.test_labels.astype(np.int64))


@contextmanager
def _connector(folder: Path, bootstrap: str) -> Iterator["subprocess.Popen[bytes]"]:
    """The connector as anybody would start it, in a process of its own."""
    arguments = [
        "kafka", "run", "--profile", "profile.json", "--bootstrap", bootstrap,
        "--input", "predictions", "--updates", "priors", "--create-topics",
        "--window", f"adaptive every {_EVERY}",
    ]  # fmt: skip
    say(f"stream-leip {' '.join(arguments[:-1])} '{arguments[-1]}'")
    # Settings of whoever tries this are not meant for it.
    theirs = {key: value for key, value in os.environ.items() if key[:12] != "STREAM_LEIP_"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", _COMMAND, *arguments], cwd=folder, env=theirs, stderr=log
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _wait_for_the_end(view: "View", connector: "subprocess.Popen[bytes]", events: int) -> None:
    """Until the update of the last whole pane is there."""
    until = time.monotonic() + _PATIENCE
    wanted = events - events % _EVERY - 1
    while view.last < wanted and connector.poll() is None and time.monotonic() < until:
        time.sleep(0.1)


def _end(connector: "subprocess.Popen[bytes]", folder: Path) -> None:
    """Ask it to end, as a supervisor would."""
    from stream_leip_connectors.kafka.errors import BrokerError  # noqa: PLC0415

    if connector.poll() is None:
        connector.send_signal(signal.SIGTERM)
    try:
        code = connector.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        code = None
    if code != 0:
        said = (folder / "log").read_text(encoding="utf-8", errors="replace").splitlines()
        raise BrokerError(f"the connector ended with {code}. Its last words: {' '.join(said[-3:])}")


class View:
    """The newest update against the truth, and the last updates as they stand in the topic."""

    def __init__(self, profile: SourceProfile, events: int) -> None:
        self._profile = profile
        self._events = events
        self._lock = threading.Lock()
        self._fed = 0
        self._truth = profile.soft_prior
        self.updates: list[dict[str, Any]] = []

    @property
    def last(self) -> int:
        """The newest event that an update is about."""
        return int(self.updates[-1]["last"]) if self.updates else -1

    def fed(self, events: Events) -> None:
        """Events went to the topic."""
        with self._lock:
            self._fed += len(events)
            self._truth = events.truths[-1]

    def take(self, record: Any) -> None:
        """An update came from the topic."""
        with self._lock:
            self.updates.append(msgspec.json.decode(record.value))

    def __rich__(self) -> Group:
        with self._lock:
            newest = self.updates[-_LINES:]
            line = Text(
                f"{self._fed:,} of {self._events:,} events in, {len(self.updates)} updates out"
            )
            truth = self._truth
        if not newest:
            return Group(line, Text("the connector is starting"))
        return Group(line, self._table(newest[-1], truth), *map(_line, reversed(newest)))

    def _table(self, update: dict[str, Any], truth: Any) -> Table:
        table = Table("class", "source", "true", "now", "interval")
        source = self._profile.soft_prior
        for j, name in enumerate(self._profile.classes):
            low, high = update["low"], update["high"]
            interval = "" if low is None else f"{low[j]:.3f} – {high[j]:.3f}"
            now = f"{update['prior'][j]:.3f}"
            table.add_row(escape(name), f"{source[j]:.3f}", f"{truth[j]:.3f}", now, interval)
        return table


def _line(update: dict[str, Any]) -> Text:
    prior = ", ".join(f"{share:.2f}" for share in update["prior"])
    alarm = "  ALARM" if (update["alarm"] or {}).get("raised") else ""
    return Text(
        f"priors: key {update['key']}, sequence {update['sequence']}, events to "
        f"{update['last']:,}, prior [{prior}]{alarm}",
        overflow="ellipsis",
        no_wrap=True,
    )


def summary(view: View, stream: Stream, took: float, version: str) -> tuple[str, str]:
    """What happened, in two sentences."""
    updates = view.updates
    sequences = [update["sequence"] for update in updates]
    once = "each once" if sequences == list(range(len(updates))) else "NOT each once"
    first = (
        f"{stream.n:,} events went through Apache Kafka {version} in {took:.0f} s, and the "
        f"connector wrote {len(updates)} updates, {once}."
    )
    if not updates:
        return first, "No update came back: that is not as it should be."
    newest = updates[-1]
    truth = stream.plan.priors(stream.n - 1, stream.n)[0]
    away = 0.5 * np.abs(np.array(newest["prior"]) - truth).sum()
    before = 0.5 * np.abs(truth - stream.plan.priors(0, 1)[0]).sum()
    raised = next((each for each in updates if (each["alarm"] or {}).get("raised")), None)
    told = (
        "the alarm was not raised"
        if raised is None
        else f"the alarm was raised by event {raised['last']:,}"
    )
    second = (
        f"The mix changed at event {stream.changes[0]:,}, {told}, and the last estimate is "
        f"{away:.3f} from the truth in total variation, from which the mix before is {before:.3f}."
    )
    return first, second
