"""`stream-leip watch`: from a file to updates written, by format, with the share of each part.

Run `python -m benchmarks.watch [--quick] [--markdown docs/watch.md]`.
"""

import os

# One core for all, which the libraries read when numpy is first imported.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from numpy.typing import NDArray
from stream_leip_connectors.batches import Opening
from stream_leip_connectors.config import MonitorSettings
from stream_leip_connectors.events import EventDecoder, Fields
from stream_leip_connectors.reading import open_reader
from stream_leip_connectors.sinks import Sink
from stream_leip_connectors.sources import FileSource
from stream_leip_connectors.watching import Watch

from benchmarks.datasets import Data, load
from benchmarks.reporting import Report, Step, context, steps
from stream_leip import SourceProfile, fit_profile

FITTED = 2000
EVENTS = 500_000
REPEATS = 5
SEED = 7
MB = 1e6
NAMES = [str(j) for j in range(10)]
# Windows, and how many events a second are required of JSON lines.
WINDOWS: dict[str, float | None] = {
    "adaptive": 150_000,
    "tumbling 10000": 300_000,
    "tumbling 1000": 300_000,
    "sliding 10000 every 1000": None,
}
COMMAND = Path(sys.executable).with_name("stream-leip")

Rows = NDArray[np.float64]


def source() -> tuple[SourceProfile, SourceProfile, Rows]:
    """Profiles of MNIST logits and of its probabilities, and test logits of a shifted mix."""
    scored = load(Data.MNIST)
    logits, labels = scored.val_logits[:FITTED], scored.val_labels[:FITTED]
    rng = np.random.default_rng(SEED)
    mix = rng.dirichlet(np.ones(10))
    weight = (mix / np.bincount(scored.test_labels, minlength=10))[scored.test_labels]
    places = rng.choice(len(weight), EVENTS, p=weight / weight.sum())
    by_logits = fit_profile(logits, labels)
    by_shares = fit_profile(softmax(logits), labels, kind="probabilities")
    return by_logits, by_shares, scored.test_logits[places].astype(np.float64)


def softmax(logits: NDArray[np.floating]) -> Rows:
    odds = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def top(shares: list[float], k: int = 3) -> dict[str, float]:
    largest = sorted(range(len(shares)), key=shares.__getitem__, reverse=True)[:k]
    return {NAMES[j]: shares[j] for j in largest}


def write_lines(path: Path, scores: list[list[float]] | list[dict[str, float]]) -> None:
    encode = msgspec.json.encode
    with path.open("wb") as file:
        for i, row in enumerate(scores):
            file.write(encode({"id": f"event-{i}", "time": 1.7e9 + i, "scores": row}) + b"\n")


def write_inputs(folder: Path, logits: Rows) -> dict[str, Path]:
    """The same events in every format."""
    rounded = logits.round(6)
    listed = rounded.tolist()
    paths = {
        "JSON lines, scores in a list": folder / "list.jsonl",
        "JSON lines, by class name": folder / "named.jsonl",
        "JSON lines, top 3 by class name": folder / "top.jsonl",
        "JSON lines, one in 100 cut short": folder / "spoilt.jsonl",
        "CSV": folder / "p.csv",
        "Parquet": folder / "p.parquet",
        ".npz": folder / "p.npz",
        "float32": folder / "p.f32",
    }
    write_lines(folder / "list.jsonl", listed)
    write_lines(folder / "named.jsonl", [dict(zip(NAMES, row, strict=True)) for row in listed])
    write_lines(folder / "top.jsonl", [top(row) for row in softmax(logits).round(6).tolist()])
    lines = (folder / "list.jsonl").read_bytes().split(b"\n")
    lines[::100] = [line[:-9] for line in lines[::100]]
    (folder / "spoilt.jsonl").write_bytes(b"\n".join(lines))
    np.savetxt(folder / "p.csv", rounded, "%.6f", ",", header=",".join(NAMES), comments="")
    columns = {name: rounded[:, j].astype(np.float32) for j, name in enumerate(NAMES)}
    pq.write_table(pa.table(columns), folder / "p.parquet")
    np.savez(folder / "p.npz", scores=rounded)
    (folder / "p.f32").write_bytes(rounded.astype("<f4").tobytes())
    return paths


def best(call: Callable[[], None], repeats: int) -> tuple[float, float]:
    """Least seconds by the clock, and of CPU, an event."""
    found = []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        call()
        found.append((time.perf_counter() - wall, time.process_time() - cpu))
    return min(wall for wall, _ in found) / EVENTS, min(cpu for _, cpu in found) / EVENTS


def watch(path: Path, profile: SourceProfile, window: str) -> None:
    """All that the command does between its start and its end."""
    reader = open_reader(Opening(path, profile))
    sink = Sink(path.with_name("updates.jsonl"))
    watching = Watch(profile, MonitorSettings(window=window), reader, str(path), sink)
    while watching.step():
        pass
    reader.close()
    sink.close()


def rate(seconds: float) -> str:
    return f"{1 / seconds:,.0f}"


def compare_windows(path: Path, profile: SourceProfile, report: Report, repeats: int) -> None:
    table = report.section(
        "JSON lines to updates, by window",
        "window", "CPU of an event", "events/s of CPU", "events/s by the clock",
    )  # fmt: skip
    for window, least in WINDOWS.items():
        wall, cpu = best(lambda window=window: watch(path, profile, window), repeats)  # type: ignore[misc]
        table.lines.append((window, f"{1e6 * cpu:.2f} µs", rate(cpu), rate(wall)))
        if least is not None:
            asked = f"{window}: ≥ {least:,.0f} events/s of one core"
            report.require(asked, f"{rate(cpu)} ({rate(wall)} by the clock)", 1 / cpu >= least)


def compare_formats(
    paths: dict[str, Path], profiles: dict[str, SourceProfile], report: Report, repeats: int
) -> None:
    table = report.section(
        "By format, tumbling 10000",
        "format",
        "bytes an event",
        "CPU of an event",
        "events/s of CPU",
    )
    for name, path in paths.items():
        profile = profiles.get(name, profiles[""])
        _, cpu = best(lambda p=path, q=profile: watch(p, q, "tumbling 10000"), repeats)  # type: ignore[misc]
        size = path.stat().st_size / EVENTS
        table.lines.append((name, f"{size:.0f}", f"{1e6 * cpu:.2f} µs", rate(cpu)))


def show_parts(path: Path, profile: SourceProfile, report: Report, repeats: int) -> None:
    """CPU of each part, by adding one after the other."""

    def read() -> None:
        source = FileSource(path)
        while source.read() is not None:
            pass
        source.close()

    def parse() -> None:
        source = FileSource(path)
        decoder = EventDecoder(profile, Fields(time="time"))
        while (block := source.read()) is not None:
            decoder._whole_block(block[:-1])
        source.close()

    def decode() -> None:
        reader = open_reader(Opening(path, profile))
        while reader.read() is not None:
            pass
        reader.close()

    whole = best(lambda: watch(path, profile, "tumbling 10000"), repeats)[1]
    steps_of = [best(call, repeats)[1] for call in (read, parse, decode)] + [whole]
    names = ["read the file", "decode JSON", "make arrays", "monitor, encode and write updates"]
    table = report.section("Where the CPU goes, tumbling 10000", "part", "share", "an event")
    before = 0.0
    for name, cpu in zip(names, steps_of, strict=True):
        part = cpu - before
        table.lines.append((name, f"{part / whole:.0%}", f"{1e6 * part:.2f} µs"))
        before = cpu


def resident(process: int) -> int:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def long_stream(path: Path, folder: Path, times: int) -> list[tuple[int, int]]:
    """Events so far and resident bytes of a real command that reads the file over and over."""
    options = ["--window", "tumbling 10000", "--time", "none", "--output", "long.jsonl"]
    process = subprocess.Popen(
        [COMMAND, "watch", *options],
        cwd=folder,
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    found = []
    for turn in range(1, times + 1):
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                process.stdin.write(block)
        process.stdin.flush()
        found.append((turn * EVENTS, resident(process.pid)))
    process.stdin.close()
    if process.wait() != 0:
        raise RuntimeError(f"watch ended with {process.returncode}")
    return found


def measure_memory(path: Path, folder: Path, report: Report, quick: bool) -> None:
    table = report.section("Memory of the command on a long stream", "events", "process")
    found = long_stream(path, folder, 4 if quick else 20)
    for events, size in found:
        table.lines.append((f"{events:,}", f"{size / MB:.1f} MB"))
    # The first half million still loads code.
    grown = found[-1][1] - found[1][1]
    asked = f"no growth from {found[1][0]:,} to {found[-1][0]:,} events (≤ 5 MB)"
    report.require(asked, f"{grown / MB:+.1f} MB", grown <= 5 * MB)


def measure(folder: Path, quick: bool, report: Report, step: Step) -> None:
    repeats = 2 if quick else REPEATS
    step("fitting profiles")
    profile, shares, logits = source()
    profile.save(folder / "profile.json")
    step("writing inputs")
    paths = write_inputs(folder, logits)
    listed = paths["JSON lines, scores in a list"]
    step("by window")
    compare_windows(listed, profile, report, repeats)
    step("where the time goes")
    show_parts(listed, profile, report, repeats)
    step("by format")
    profiles = {"": profile, "JSON lines, top 3 by class name": shares}
    compare_formats(paths, profiles, report, repeats)
    step("a long stream")
    measure_memory(listed, folder, report, quick)


def main(
    quick: Annotated[bool, typer.Option(help="Fewer repeats, and 2 million events.")] = False,
    markdown: Annotated[Path | None, typer.Option(help="Put the tables into this file.")] = None,
) -> None:
    """Measure watch from a file to updates written."""
    warnings.simplefilter("ignore")
    machine = context(("numpy", "numba", "msgspec", "pyarrow"))
    report = Report()
    with steps(6) as step, tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), quick, report, step)
    report.show(machine)
    if markdown is not None:
        report.write(markdown, "benchmarks/watch.py", "Speed and memory of watch", machine)


if __name__ == "__main__":
    typer.run(main)
