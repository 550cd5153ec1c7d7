"""The Spark connector against a bare Spark query with the same decode and a groupBy-count.

Run `python -m benchmarks.spark [--quick] [--markdown docs/spark.md]`, after `make spark`. Linux:
CPU seconds, of Java and all Python workers, are read from /proc; on a machine that others use too
they are what to look at. 241-byte JSON events of 10 probabilities, in Parquet files, a micro-batch
each; both queries keep their state in RocksDB and write nowhere.
"""

import os

# As the workers of a cluster should have it: Spark, not BLAS, spreads the work.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import typer
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from stream_leip_connectors.spark import SETTINGS, prior_updates

from benchmarks.kafka import CLASSES, json_event, source
from benchmarks.reporting import Report, Step, context, steps
from stream_leip import Adaptive, Monitor, Sliding, SourceProfile, Tumbling

KEYS = (10, 1000, 10_000)
CASES = {1: KEYS, 2: (1000,)}  # by the number of cores
EVENTS, QUICK = 400_000, 40_000
FILES = 4
REPEATS = 1
SPAN = 3600  # seconds of event time
SCHEMA = "key string, value binary, time timestamp"
_BEGIN = 1_767_600_000
_DAY = 1_000_000_000 / 86_400  # a billion events a day, in events a second
_HZ = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Measured:
    """Seconds by the clock and of CPU, and µs of CPU an event of each micro-batch."""

    seconds: float
    cpu: float
    batches: list[float]


def cpu_seconds() -> float:
    """CPU of this process and all below it, ended ones included."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
        except OSError:  # it has just ended
            continue
        fields = stat[stat.rindex(")") + 2 :].split()
        parents[int(folder.name)] = int(fields[1])
        used[int(folder.name)] = sum(map(int, fields[11:15])) / _HZ
    mine = {os.getpid()}
    while True:
        more = {pid for pid, parent in parents.items() if parent in mine} - mine
        if not more:
            return sum(used[pid] for pid in mine)
        mine |= more


@contextmanager
def session(cores: int, folder: Path) -> Iterator[SparkSession]:
    """Spark on so many cores."""
    settings = {
        **SETTINGS,
        "spark.master": f"local[{cores}]",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.log.level": "ERROR",
        "spark.python.authenticate.socketTimeout": "300s",  # for machines that others use too
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.ui.enabled": "false",
    }
    spark = SparkSession.builder.config(map=settings).getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def write(folder: Path, rows: NDArray[np.float64], events: int, keys: int) -> None:
    """Files of events, in the order of their times, and an event that ends all windows."""
    folder.mkdir()
    values = [json_event(i, row) for i, row in enumerate(rows.tolist())]
    micros = _BEGIN * 1_000_000 + np.arange(events) * (SPAN * 1_000_000 // events)
    parts = [*np.array_split(np.arange(events), FILES), np.array([0])]
    for number, which in enumerate(parts):
        times = micros[which] if number < FILES else [(_BEGIN + 3 * SPAN) * 1_000_000]
        table = pa.table(
            {
                # A prime step: every key sees every row in the long run.
                "key": [f"key-{i * 7919 % keys}" for i in which.tolist()],
                "value": pa.array([values[i % len(values)] for i in which.tolist()], pa.binary()),
                "time": pa.array(times, pa.timestamp("us", tz="UTC")),
            }
        )
        path = folder / f"{number:03}.parquet"
        pa.parquet.write_table(table, path)
        os.utime(path, (1e9 + number, 1e9 + number))  # Spark reads the oldest file first


def bare(df: DataFrame, window: int) -> DataFrame:
    """Decode, and count by key and window: what nobody who keeps state by key can do without."""
    decoded = F.from_json(F.col("value").cast("string"), "scores array<double>")
    good = df.where(F.size(decoded["scores"]) == CLASSES).withWatermark("time", "0 seconds")
    by = [F.window("time", f"{window} seconds"), F.col("key")]
    return good.groupBy(*by).count()


def run(spark: SparkSession, folder: Path, profile: SourceProfile | None, window: int) -> Measured:
    """All files through the connector, or through the bare query if there is no profile."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    df = reader.parquet(str(folder))
    if profile is None:
        updates = bare(df, window)
    else:
        tumbling = Tumbling(seconds=float(window))
        updates = prior_updates(df, profile, tumbling, key="key", scores="value")
    checkpoint = tempfile.mkdtemp(prefix="checkpoint-", dir=folder.parent)
    writing = updates.writeStream.format("noop").outputMode("append")
    began, cpu = time.perf_counter(), cpu_seconds()
    query = writing.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    spent: dict[int, float] = {}  # at the end of each micro-batch
    while query.isActive:
        last = query.lastProgress
        if last is not None and last["batchId"] not in spent:
            spent[last["batchId"]] = cpu_seconds()
        time.sleep(0.02)
    query.awaitTermination()  # its error, if it had one
    seconds, cpu = time.perf_counter() - began, cpu_seconds() - cpu
    found = query.recentProgress
    sizes = {each["batchId"]: each["numInputRows"] for each in found}
    batches = [
        1e6 * (spent[number] - spent[number - 1]) / sizes[number]
        for number in sorted(spent)
        if number - 1 in spent and sizes.get(number, 0) > 1
    ]
    return Measured(seconds, cpu, batches)


def seconds_of(events: int, keys: int) -> int:
    """The length of a window that has 1000 events of a key; at most the whole stream."""
    return SPAN // max(1, events // (1000 * keys))


def compare(
    folder: Path, profile: SourceProfile, events: int, repeats: int, report: Report, step: Step
) -> dict[tuple[int, int], Measured]:
    """Both queries at each number of keys and of cores; ours with the least CPU of its repeats."""
    table = report.section(
        f"{events:,} events, best of {repeats}",
        "cores", "keys", "updates", "events/s", "of the bare query", "µs of CPU an event",
        "of the bare query",
    )  # fmt: skip
    kept: dict[tuple[int, int], Measured] = {}
    for cores, all_keys in CASES.items():
        with session(cores, folder) as spark:
            for query in (None, profile):  # Java compiles what runs often, workers load the kernels
                step(f"cores: {cores}, warming up")
                run(spark, folder / "10", query, seconds_of(events, 10))
            for keys in all_keys:
                window = seconds_of(events, keys)
                loops: list[Measured] = []
                ours: list[Measured] = []
                for _ in range(repeats):  # in turns, so that what else goes on hits both alike
                    step(f"cores: {cores}, keys: {keys}")
                    loops.append(run(spark, folder / str(keys), None, window))
                    ours.append(run(spark, folder / str(keys), profile, window))
                seconds, cpu, bare_seconds, bare_cpu = (
                    min(each)
                    for each in (
                        [run.seconds for run in ours],
                        [run.cpu for run in ours],
                        [run.seconds for run in loops],
                        [run.cpu for run in loops],
                    )
                )
                updates = keys * (SPAN // window)
                table.lines.append(
                    (str(cores), f"{keys:,}", f"{updates:,}", f"{events / seconds:,.0f}",
                     f"{bare_seconds / seconds:.2f}", f"{1e6 * cpu / events:.1f}",
                     f"{bare_cpu / cpu:.2f}")
                )  # fmt: skip
                figure = f"{bare_seconds / seconds:.0%} by the clock, {bare_cpu / cpu:.0%} by CPU"
                asked = f"cores: {cores}, keys: {keys:,}: half the speed of the bare query"
                report.require(asked, figure, bare_cpu / cpu >= 0.5)
                kept[cores, keys] = min(ours, key=lambda run: run.cpu)
    return kept


def flat(measured: Measured, report: Report) -> None:
    """What an event costs in each micro-batch."""
    batches = measured.batches
    table = report.section(
        "µs of CPU an event as the stream grows, 10 keys",
        *(f"micro-batch {number}" for number in range(1, len(batches) + 1)),
    )
    table.lines.append(tuple(f"{cost:.1f}" for cost in batches))
    half = len(batches) // 2
    first, last = np.mean(batches[:half]), np.mean(batches[half:])
    figure = f"second half of the stream {last / first:.2f} times the first"
    report.require("cost of an event flat as the stream grows", figure, bool(last <= 1.25 * first))


def states(profile: SourceProfile, rows: NDArray[np.float64], report: Report) -> None:
    """Bytes of a key's snapshot, which is what Spark keeps of it."""
    table = report.section(
        "State of a key, bytes", "window", "after 1,000 events", "after 10,000", "after 100,000"
    )
    cases: dict[str, Any] = {
        "tumbling 60 s": Tumbling(seconds=60.0),
        "sliding 600 s every 60 s": Sliding(seconds=600.0, every=60.0),
        "adaptive": Adaptive(),
    }
    for name, window in cases.items():
        sizes = []
        for events in (1000, 10_000, 100_000):
            monitor = Monitor(profile, window)
            some = rows[np.arange(events) % len(rows)]
            # An hour, whatever the number of events.
            monitor.update_many(some, _BEGIN + np.arange(events) * (SPAN / events))
            if window.needs_time:
                monitor.advance(_BEGIN + SPAN)
            monitor.trim()
            sizes.append(f"{len(monitor.snapshot()):,}")
        table.lines.append((name, *sizes))


def plan(kept: dict[tuple[int, int], Measured], events: int, report: Report) -> None:
    """What an event and an update cost, and so what a billion events a day take."""
    few, many = (keys * (SPAN // seconds_of(events, keys)) for keys in (KEYS[0], KEYS[-1]))
    least, most = kept[1, KEYS[0]].cpu, kept[1, KEYS[-1]].cpu
    update = (most - least) / (many - few)
    event = (least - update * few) / events
    table = report.section("What costs CPU, by the rows of one core", "an event", "an update")
    table.lines.append((f"{1e6 * event:.1f} µs", f"{1e3 * update:.2f} ms"))
    table = report.section(
        f"A billion events a day, {_DAY:,.0f} a second",
        "keys", "tumbling windows of", "updates/s", "cores busy", "rows that wait",
    )  # fmt: skip
    for keys, seconds in ((100, 60), (1000, 60), (10_000, 600), (100_000, 3600)):
        each = keys / seconds
        waiting = _DAY * seconds * (12 + 4 * CLASSES)
        table.lines.append(
            (f"{keys:,}", f"{seconds:,} s", f"{each:.1f}", f"{_DAY * event + each * update:.2f}",
             f"{waiting / 1e6:,.0f} MB")
        )  # fmt: skip


def main(
    quick: Annotated[bool, typer.Option(help="Fewer events, once each.")] = False,
    markdown: Annotated[Path | None, typer.Option(help="Write the tables to this page.")] = None,
) -> None:
    machine = context(["pyspark", "pyarrow", "numpy", "numba"])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    events, repeats = (QUICK, 1) if quick else (EVENTS, REPEATS)
    report = Report()
    profile, rows = source()
    with (
        tempfile.TemporaryDirectory() as name,
        steps(1 + sum(2 + len(keys) * repeats for keys in CASES.values())) as step,
    ):
        folder = Path(name)
        step("writing")
        for keys in KEYS:
            write(folder / str(keys), rows, events, keys)
        kept = compare(folder, profile, events, repeats, report, step)
    flat(kept[1, 10], report)
    states(profile, rows, report)
    plan(kept, events, report)
    report.show(machine)
    if markdown is not None:
        report.write(markdown, "benchmarks/spark.py", "Measured", machine)


if __name__ == "__main__":
    typer.run(main)
