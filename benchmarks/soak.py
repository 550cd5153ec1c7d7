"""The Kafka connector for a long time at half its top rate: its memory and its lag.

Run `python -m benchmarks.soak [--minutes 15] [--client confluent] [--markdown docs/kafka.md]
[--picture docs/images/kafka-soak.svg]`.
It first measures the top rate, on a topic that is full. Linux only: memory is read from /proc. The
connector is a process of its own; the broker and the one who writes share the cores with it. Events
are written by confluent-kafka: kafka-python cannot write half of what the connector reads.
"""

import multiprocessing
import os
import signal
import socket
import threading
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from confluent_kafka import Producer
from numpy.typing import NDArray
from stream_leip_connectors.config import KafkaSettings
from stream_leip_connectors.kafka import KafkaMonitor, LocalBroker
from stream_leip_connectors.window_text import parse_window

from benchmarks.curves import Curve, draw
from benchmarks.kafka import KEYS, PARTITIONS, connector, fill, json_event, source
from benchmarks.reporting import Report, context, steps
from stream_leip import SourceProfile

TOP_EVENTS = 200_000
SAMPLES = 180
TURNS = 20  # a second, of the one who writes
WARM = 0.2  # of the time: windows fill, memory grows
# The broker keeps a minute or so of the input: all of it would be 10 GB.
RETENTION = {
    "log.segment.bytes": str(32 << 20),
    "log.retention.bytes": str(128 << 20),
    "log.retention.check.interval.ms": "20000",
}


@dataclass(frozen=True)
class Sample:
    """Seconds since the start, MiB that the connector holds, and events that it is behind."""

    at: float
    memory: float
    lag: float


def work(settings: dict[str, Any], profile: SourceProfile, window: str) -> None:
    """Be the connector until SIGTERM."""
    monitor = KafkaMonitor(profile, KafkaSettings(**settings), parse_window(window))
    signal.signal(signal.SIGTERM, lambda *_: monitor.stop())
    monitor.run()


class Writing(threading.Thread):
    """Writes events at a rate."""

    def __init__(self, bootstrap: str, topic: str, rows: NDArray[np.float64], rate: float) -> None:
        super().__init__(daemon=True)
        self._where, self._topic, self._rate = bootstrap, topic, rate
        self._values = [json_event(i, row) for i, row in enumerate(rows.tolist())]
        self._enough = threading.Event()
        self.events = 0

    def run(self) -> None:
        """Write."""
        producer = Producer({"bootstrap.servers": self._where, "linger.ms": 50})
        names = [f"key-{number}".encode() for number in range(KEYS)]
        due = time.monotonic()
        while not self._enough.is_set():
            for _ in range(int(self._rate / TURNS)):
                i = self.events
                producer.produce(
                    self._topic, self._values[i % len(self._values)], names[i * 7919 % KEYS]
                )
                self.events += 1
            producer.poll(0)
            due += 1 / TURNS
            time.sleep(max(0.0, due - time.monotonic()))
        producer.flush()

    def end(self) -> None:
        """Write no more."""
        self._enough.set()
        self.join()


def memory(pid: int) -> float:
    """MiB that a process holds."""
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = [each for each in status.splitlines() if each.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def lag(port: int) -> float:
    """Events that it is behind, over all partitions."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return sum(
        float(each.split()[-1]) for each in lines if each.startswith("stream_leip_lag_events{")
    )


def soak(
    broker: LocalBroker, profile: SourceProfile, rows: NDArray[np.float64], rate: float,
    minutes: float, window: str, client: str,
) -> tuple[list[Sample], int]:  # fmt: skip
    """What was seen, and how many events were written."""
    topic = fill(broker.bootstrap, rows, PARTITIONS, raw=False, keys=KEYS)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    settings = {
        "bootstrap": broker.bootstrap, "input": topic, "updates": "soak-priors", "group": "soak",
        "create_topics": True, "client": client, "metrics_port": port,
    }  # fmt: skip
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=work, args=(settings, profile, window))
    process.start()
    assert process.pid is not None
    writing = Writing(broker.bootstrap, topic, rows, rate)
    found: list[Sample] = []
    try:
        time.sleep(10.0)  # to start, and to compile what is not cached
        writing.start()
        began = time.monotonic()
        every = 60.0 * minutes / SAMPLES
        for number in range(1, SAMPLES + 1):
            time.sleep(max(0.0, began + number * every - time.monotonic()))
            found.append(Sample(time.monotonic() - began, memory(process.pid), lag(port)))
        writing.end()
        os.kill(process.pid, signal.SIGTERM)
        process.join(30)
    finally:
        process.kill()
    return found, writing.events


def judge(samples: list[Sample], asked: float, events: int, report: Report) -> None:
    rate = events / samples[-1].at
    report.require(
        f"written: the rate asked for, {asked:,.0f}/s", f"{rate:,.0f}/s", rate >= 0.98 * asked
    )
    warm = [each for each in samples if each.at > WARM * samples[-1].at]
    half = len(warm) // 2
    first, last = (
        float(np.median([each.memory for each in part])) for part in (warm[:half], warm[half:])
    )
    behind = [each.lag / rate for each in warm]
    table = report.section(
        f"{events:,} events at {rate:,.0f} a second, {samples[-1].at / 60:.0f} minutes",
        "after", "memory, MiB", "lag, events", "lag, seconds",
    )  # fmt: skip
    for each in samples[len(samples) // 10 - 1 :: len(samples) // 10]:
        table.lines.append(
            (f"{each.at / 60:.1f} min", f"{each.memory:.0f}", f"{each.lag:,.0f}",
             f"{each.lag / rate:.2f}")
        )  # fmt: skip
    growth = last / first - 1
    report.require("memory: second half within 5 % of the first", f"{growth:+.1%}", growth < 0.05)
    # A commit takes place every second: so much is on its way.
    report.require(
        "lag: at most two seconds, and not growing",
        f"median {np.median(behind):.2f} s, highest {max(behind):.2f} s",
        max(behind) <= 2.0,
    )


def main(
    minutes: Annotated[float, typer.Option(help="How long.")] = 15.0,
    window: Annotated[str, typer.Option(help="As for kafka run.")] = "adaptive",
    client: Annotated[str, typer.Option(help="As for kafka run.")] = "kafka-python",
    rate: Annotated[float | None, typer.Option(help="Events a second, not half the top.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw both curves, as SVG.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the tables to this page.")] = None,
) -> None:
    machine = context(["kafka-python", "confluent-kafka", "numpy", "numba"])
    report = Report()
    profile, rows = source()
    with LocalBroker(settings=RETENTION) as broker, steps(2) as step:
        if rate is None:
            step("the top rate")
            topic = fill(broker.bootstrap, rows, TOP_EVENTS, raw=False, keys=KEYS)
            made = parse_window(window)
            top = connector(broker.bootstrap, topic, profile, made, TOP_EVENTS, client=client)
            rate = top.rate / 2
        step(f"{minutes:g} minutes at {rate:,.0f} events/s")
        samples, events = soak(broker, profile, rows, rate, minutes, window, client)
    judge(samples, rate, events, report)
    report.show(machine)
    if picture is not None:
        memories, lags = [each.memory for each in samples], [each.lag for each in samples]
        curves = Curve("Memory of the connector, MiB", memories), Curve("Lag, events", lags)
        draw(picture, [each.at for each in samples], curves)
    if markdown is not None:
        report.write(markdown, "benchmarks/soak.py", "Measured, over time", machine)


if __name__ == "__main__":
    typer.run(main)
