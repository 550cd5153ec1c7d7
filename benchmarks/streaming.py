"""Monitors on a stream: events a second, one event, memory, keys, and where the time goes.

Run `python -m benchmarks.streaming [--quick] [--markdown docs/streaming.md]`.
"""

import os

# One core for all, which the libraries read when numpy is first imported.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

import cProfile
import ctypes
import multiprocessing
import pstats
import time
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import typer
from numpy.typing import NDArray
from river.drift import ADWIN

from benchmarks.datasets import Data, load
from benchmarks.estimators import best_time, duration, quapy_leip, thousand_case
from benchmarks.reporting import Report, Step, context, steps
from stream_leip import Fading, KeyedMonitor, Monitor, Sliding, SourceProfile, Tumbling, fit_profile
from stream_leip.windows import Window

FITTED = 2000
SEED = 7
WINDOW = 10_000
CHUNK = 50_000
SINGLES = 50_000
ROWS = 10**6
KEYS, BUDGET, EACH = 100_000, 4 * 10**9, 20
FULL_KEYS, FULL_EVENTS = 5000, 1500
MB = 1e6

Result = TypeVar("Result")
Logits = NDArray[np.float32]

# What windows are measured without; benchmarks/adaptive.py has all of it.
BARE: dict[str, Any] = {"level": None, "alarm": None, "check": False}
# A window, how many events its step has, and how many a second are required.
SPEEDS: dict[str, tuple[Window, int, float]] = {
    "Tumbling(count=10000)": (Tumbling(count=WINDOW), WINDOW, 2e6),
    "Sliding(count=10000, every=1000)": (Sliding(count=WINDOW, every=1000), 1000, 5e5),
}
FADING = Fading(half_life=WINDOW, every=1000)
# Python functions of one update_many, by file and name; numba's kernels are inside them.
PARTS = {
    "check and calibrate": ("entrance.py", "many"),
    "order by confidence and seal": ("pane.py", "seal"),
    "LEIP": ("leip.py", "estimate_ranked"),
    "EM": ("em.py", "estimate_ranked"),
}


@dataclass(frozen=True)
class Held:
    """A monitor that is fed `events` events, and what it may then hold."""

    name: str
    window: Window
    events: int
    most: float
    classes: int = 10
    settings: dict[str, Any] = field(default_factory=dict)


HELD = (
    Held("Tumbling(count=1e6), one event from full", Tumbling(count=ROWS), ROWS - 1, 60 * MB),
    Held("Tumbling(count=1e6), sealed", Tumbling(count=ROWS), ROWS, 60 * MB),
    Held("Sliding(count=1e6, every=1e5)", Sliding(count=ROWS, every=ROWS // 10), ROWS, 60 * MB),
    Held(
        "Tumbling(count=1e6), 1000 classes, top_k=16, one event from full",
        Tumbling(count=ROWS),
        ROWS - 1,
        150 * MB,
        1000,
        {"top_k": 16},
    ),
    Held(
        "Sliding(count=1e6, every=1e5), 1000 classes, top_k=16",
        Sliding(count=ROWS, every=ROWS // 10),
        ROWS // 10 * 9,
        150 * MB,
        1000,
        {"top_k": 16},
    ),
)


def source() -> tuple[SourceProfile, Logits]:
    """A profile of MNIST, and test rows of class shares from Dirichlet(1)."""
    scored = load(Data.MNIST)
    profile = fit_profile(scored.val_logits[:FITTED], scored.val_labels[:FITTED])
    rng = np.random.default_rng(SEED)
    labels = rng.choice(10, 10 * CHUNK, p=rng.dirichlet(np.ones(10)))
    places = np.empty(len(labels), np.int64)
    for j in np.unique(labels):
        here = labels == j
        places[here] = rng.choice(np.flatnonzero(scored.test_labels == j), here.sum())
    return profile, scored.test_logits[places]


def wide_source(classes: int) -> tuple[SourceProfile, Logits]:
    """Synthetic rows of many classes, as in benchmarks/estimators.py."""
    case = thousand_case(5000, classes)
    return case.profile, case.rows


def feed(monitor: Monitor, logits: Logits) -> None:
    for begin in range(0, len(logits), CHUNK):
        monitor.update_many(logits[begin : begin + CHUNK])


def feed_new(profile: SourceProfile, window: Window, logits: Logits) -> None:
    feed(Monitor(profile, window, **BARE), logits)


def fresh(call: Callable[[], Result]) -> Result:
    """The result of a module's function, called in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(call)


def resident() -> int:
    """The resident bytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def compare_many(profile: SourceProfile, logits: Logits, report: Report, step: Step) -> None:
    table = report.section(
        "update_many, LEIP and EM in each update",
        "window", "an event", "events/s", "QuaPy's LEIP on the same windows", "ratio",
    )  # fmt: skip
    step("QuaPy's LEIP on a window")
    rows = profile.rows(logits[: 10 * WINDOW]).astype(np.float64)
    peer = quapy_leip(profile)
    windows = np.split(rows, 10)
    call = best_time(lambda: [peer(window) for window in windows])[0] / len(windows)
    for name, (window, every, least) in SPEEDS.items():
        step(f"update_many: {name}")
        each = best_time(partial(feed_new, profile, window, logits))[0] / len(logits)
        theirs, rate = call / every, f"{1 / each:,.0f}"
        ratio = theirs / each
        figures = f"{1e9 * each:.0f} ns", rate, f"{1e9 * theirs:.0f} ns", f"{ratio:.1f}×"
        table.lines.append((name, *figures))
        report.require(f"{name} ≥ {least:,.0f} events/s", rate, 1 / each >= least)
        asked = f"{name} ≥ 20× QuaPy's LEIP on each window"
        report.require(asked, f"{ratio:.1f}×", ratio >= 20.0)
    step("update_many: Fading")
    start = time.perf_counter()
    feed_new(profile, FADING, logits)
    each = (time.perf_counter() - start) / len(logits)
    figures = f"{1e9 * each:.0f} ns", f"{1 / each:,.0f}", "", ""
    table.lines.append(("Fading(half_life=10000, every=1000)", *figures))


def compare_one(profile: SourceProfile, logits: Logits, report: Report) -> None:
    table = report.section("update(), one event", "what", "an event", "to the ADWINs")
    events = list(logits[:SINGLES])
    rows = profile.rows(logits[:SINGLES]).astype(np.float64).tolist()

    def ours() -> None:
        monitor = Monitor(profile, Tumbling(count=WINDOW), **BARE)
        for event in events:
            monitor.update(event)

    def adwins() -> None:
        untyped: Any = ADWIN
        detectors = [untyped() for _ in profile.classes]
        for row in rows:
            for detector, probability in zip(detectors, row, strict=True):
                detector.update(probability)

    micros = {call: 1e6 * best_time(call)[0] / SINGLES for call in (ours, adwins)}
    ratio = micros[ours] / micros[adwins]
    table.lines.append((
        "Monitor.update, Tumbling(count=10000)", f"{micros[ours]:.2f} µs", f"{ratio:.2f}×"
    ))  # fmt: skip
    table.lines.append(("10 river ADWINs", f"{micros[adwins]:.2f} µs", "1"))
    report.require("update() ≤ 5 µs", f"{micros[ours]:.2f} µs", micros[ours] <= 5.0)
    report.require("update() ≤ 2× an ADWIN a class", f"{ratio:.2f}×", ratio <= 2.0)


def trim() -> None:
    """Have the C library give back the memory that it keeps for later."""
    ctypes.CDLL(None).malloc_trim(0)


def hold(case: Held, traced: bool) -> tuple[int, int]:
    """Bytes that a monitor holds and their peak, traced; or of the process, trimmed and not."""
    profile, logits = source() if case.classes == 10 else wide_source(case.classes)
    settings = BARE | case.settings
    feed(Monitor(profile, Tumbling(count=len(logits) // 2), **settings), logits)
    trim()
    before = resident()
    if traced:
        tracemalloc.start()
    monitor = Monitor(profile, case.window, **settings)
    chunk = min(CHUNK, len(logits))
    for begin in range(0, case.events, chunk):
        at = begin % len(logits)
        monitor.update_many(logits[at : at + min(chunk, case.events - begin)])
    if traced:
        return tracemalloc.get_traced_memory()
    whole = resident() - before
    trim()
    return resident() - before, whole


def measure_held(report: Report, step: Step) -> None:
    table = report.section(
        "Memory of 1e6 rows in scope",
        "window", "held, traced", "held, process", "untrimmed", "peak, traced",
    )  # fmt: skip
    for case in HELD:
        step(f"memory: {case.name}")
        held, peak = fresh(partial(hold, case, True))
        process, whole = fresh(partial(hold, case, False))
        figures = [f"{size / MB:.1f} MB" for size in (held, process, whole, peak)]
        table.lines.append((case.name, *figures))
        asked = f"{case.name}: ≤ {case.most / MB:.0f} MB held"
        figure = f"{figures[0]} traced, {figures[1]} of the process"
        report.require(asked, figure, max(held, process) <= case.most)


def decades(most: int) -> list[tuple[int, float, int]]:
    """Events so far, seconds an event (median over calls) since the last, resident bytes."""
    profile, logits = source()
    monitor = Monitor(profile, Tumbling(count=WINDOW), **BARE)
    found: list[tuple[int, float, int]] = []
    times: list[float] = []
    for begin in range(0, most, WINDOW):
        at = begin % len(logits)
        chunk = logits[at : at + WINDOW]
        start = time.perf_counter()
        monitor.update_many(chunk)
        times.append((time.perf_counter() - start) / WINDOW)
        if monitor.events in (10**4, 10**5, 10**6, 10**7):
            found.append((monitor.events, float(np.median(times)), resident()))
            times = []
    return found


def measure_decades(report: Report, quick: bool) -> None:
    table = report.section("Cost as a stream grows", "events", "an event, median", "process")
    found = fresh(partial(decades, 10**6 if quick else 10**7))
    for (begin, *_), (end, each, size) in pairwise(found):
        span = f"{begin:.0e} to {end:.0e}".replace("e+0", "e")
        table.lines.append((span, f"{1e9 * each:.0f} ns", f"{size / MB:.0f} MB"))
    costs = [each for _, each, _ in found[1:]]
    spread = costs[-1] / costs[0]
    asked = "an event costs the same in the first decade and the last (≤ 1.1×)"
    report.require(asked, f"{spread:.2f}×", spread <= 1.1)
    # The first decade still loads code.
    grown = found[-1][2] - found[1][2]
    report.require("no growth of memory (≤ 5 MB)", f"{grown / MB:+.1f} MB", grown <= 5 * MB)


def keep_keys(keys: int, events: int) -> tuple[float, float]:
    """Seconds an event and resident bytes a key, the keys in random order."""
    profile, logits = source()
    window = Tumbling(count=1000)
    keyed = KeyedMonitor(profile, window, max_keys=KEYS, max_bytes=BUDGET, **BARE)
    warm = KeyedMonitor(profile, window, **BARE)
    warm.update_many(["warm"] * CHUNK, logits[:CHUNK])
    names = [f"key-{i}" for i in range(keys)]
    rng = np.random.default_rng(SEED)
    trim()
    before = resident()
    seconds = 0.0
    for begin in range(0, events * keys, CHUNK):
        n = min(CHUNK, events * keys - begin)
        # Each key comes as often as any other, in an order of its own in each round.
        part = [names[i] for i in rng.permutation(np.arange(begin, begin + n) % keys)]
        at = begin % len(logits)
        start = time.perf_counter()
        keyed.update_many(part, logits[at : at + n])
        seconds += time.perf_counter() - start
    trim()
    return seconds / (events * keys), (resident() - before) / keys


def measure_keys(report: Report, quick: bool, step: Step) -> None:
    table = report.section(
        "KeyedMonitor, Tumbling(count=1000), max_keys=100000, max_bytes=4e9",
        "keys", "events a key", "an event", "bytes a key", "100,000 such keys",
    )  # fmt: skip
    cases = [(100, 5000), (10_000, EACH), (FULL_KEYS, 999), (FULL_KEYS, FULL_EVENTS)]
    if not quick:
        cases.insert(2, (KEYS, EACH))
    for keys, events in cases:
        step(f"{keys} keys of {events} events")
        each, size = fresh(partial(keep_keys, keys, events))
        line = f"{keys:,}", f"{events:,}", f"{1e6 * each:.2f} µs"
        if keys < FULL_KEYS:
            # A process's own ups and downs are more than so few keys take.
            table.lines.append((*line, "", ""))
            continue
        total = f"{KEYS * size / 1e9:.2f} GB"
        table.lines.append((*line, f"{size:,.0f}", total))
        if keys == KEYS:
            report.require("100,000 keys of 20 events ≤ 4 GB", total, KEYS * size <= BUDGET)
        if keys == FULL_KEYS:
            asked = f"100,000 keys of {events} events, rows at their cap, ≤ 4 GB"
            report.require(asked, f"{total}, projected", KEYS * size <= BUDGET)


def show_profile(profile: SourceProfile, logits: Logits, report: Report) -> None:
    """The share of each part in the time of update_many, by cProfile."""
    table = report.section(
        "Where the time goes, Tumbling(count=10000)", "part", "share", "a window"
    )
    monitor = Monitor(profile, Tumbling(count=WINDOW), **BARE)
    feed(monitor, logits)
    profiler = cProfile.Profile()
    profiler.enable()
    feed(monitor, logits)
    profiler.disable()
    stats: dict[tuple[str, int, str], Any] = vars(pstats.Stats(profiler))["stats"]
    spent: dict[tuple[str, str], float] = {}
    for (file, _, name), (*_, cumulative, _) in stats.items():
        # Both a pane and an open pane seal, one within the other: the greater is the whole.
        where = Path(file).name, name
        spent[where] = max(cumulative, spent.get(where, 0.0))
    total = spent["monitor.py", "update_many"]
    parts = {part: spent[where] for part, where in PARTS.items()}
    parts["rest"] = total - sum(parts.values())
    windows = len(logits) // WINDOW
    for part, seconds in parts.items():
        table.lines.append((part, f"{seconds / total:.0%}", duration(seconds / windows)))


def main(
    quick: Annotated[bool, typer.Option(help="Leave out 1e7 events and 100,000 keys.")] = False,
    markdown: Annotated[Path | None, typer.Option(help="Put the tables into this file.")] = None,
) -> None:
    """Measure monitors on a stream against QuaPy's LEIP and river's ADWIN."""
    warnings.simplefilter("ignore")
    machine = context(("numpy", "numba", "quapy", "river"))
    report = Report()
    with steps(16) as step:
        step("fitting a profile")
        profile, logits = source()
        compare_many(profile, logits, report, step)
        step("update() and ADWIN")
        compare_one(profile, logits, report)
        step("profile of update_many")
        show_profile(profile, logits, report)
        measure_held(report, step)
        step("a long stream")
        measure_decades(report, quick)
        measure_keys(report, quick, step)
    report.show(machine)
    if markdown is not None:
        report.write(markdown, "benchmarks/streaming.py", "Speed and memory", machine)


if __name__ == "__main__":
    typer.run(main)
