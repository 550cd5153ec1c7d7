"""The Kafka connector against a bare loop that polls and decodes only, on a local broker.

Run `python -m benchmarks.kafka [--quick] [--markdown docs/kafka.md]`. The broker shares the cores:
ratios within one run are what to look at, and those of CPU seconds on a machine that others use
too. 30 keys, 8 partitions, 241-byte events of 10
probabilities; transactions every second and the changelog are on.
"""

import os

# One core for all, which the libraries read when numpy is first imported.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

import cProfile
import pstats
import threading
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import typer
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from numpy.typing import NDArray
from stream_leip_connectors.config import KafkaSettings
from stream_leip_connectors.events import FLOAT32, EventDecoder, decode_float32
from stream_leip_connectors.kafka import KafkaMonitor, LocalBroker
from stream_leip_connectors.kafka.batching import batched, columns
from stream_leip_connectors.kafka.task import Task
from stream_leip_connectors.kafka.worker import Worker

from benchmarks.reporting import Report, Step, context, steps
from stream_leip import Adaptive, Sliding, SourceProfile, Tumbling, fit_profile

_WHOLE = "whole batches: poll and decode"
CLASSES, KEYS, PARTITIONS = 10, 30, 8
EVENTS, QUICK = 600_000, 100_000
ROWS = 1_000_000
REPEATS = 2


@dataclass(frozen=True)
class Measured:
    """Events a second, and a second of CPU; the connector's transactions and its changelog."""

    rate: float
    cpu_rate: float
    commit_share: float = 0.0
    changelog: float = 0.0


def source() -> tuple[SourceProfile, NDArray[np.float64]]:
    """A profile of probabilities, and events of a mix that is not the source's."""
    rng = np.random.default_rng(7)

    def draw(labels: NDArray[np.int64]) -> NDArray[np.float64]:
        logits = 3.0 * np.eye(CLASSES)[labels] + rng.normal(size=(len(labels), CLASSES))
        odds = np.exp(logits)
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))

    known = rng.integers(CLASSES, size=2000)
    profile = fit_profile(draw(known), known, kind="probabilities")
    return profile, draw(rng.choice(CLASSES, 20_000, p=rng.dirichlet(np.ones(CLASSES))))


def fill(bootstrap: str, rows: NDArray[np.float64], events: int, *, raw: bool, keys: int) -> str:
    """A topic with events in it."""
    topic = f"in-{uuid.uuid4().hex[:8]}"
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics({topic: {"num_partitions": PARTITIONS}}, wait_for_metadata=True)
    admin.close()
    if raw:
        values = [row.tobytes() for row in rows.astype("<f4")]
    else:
        values = [json_event(i, row) for i, row in enumerate(rows.tolist())]
    names = [f"key-{number}".encode() for number in range(keys)]
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=50, batch_size=256 << 10)
    headers = [("content-type", FLOAT32.encode())] if raw else None
    for i in range(events):
        # A prime step: every key sees every row in the long run.
        producer.send(topic, values[i % len(values)], names[i * 7919 % keys], headers)
    producer.flush()
    producer.close()
    return topic


def json_event(number: int, row: list[float]) -> bytes:
    """241 bytes: ten probabilities of 15 digits or so, and an id that fills what is left."""
    scores = msgspec.json.encode([round(value, 15) for value in row])
    left = 241 - len(scores) - len(b'{"id":"","scores":}')
    return b'{"id":"%s","scores":%s}' % (b"%09d" % number + b"-" * (left - 9), scores)


def bare(
    bootstrap: str, topic: str, profile: SourceProfile, events: int, *, raw: bool, whole: bool
) -> Measured:
    """A loop that polls and decodes, to a matrix of scores and no more.

    Values only: no keys, no times, and no row is checked. `whole` reads batches as the connector
    does, instead of kafka-python's records.
    """
    decoder = EventDecoder(profile)
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        max_poll_records=10_000,
        max_partition_fetch_bytes=4 << 20,
    )
    partitions = [TopicPartition(topic, each) for each in range(PARTITIONS)]
    consumer.assign(partitions)
    if whole and not batched(consumer):
        raise RuntimeError("this kafka-python cannot be read in whole batches")
    consumer.seek_to_beginning(*partitions)
    taken, began, cpu = 0, time.perf_counter(), time.process_time()
    while taken < events:
        for records in consumer.poll(200).values():
            values: Any = columns(records).values if whole else [each.value for each in records]
            decoded = decode_float32(values, CLASSES) if raw else decoder.decode(values)
            taken += len(decoded.scores)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    consumer.close()
    return Measured(events / seconds, events / cpu)


class Run:
    """The connector on a topic, in a thread, until it has committed so many events."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        profile: SourceProfile,
        window: Any,
        group: str,
        **more: Any,
    ) -> None:
        settings = KafkaSettings(
            bootstrap=bootstrap,
            input=topic,
            updates=f"{group}-priors",
            group=group,
            create_topics=True,
            **more,
        )
        self.monitor = KafkaMonitor(profile, settings, window)
        self.profile: cProfile.Profile | None = None
        self.rows = 0
        self._thread = threading.Thread(target=self._run)

    @property
    def worker(self) -> Worker:
        """What it runs."""
        assert self.monitor.worker is not None
        return self.monitor.worker

    def _run(self) -> None:
        if self.profile is None:
            self.monitor.run()
        else:
            self.profile.runcall(self.monitor.run)

    def until(self, events: int) -> tuple[float, float]:
        """Seconds from the first event it may take to the commit of the last, by clock and CPU."""
        self._thread.start()
        while len(self.monitor.counts) < PARTITIONS:
            time.sleep(0.002)
        began, cpu = time.perf_counter(), time.process_time()
        while self.monitor.total.events < events:
            time.sleep(0.01)
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        if not events:  # it is idle, so that one may look
            tasks = self.worker.tasks.values()
            self.rows = sum(_rows(task) for task in tasks if isinstance(task, Task))
        self.end()
        return seconds, cpu

    def end(self) -> None:
        """Stop it, in order."""
        self.monitor.stop()
        self._thread.join()


def connector(
    bootstrap: str, topic: str, profile: SourceProfile, window: Any, events: int, **more: Any
) -> Measured:
    group = f"g-{uuid.uuid4().hex[:8]}"
    run = Run(bootstrap, topic, profile, window, group, **more)
    seconds, cpu = run.until(events)
    size = changelog_bytes(bootstrap, f"{group}-changelog") / events
    share = run.worker.commit_seconds / seconds
    return Measured(events / seconds, events / cpu, share, size)


def _rows(task: Task) -> int:
    """How many are in scope."""
    return sum(len(task.keyed.monitor(key).since(0)["window"]) for key in task.keyed)


def changelog_bytes(bootstrap: str, topic: str) -> int:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    partitions = [TopicPartition(topic, each) for each in range(PARTITIONS)]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    ends = consumer.end_offsets(partitions)
    size = 0
    while any(consumer.position(each) < end for each, end in ends.items()):
        for records in consumer.poll(200, max_records=10_000).values():
            size += sum(len(each.key) + len(each.value or b"") for each in records)
    consumer.close()
    return size


def compare(
    bootstrap: str, profile: SourceProfile, rows: NDArray[np.float64], events: int, report: Report,
    repeats: int, step: Step,
) -> None:  # fmt: skip
    table = report.section(
        f"Events a second, {events:,} events of {KEYS} keys, best of {repeats}",
        "input", "window", "events/s", "of the bare loop", "events per CPU second",
        "of the bare loop", "in commits", "changelog bytes/event",
    )  # fmt: skip
    windows = {"tumbling 1000": Tumbling(count=1000), "adaptive": Adaptive()}
    windows["sliding 2000 every 500"] = Sliding(count=2000, every=500)
    required = {"tumbling 1000": 0.9, "adaptive": 0.7}
    spent: dict[str, list[float]] = {"tumbling 1000": [], _WHOLE: []}  # µs of CPU an event
    for raw in (False, True):
        kind = "float32" if raw else "JSON"
        step(f"{kind}: writing")
        topic = fill(bootstrap, rows, events, raw=raw, keys=KEYS)
        # In turns, so that what else the machine does hits all alike.
        loops: list[Measured] = []
        wholes: list[Measured] = []
        found: dict[str, list[Measured]] = {name: [] for name in windows}
        for _ in range(repeats):
            step(f"{kind}: bare loop")
            loops.append(bare(bootstrap, topic, profile, events, raw=raw, whole=False))
            wholes.append(bare(bootstrap, topic, profile, events, raw=raw, whole=True))
            for name, window in windows.items():
                step(f"{kind}: {name}")
                found[name].append(connector(bootstrap, topic, profile, window, events))
        fastest = max(each.rate for each in loops)
        leanest = max(each.cpu_rate for each in loops)
        name = "bare loop: poll and decode"
        table.lines.append((kind, name, f"{fastest:,.0f}", "1", f"{leanest:,.0f}", "1", "", ""))
        found = {_WHOLE: wholes, **found}
        for name, runs in found.items():
            rate = max(each.rate for each in runs)
            cpu_rate = max(each.cpu_rate for each in runs)
            ratio, cpu_ratio = rate / fastest, cpu_rate / leanest
            if name in spent:
                spent[name].append(1e6 / cpu_rate)
            table.lines.append(
                (kind, name, f"{rate:,.0f}", f"{ratio:.2f}", f"{cpu_rate:,.0f}",
                 f"{cpu_ratio:.2f}", f"{runs[-1].commit_share:.0%}", f"{runs[-1].changelog:.0f}")
            )  # fmt: skip
            if not raw and name in required:
                least = required[name]
                figure = f"{ratio:.0%} by the clock, {cpu_ratio:.0%} by CPU"
                report.require(f"{name}: {least:.0%} of a bare loop", figure, ratio >= least)
    saved, decoding = (json - rows for json, rows in (spent["tumbling 1000"], spent[_WHOLE]))
    report.require(
        "float32 faster than JSON by what decoding costs",
        f"{saved:.2f} µs of CPU an event, with poll and decode alone {decoding:.2f}",
        # Differences of figures that are noisy.
        saved >= 0.8 * decoding > 0.0,
    )


def restore(
    bootstrap: str, profile: SourceProfile, rows: NDArray[np.float64], n: int, report: Report
) -> None:
    topic = fill(bootstrap, rows, n, raw=True, keys=KEYS)
    group = f"g-{uuid.uuid4().hex[:8]}"
    window = Sliding(count=n, every=n // 100)
    Run(bootstrap, topic, profile, window, group).until(n)
    again = Run(bootstrap, topic, profile, window, group)
    again.until(0)
    seconds = again.worker.restore_seconds
    table = report.section("Restore", "rows in scope", "changelog bytes/row", "seconds")
    size = changelog_bytes(bootstrap, f"{group}-changelog") / n
    table.lines.append((f"{again.rows:,}", f"{size:.0f}", f"{seconds:.1f}"))
    met = seconds <= 10.0 and again.rows == n
    report.require(f"restore of {n:,} rows within 10 s", f"{seconds:.1f} s", met)


def parts(
    bootstrap: str, profile: SourceProfile, rows: NDArray[np.float64], events: int, report: Report
) -> None:
    """Where the time goes, by a profiler, which makes Python slower than it is."""
    topic = fill(bootstrap, rows, events, raw=False, keys=KEYS)
    table = report.section(
        "Where the worker's time goes, under a profiler", "window", "poll", "decode", "monitors",
        "commits",
    )  # fmt: skip
    for name, window in {"tumbling 1000": Tumbling(count=1000), "adaptive": Adaptive()}.items():
        run = Run(bootstrap, topic, profile, window, f"g-{uuid.uuid4().hex[:8]}")
        run.profile = cProfile.Profile()
        run.until(events)
        stats: Any = pstats.Stats(run.profile)
        spent = {
            where[2]: value[3]
            for where, value in stats.stats.items()
            if (Path(where[0]).stem, where[2]) in _PARTS
        }
        whole = sum(spent.get(each, 0.0) for _, each in _PARTS)
        shares = [f"{spent.get(each, 0.0) / whole:.0%}" for _, each in _PARTS]
        table.lines.append((name, *shares))


_PARTS = (
    ("kafka_python", "poll"),
    ("decoding", "decode"),
    ("keyed", "take"),
    ("worker", "_commit"),
)


def main(
    quick: Annotated[bool, typer.Option(help="Fewer events, once each.")] = False,
    markdown: Annotated[Path | None, typer.Option(help="Write the tables to this page.")] = None,
) -> None:
    machine = context(["kafka-python", "numpy", "numba"])
    events, repeats, n = (QUICK, 1, 100_000) if quick else (EVENTS, REPEATS, ROWS)
    report = Report()
    profile, rows = source()
    with LocalBroker() as broker, steps(2 * (1 + repeats * 4) + 2) as step:
        where = broker.bootstrap
        connector(where, fill(where, rows, 5000, raw=False, keys=5), profile, Adaptive(), 5000)
        compare(where, profile, rows, events, report, repeats, step)
        step("restore")
        restore(where, profile, rows, n, report)
        step("parts")
        parts(where, profile, rows, min(events, 200_000), report)
    report.show(machine)
    if markdown is not None:
        report.write(markdown, "benchmarks/kafka.py", "Measured", machine)


if __name__ == "__main__":
    typer.run(main)
