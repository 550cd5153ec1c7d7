"""Replays: events a second, memory over a long one, and how well monitors follow each schedule.

Run `python -m benchmarks.replay [--long 10000000] [--markdown docs/replay.md]`.
"""

import os

# One core for all, which the libraries read when numpy is first imported.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.datasets import Data, load
from benchmarks.reporting import Report, Section, Step, context, steps
from stream_leip import Monitor, Sliding, SourceProfile, Tumbling, fit_profile
from stream_leip.replay import (
    Appearing,
    Bernoulli,
    Constant,
    Dirichlet,
    Jumps,
    Linear,
    Pool,
    Rising,
    Schedule,
    Seasonal,
    Sinusoidal,
    Square,
    Stream,
    Sudden,
    Traffic,
    Walk,
    replay,
)

FITTED = 2000
TIMED, REPEATS, FOLLOWED, SEEDS = 200_000, 3, 20_000, 3
SHORT, MOST_GROWTH = 100_000, 16.0
SCHEDULES: dict[str, Schedule] = {
    "constant": Constant(),
    "sudden": Sudden(to={9: 0.5}),
    "linear": Linear(to={9: 0.5}),
    "sinusoidal": Sinusoidal(to={9: 0.5}),
    "square": Square(to={9: 0.5}),
    "Bernoulli": Bernoulli(to={9: 0.5}),
    "rising": Rising(9),
    "appearing": Appearing(9),
    "sudden, all move": Sudden(to=Dirichlet()),
    "Dirichlet jumps": Jumps(),
    "walk": Walk(),
    "seasonal": Seasonal(),
}
Makers = dict[str, Callable[[SourceProfile], Monitor]]
MONITORS: Makers = {
    "Tumbling(1000), LEIP": lambda profile: Monitor(profile, Tumbling(count=1000), "LEIP"),
    "Tumbling(1000), EM": lambda profile: Monitor(profile, Tumbling(count=1000), "EM"),
    "Sliding(1000, 100), EM": lambda profile: Monitor(
        profile, Sliding(count=1000, every=100), "EM"
    ),
}


def made(profile: SourceProfile, count: int) -> dict[str, Monitor]:
    """The first monitors, new ones."""
    return {name: make(profile) for name, make in list(MONITORS.items())[:count]}


def resident() -> float:
    """The process's resident size in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def best_of(run: Callable[[], object]) -> float:
    """The shortest of several times."""
    times = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return min(times)


def measure_speed(profile: SourceProfile, pool: Pool, table: Section, step: Step) -> None:
    """Events a second: drawn only, and replayed on one to three monitors."""
    messy = Traffic(jitter=1.0, out_of_order=0.1, late=0.01, duplicates=0.01)
    for name, traffic in (("in order", Traffic()), ("out of order, late, twice", messy)):
        step(f"speed: {name}")
        stream = Stream(pool, Square(), TIMED, profile.soft_prior, traffic)
        took = best_of(lambda stream=stream: sum(map(len, stream.chunks(1000))))  # type: ignore[misc]
        table.lines.append(("drawn only", name, f"{TIMED / took:,.0f}"))
    for count in (1, 2, 3):
        step(f"speed: {count} monitors")
        took = best_of(
            lambda count=count: replay(  # type: ignore[misc]
                made(profile, count), pool, Square(), TIMED, chunk=1000
            )
        )
        what = "1 monitor" if count == 1 else f"{count} monitors"
        table.lines.append((what, "in order", f"{TIMED / took:,.0f}"))


def measure_memory(
    profile: SourceProfile, pool: Pool, long: int, table: Section, report: Report, step: Step
) -> None:
    """The resident size along a long replay."""
    sizes: dict[int, float] = {}

    def look(done: int, total: int) -> None:
        tenth = done * 10 // total
        if tenth not in sizes:
            sizes[tenth] = resident()
            step(f"memory: {done:,} of {total:,} events")

    traffic = Traffic(out_of_order=0.1, late=0.01, duplicates=0.01)

    def run(n: int, progress: Callable[[int, int], None] | None) -> None:
        replay(made(profile, 1), pool, Walk(), n, traffic=traffic, chunk=1000, progress=progress)

    run(SHORT, None)
    before = resident()
    table.lines.append((f"before, after another of {SHORT:,}", f"{before:.0f}"))
    run(long, look)
    for tenth, size in sizes.items():
        table.lines.append((f"{long * tenth // 10:,}", f"{size:.0f}"))
    growth = max(sizes.values()) - before
    asked = f"{long:,} events take at most {MOST_GROWTH:.0f} MB more than {SHORT:,}"
    report.require(asked, f"{growth:+.1f} MB", growth <= MOST_GROWTH)


def measure_errors(profile: SourceProfile, pool: Pool, table: Section, step: Step) -> None:
    """The mean error of the estimate that stood, by schedule and monitor."""
    for name, schedule in SCHEDULES.items():
        step(f"errors: {name}")
        sums = dict.fromkeys(MONITORS, 0.0)
        gains = dict.fromkeys(MONITORS, 0.0)
        for seed in range(SEEDS):
            found = replay(made(profile, 3), pool, schedule, FOLLOWED, seed=seed)
            for monitor, track in found.tracks.items():
                sums[monitor] += track.errors.standing / SEEDS
                gained = track.adapted.accuracy - found.unadapted.accuracy
                gains[monitor] += 100.0 * gained / SEEDS
        figures = [f"{sums[each]:.3f} ({gains[each]:+.2f})" for each in MONITORS]
        table.lines.append((name, *figures))


def main(
    long: Annotated[int, typer.Option(min=100_000, help="Events of the long replay.")] = 10_000_000,
    markdown: Annotated[Path | None, typer.Option(help="Put the tables into this file.")] = None,
) -> None:
    """Measure replays on the MNIST logits."""
    machine = context(("numpy", "numba"))
    report = Report()
    scored = load(Data.MNIST)
    profile = fit_profile(scored.val_logits[:FITTED], scored.val_labels[:FITTED])
    pool = Pool(scored.test_logits, scored.test_labels)
    with steps(5 + 11 + len(SCHEDULES)) as step:
        speed = report.section("Events a second", "what", "arrival", "events/s")
        measure_speed(profile, pool, speed, step)
        memory = report.section("Resident size along a long replay, MB", "events", "MB")
        measure_memory(profile, pool, long, memory, report, step)
        title = "Error of the estimate that stands, and points of accuracy gained by adapting"
        measure_errors(profile, pool, report.section(title, "schedule", *MONITORS), step)
    report.show(machine)
    if markdown is not None:
        report.write(markdown, "benchmarks/replay.py", "Replays", machine)


if __name__ == "__main__":
    typer.run(main)
