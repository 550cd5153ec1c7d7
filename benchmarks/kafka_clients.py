"""The Kafka connector by confluent-kafka against the one by kafka-python, on a local broker.

Run `python -m benchmarks.kafka_clients [--quick] [--markdown docs/kafka.md]`. The events are those
of benchmarks.kafka; the broker shares the cores, so ratios within one run are what to look at. The
bare loop is kafka-python's own poll, record by record, and decodes only.
"""

import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from stream_leip_connectors.kafka import LocalBroker
from stream_leip_connectors.kafka.clients import make_client
from stream_leip_connectors.kafka.connection import Connection
from stream_leip_connectors.security import ClientName

from benchmarks.kafka import (
    EVENTS,
    KEYS,
    PARTITIONS,
    QUICK,
    Measured,
    bare,
    connector,
    fill,
    source,
)
from benchmarks.reporting import Report, Step, context, steps
from stream_leip import Adaptive, SourceProfile, Tumbling

CLIENTS: tuple[ClientName, ...] = ("kafka-python", "confluent")
REPEATS = 3
CASES = [
    ("tumbling 1000", Tumbling(count=1000), "exactly-once"),
    ("adaptive", Adaptive(), "exactly-once"),
    ("tumbling 1000", Tumbling(count=1000), "at-least-once"),
]


def alone(bootstrap: str, topic: str, client: ClientName, events: int) -> tuple[float, float]:
    """µs of CPU an event, of the process and of its own thread, that reading into columns takes."""
    reader = make_client(client, Connection(bootstrap)).reader()
    reader.start(topic, dict.fromkeys(range(PARTITIONS), 0))
    taken, cpu, own = 0, time.process_time(), time.thread_time()
    while taken < events:
        taken += sum(map(len, reader.poll(0.2).values()))
    cpu, own = time.process_time() - cpu, time.thread_time() - own
    reader.close()
    return 1e6 * cpu / events, 1e6 * own / events


def read_only(bootstrap: str, topic: str, events: int, report: Report, repeats: int) -> None:
    """What the clients cost without the connector: the most that another one could save."""
    table = report.section(
        f"Reading into columns only, least of {repeats}", "client", "µs of CPU an event",
        "of it in the thread that polls",
    )  # fmt: skip
    for client in CLIENTS:
        cpu, own = min(alone(bootstrap, topic, client, events) for _ in range(repeats))
        table.lines.append((client, f"{cpu:.2f}", f"{own:.2f}"))


def compare(
    bootstrap: str, profile: SourceProfile, rows: NDArray[np.float64], events: int, report: Report,
    repeats: int, step: Step,
) -> None:  # fmt: skip
    table = report.section(
        f"By client and delivery, {events:,} JSON events of {KEYS} keys, best of {repeats}",
        "window", "delivery", "client", "events/s", "of kafka-python", "events per CPU second",
        "of kafka-python", "of the bare loop", "in commits",
    )  # fmt: skip
    step("clients: writing")
    topic = fill(bootstrap, rows, events, raw=False, keys=KEYS)
    loops: list[Measured] = []
    for _ in range(repeats):
        step("bare loop")
        loops.append(bare(bootstrap, topic, profile, events, raw=False, whole=False))
    leanest = max(each.cpu_rate for each in loops)
    for name, window, delivery in CASES:
        found: dict[str, list[Measured]] = {each: [] for each in CLIENTS}
        for _ in range(repeats):
            for client, runs in found.items():
                step(f"{client}: {name}, {delivery}")
                more = {"client": client, "delivery": delivery}
                runs.append(connector(bootstrap, topic, profile, window, events, **more))
        ours, theirs = (
            [max(each.rate for each in runs), max(each.cpu_rate for each in runs)]
            for runs in (found["confluent"], found["kafka-python"])
        )
        for client, (rate, cpu_rate) in {"kafka-python": theirs, "confluent": ours}.items():
            table.lines.append(
                (name, delivery, client, f"{rate:,.0f}", f"{rate / theirs[0]:.2f}",
                 f"{cpu_rate:,.0f}", f"{cpu_rate / theirs[1]:.2f}", f"{cpu_rate / leanest:.2f}",
                 f"{found[client][-1].commit_share:.0%}")
            )  # fmt: skip
        if (name, delivery) == ("tumbling 1000", "exactly-once"):
            ratio = ours[0] / theirs[0]
            report.require("confluent: twice kafka-python", f"{ratio:.2f} times", ratio >= 2.0)
            of_bare = ours[1] / leanest
            report.require(
                "confluent: twice a bare kafka-python loop, by CPU",
                f"{of_bare:.2f} times",
                of_bare >= 2.0,
            )
    step("reading only")
    read_only(bootstrap, topic, events, report, repeats)


def main(
    quick: Annotated[bool, typer.Option(help="Fewer events, once each.")] = False,
    markdown: Annotated[Path | None, typer.Option(help="Write the tables to this page.")] = None,
) -> None:
    machine = context(["kafka-python", "confluent-kafka", "numpy", "numba"])
    events, repeats = (QUICK, 1) if quick else (EVENTS, REPEATS)
    report = Report()
    profile, rows = source()
    with LocalBroker() as broker, steps(2 + repeats * (1 + len(CLIENTS) * len(CASES))) as step:
        where = broker.bootstrap
        warm = fill(where, rows, 5000, raw=False, keys=5)
        for client in CLIENTS:
            connector(where, warm, profile, Adaptive(), 5000, client=client)
        compare(where, profile, rows, events, report, repeats, step)
    report.show(machine)
    if markdown is not None:
        report.write(markdown, "benchmarks/kafka_clients.py", "Measured, by client", machine)


if __name__ == "__main__":
    typer.run(main)
