"""Adaptive memory with alarm, interval and check: events a second, many classes, many keys.

Run `python -m benchmarks.adaptive [--quick] [--markdown docs/streaming.md]`. Times are of the
processor, best of several: others may be at work on the machine.
"""

import os

# One core for all, which the libraries read when numpy is first imported.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

import cProfile
import pstats
import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from benchmarks.reporting import Report, Step, context, steps
from benchmarks.streaming import (
    BARE,
    CHUNK,
    Logits,
    feed,
    fresh,
    resident,
    source,
    trim,
    wide_source,
)
from stream_leip import EM, Adaptive, KeyedMonitor, Monitor, SourceProfile
from stream_leip._kernels import mixture as mixtures
from stream_leip._kernels.mixture import PANE
from stream_leip._kernels.wager import no_wager
from stream_leip.tracker import Tracker

EVENTS = 200_000
WIDE_EVENTS = 20_000
TOP_K = 16
LIVE, EACH, YOUNG, BUDGET = 10_000, 1000, 100, 10**9
# How much dearer an event may be with 100 times the keys.
FLAT = 1.3
# Functions by file and name; what of an update is in none of these is the rest.
PARTS = {
    "check and calibrate": [("entrance.py", "many")],
    "experts, rungs and alarm": [("tracking.py", "follow")],
    "LEIP of the update's rung": [("leip.py", "estimate_arrived")],
    "EM of that rung": [("tracker.py", "_em_of"), ("em.py", "estimate_ranked")],
    "validation variance": [("interval.py", "validation_variance")],
    "interval": [("interval.py", "mixture_interval")],
    "moments": [("assumption.py", "moments")],
    "check": [("assumption.py", "check")],
}


def seconds_an_event(make: Any, logits: Logits, repeats: int) -> float:
    """The best of several streams, after one that compiles what is not yet compiled."""
    feed(make(), logits[:5000])
    found = []
    for _ in range(repeats):
        monitor = make()
        begin = time.process_time()
        feed(monitor, logits)
        found.append((time.process_time() - begin) / len(logits))
    return min(found)


def compare_estimators(
    profile: SourceProfile, logits: Logits, report: Report, repeats: int
) -> None:
    table = report.section(
        "Adaptive(every=1000), alarm, interval and check on, 10 classes",
        "estimator of the rungs", "an event", "events/s",
    )  # fmt: skip
    for estimator, least in (("EM", 300_000), ("LEIP", 100_000)):
        each = seconds_an_event(
            lambda by=estimator: Monitor(profile, Adaptive(), by), logits, repeats
        )
        table.lines.append((estimator, f"{1e6 * each:.2f} µs", f"{1 / each:,.0f}"))
        asked = f"Adaptive by {estimator} ≥ {least:,} events/s of one core"
        report.require(asked, f"{1 / each:,.0f}", 1 / each >= least)


def show_parts(profile: SourceProfile, logits: Logits, report: Report) -> None:
    table = report.section("Where the time goes, by EM", "part", "share", "an event")
    monitor = Monitor(profile, Adaptive(), "EM")
    profiler = cProfile.Profile(time.process_time)
    profiler.enable()
    feed(monitor, logits)
    profiler.disable()
    stats: dict[tuple[str, int, str], Any] = vars(pstats.Stats(profiler))["stats"]
    spent: dict[tuple[str, str], float] = {}
    for (file, _, name), (*_, cumulative, _) in stats.items():
        where = Path(file).name, name
        spent[where] = max(cumulative, spent.get(where, 0.0))
    total = spent["monitor.py", "update_many"]
    parts = {part: sum(map(spent.__getitem__, within)) for part, within in PARTS.items()}
    parts["rest"] = total - sum(parts.values())
    for part, each in parts.items():
        table.lines.append((part, f"{each / total:.0%}", f"{1e6 * each / len(logits):.2f} µs"))
    table = report.section("The kernel of experts, rungs and alarm", "part", "an event")
    for part, each in kernel_parts(profile, logits).items():
        table.lines.append((part, f"{1e6 * each / len(logits):.2f} µs"))


def kernel_parts(profile: SourceProfile, logits: Logits) -> dict[str, float]:
    """Seconds of the experts alone, of what the rungs add to them, and of what the alarm adds."""
    rows = profile.rows(logits)
    panes = np.split(rows, range(PANE, len(rows), PANE))

    def experts() -> None:
        state = mixtures.fresh(profile.soft_prior)
        for pane in panes:
            mixtures.take(state, no_wager(), pane, profile.soft_prior)
            state.panes[0] += 1

    def tracker(alarm: float | None) -> None:
        Tracker(profile, EM(), alarm).follow(rows)

    found = []
    for call in (experts, partial(tracker, None), partial(tracker, 0.01)):
        times = []
        for _ in range(4):
            begin = time.process_time()
            call()
            times.append(time.process_time() - begin)
        found.append(min(times))
    return {
        "experts": found[0],
        "rungs": found[1] - found[0],
        "alarm": found[2] - found[1],
    }


def compare_classes(report: Report, repeats: int) -> None:
    table = report.section(
        "Many classes, Adaptive by EM, alarm, interval and check off",
        "stream", "an event", "to 10 classes",
    )  # fmt: skip
    costs: list[float] = []
    profile, rows = wide_source(1000)
    wide = np.tile(rows, (WIDE_EVENTS // len(rows), 1))
    few, logits = source()
    for name, make, events in (
        ("10 classes", lambda: Monitor(few, Adaptive(), "EM", **BARE), logits[:WIDE_EVENTS]),
        (
            "1000 classes, top_k=16",
            lambda: Monitor(profile, Adaptive(), "EM", top_k=TOP_K, **BARE),
            wide,
        ),
    ):
        costs.append(seconds_an_event(make, events, repeats))
        ratio = f"{costs[-1] / costs[0]:.1f}×"
        table.lines.append((name, f"{1e6 * costs[-1]:.1f} µs", ratio))
    asked = "1000 classes with top_k=16 ≤ 20× 10 classes, alarm, interval and check off"
    report.require(asked, ratio, costs[-1] <= 20 * costs[0])


class Kept(NamedTuple):
    """What keys cost: seconds an event in all, and to make one; bytes and updates of each."""

    each: float
    making: float
    size: float
    updates: float


def keep(keys: int, events: int) -> Kept:
    """Feed so many keys so many events each, in random order; time is of the processor."""
    profile, logits = source()
    KeyedMonitor(profile).update_many(["warm"] * 3000, logits[:3000])
    keyed = KeyedMonitor(profile, max_keys=LIVE, max_bytes=BUDGET)
    names = [f"key-{i}" for i in range(keys)]
    rng = np.random.default_rng(0)
    updates = 0

    def spend(begin: int, end: int) -> float:
        nonlocal updates
        part = [names[i] for i in rng.permutation(np.arange(begin, end) % keys)]
        at = begin % (len(logits) - CHUNK)
        start = time.process_time()
        updates += len(keyed.update_many(part, logits[at : at + end - begin]))
        return time.process_time() - start

    trim()
    before = resident()
    # The first event of each key makes it; the second is like any other.
    first, second = spend(0, keys), spend(keys, 2 * keys)
    spent = first + second
    for begin in range(2 * keys, keys * events, CHUNK):
        spent += spend(begin, min(begin + CHUNK, keys * events))
    trim()
    size = (resident() - before) / keys
    return Kept(spent / (keys * events), (first - second) / keys, size, updates / keys)


def compare_keys(report: Report, step: Step, quick: bool) -> None:
    table = report.section(
        f"KeyedMonitor, Adaptive, max_keys=10000, max_bytes=1e9, in chunks of {CHUNK:,} events",
        "keys", "events a key", "an event", "of it making keys", "updates a key", "bytes a key",
        "10,000 such keys",
    )  # fmt: skip
    most = LIVE // 10 if quick else LIVE
    costs = {}
    streams = (100, EACH), (1000, EACH), (most, EACH), (most, YOUNG), (100, 10 * EACH)
    for keys, events in dict.fromkeys(streams):
        step(f"{keys} keys of {events} events")
        kept = fresh(partial(keep, keys, events))
        costs[keys, events] = kept.each
        total = f"{LIVE * kept.size / 1e9:.2f} GB"
        table.lines.append(
            (
                f"{keys:,}", f"{events:,}", f"{1e6 * kept.each:.2f} µs",
                f"{1e6 * kept.making / events:.2f} µs", f"{kept.updates:.1f}",
                f"{kept.size:,.0f}", total,
            )
        )  # fmt: skip
        if keys == most or events > EACH:
            asked = f"10,000 keys of {events:,} events ≤ 1 GB"
            figure = total if keys == LIVE else f"{total}, projected"
            report.require(asked, figure, LIVE * kept.size <= BUDGET)
    ratio = costs[most, EACH] / costs[100, EACH]
    asked = f"an event of {most:,} keys ≤ {FLAT}× one of 100, {EACH:,} events each"
    report.require(asked, f"{ratio:.2f}×", ratio <= FLAT)


def main(
    quick: Annotated[bool, typer.Option("--quick", help="A look: fewer events and keys.")] = False,
    markdown: Annotated[Path | None, typer.Option(help="Put the tables into this file.")] = None,
) -> None:
    """Measure adaptive windows."""
    machine = context(("numpy", "numba"))
    report = Report()
    repeats = 2 if quick else 4
    with steps(8) as step:
        step("a stream")
        profile, logits = source()
        logits = logits[: 50_000 if quick else EVENTS]
        compare_estimators(profile, logits, report, repeats)
        step("its parts")
        show_parts(profile, logits, report)
        step("many classes")
        compare_classes(report, 1 if quick else 2)
        compare_keys(report, step, quick)
    report.show(machine)
    if markdown is not None:
        report.write(markdown, "benchmarks/adaptive.py", "Adaptive memory", machine)


if __name__ == "__main__":
    typer.run(main)
