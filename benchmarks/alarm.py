"""The alarm: how often it cries wolf, and how soon it finds a change.

Run `python -m benchmarks.alarm [--streams 1000] [--processes 2] [--quick] [--markdown
docs/alarm.md]`. Every stream has a validation set of its own. Without a change streams have 10,000
events. With one, a class goes from its share of a tenth to another after 1000 quiet events; second
changes come 3000 events later, away to another class or back home. Delays are medians, of streams
that had been quiet until then. Some streams stay at 0.3, to see whether the alarm is raised once
more without a second change.
"""

import os

# One core for all, which the libraries read when numpy is first imported.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.coverage import NAMES, Pool
from benchmarks.datasets import Data
from benchmarks.reporting import Report, Step, context, steps
from benchmarks.tracking import draw
from stream_leip import EM
from stream_leip._kernels.mixture import PANE
from stream_leip.arrays import Matrix, Vector
from stream_leip.tracker import Tracker

LEVEL = 0.05
FITTED = (500, 2000, 8000)
QUIET, AFTER, LONG = 1000, 3000, 10_000
SHARES = (0.2, 0.3, 0.5)
MOVER, SECOND = 3, 7
STAYED = 0.3
# Delays of the recipe's prototype, for the three shares: raised, and warning.
RECIPE = {
    (Data.MNIST, 500): ((None, 575, 150), (1350, 200, 100)),
    (Data.MNIST, 2000): ((1500, 325, 100), (675, 200, 100)),
    (Data.MNIST, 8000): ((775, 250, 100), (425, 150, 50)),
    (Data.CIFAR10, 500): ((None, 625, 100), (1375, 250, 75)),
    (Data.CIFAR10, 2000): ((None, 325, 100), (700, 200, 100)),
    (Data.CIFAR10, 8000): ((1050, 250, 100), (575, 175, 100)),
}


@dataclass(frozen=True)
class Seen:
    """When an alarm first warned and raised, in events; infinite for never."""

    warned: float = np.inf
    raised: float = np.inf

    def after(self, event: int) -> "Seen":
        """Delays since an event."""
        return Seen(self.warned - event, self.raised - event)


def moved(home: Vector, place: int, share: float) -> Vector:
    """The home mix with one class at another share, the others in proportion."""
    mix: Vector = home * (1.0 - share) / (1.0 - home[place])
    mix[place] = share
    return mix


def watch(pool: Pool, fitted: int, seed: int, stretches: list[tuple[Vector, int]]) -> list[Seen]:
    """Follow a stream of mixes, each for some events; what the alarm says in each stretch.

    After a stretch in which it was raised, the next begins when the null has moved, at the latest
    after the stretch's events.
    """
    rng = np.random.default_rng([seed, fitted])
    validation, rest = pool.split(fitted, rng)
    profile = validation.fit("BCTS")
    tracker = Tracker(profile, EM(), LEVEL)
    alarm = tracker.alarm
    assert alarm is not None
    out = []
    for mix, events in stretches:
        begin = tracker.events
        warned = raised = np.inf
        priors: Matrix = np.broadcast_to(mix, (events, len(mix)))
        for part in np.split(profile.rows(draw(rest, priors, rng)), events // PANE):
            tracker.take(part)
            warned = min(warned, tracker.events if alarm.warning else np.inf)
            raised = min(raised, tracker.events if alarm.raised else np.inf)
        out.append(Seen(warned, raised).after(begin))
    return out


def false_alarms(pool: Pool, fitted: int, streams: int) -> tuple[float, float]:
    """The shares of streams without a change that ever warn and ever raise."""
    home = np.bincount(pool.labels) / len(pool.labels)
    seen = [watch(pool, fitted, seed, [(home, LONG)])[0] for seed in range(streams)]
    return (
        float(np.mean([each.warned < np.inf for each in seen])),
        float(np.mean([each.raised < np.inf for each in seen])),
    )


def delays(pool: Pool, fitted: int, share: float, streams: int) -> list[Seen]:
    """Median delays of a first change, of a second one elsewhere, and of one back home."""
    home = np.bincount(pool.labels) / len(pool.labels)
    away, elsewhere = moved(home, MOVER, share), moved(home, SECOND, share)
    found: list[list[Seen]] = [[], [], []]
    for seed in range(streams):
        for place, then in ((1, elsewhere), (2, home)):
            stretches = [(home, QUIET), (away, AFTER), (then, AFTER)]
            quiet, first, second = watch(pool, fitted, 10_000 + seed, stretches)
            if quiet.raised == np.inf:
                found[place].append(second)
                if place == 1:
                    found[0].append(first)
    return [
        Seen(
            float(np.median([each.warned for each in some])),
            float(np.median([each.raised for each in some])),
        )
        for some in found
    ]


def raises_again(pool: Pool, fitted: int, streams: int) -> float:
    """The share of streams that are raised again, long after a change and without a second one."""
    home = np.bincount(pool.labels) / len(pool.labels)
    away = moved(home, MOVER, STAYED)
    stretches = [(home, QUIET), (away, AFTER), (away, LONG)]
    seen = [watch(pool, fitted, 20_000 + seed, stretches) for seed in range(streams)]
    # Of later raises the null may not have moved before the last stretch begins.
    again = [last.raised < np.inf for _, first, last in seen if first.raised <= AFTER / 2]
    return float(np.mean(again)) if again else np.nan


@dataclass(frozen=True)
class Cell:
    """What one data set and size of validation set gave; delays by share, then by place."""

    warned: float
    raised: float
    again: float
    delays: list[list[Seen]]

    @classmethod
    def of(cls, data: Data, fitted: int, streams: int, changes: int) -> "Cell":
        """Follow all its streams."""
        pool = Pool.of(data)
        return cls(
            *false_alarms(pool, fitted, streams),
            raises_again(pool, fitted, changes),
            [delays(pool, fitted, share, changes) for share in SHARES],
        )


def measure(streams: int, changes: int, processes: int, report: Report, step: Step) -> None:
    wolf = report.section(
        "Streams of 10,000 events without a change, and after one",
        "data", "validation", "ever warn", "ever raise", "raise again after a change",
    )  # fmt: skip
    found = report.section(
        "Events until a change is found, median (a class goes from 0.1 to 0.2 / 0.3 / 0.5)",
        "data", "validation", "warning", "recipe", "raised", "recipe",
        "second change, raised", "back home, raised",
    )  # fmt: skip
    with ProcessPoolExecutor(processes) as others:
        begun = {
            key: others.submit(Cell.of, *key, streams, changes) for key in product(Data, FITTED)
        }
        for (data, fitted), each in begun.items():
            step(f"{NAMES[data]}, {fitted} validation rows")
            cell = each.result()
            where = f"{NAMES[data]}, {fitted} validation rows"
            shares = f"{cell.warned:.1%}", f"{cell.raised:.1%}", f"{cell.again:.1%}"
            wolf.lines.append((NAMES[data], str(fitted), *shares))
            report.require(f"{where}: ≤ 5 % ever warn", shares[0], cell.warned <= 0.05)
            report.require(f"{where}: ≤ 5 % ever raise", shares[1], cell.raised <= 0.05)
            first, second, back = zip(*cell.delays, strict=True)
            asked_raised, asked_warning = RECIPE[data, fitted]
            found.lines.append((
                NAMES[data], str(fitted),
                _line([each.warned for each in first]), _line(asked_warning),
                _line([each.raised for each in first]), _line(asked_raised),
                _line([each.raised for each in second]), _line([each.raised for each in back]),
            ))  # fmt: skip
            for share, one, warning, proven in zip(
                SHARES, first, asked_warning, asked_raised, strict=True
            ):
                report.require(
                    f"{where}, to {share}: warning ≤ {1.2 * warning:.0f} events",
                    f"{one.warned:.0f}",
                    one.warned <= 1.2 * warning,
                )
                if proven is not None:
                    report.require(
                        f"{where}, to {share}: raised ≤ {proven} events",
                        f"{one.raised:.0f}",
                        one.raised <= proven,
                    )


def _line(events: list[float] | tuple[float | None, ...]) -> str:
    return " / ".join("–" if n is None or not np.isfinite(n) else f"{n:.0f}" for n in events)


def main(
    streams: Annotated[int, typer.Option(min=1, help="Streams without a change, a cell.")] = 1000,
    changes: Annotated[int, typer.Option(min=1, help="Streams with changes, a cell.")] = 60,
    processes: Annotated[int, typer.Option(min=1, help="So many cells at a time.")] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="A look: few streams.")] = False,
    markdown: Annotated[Path | None, typer.Option(help="Put the tables into this file.")] = None,
) -> None:
    """Count false alarms, and measure how soon changes are found."""
    machine = context(("numpy", "numba"))
    report = Report()
    with steps(len(Data) * len(FITTED)) as step:
        measure(20 if quick else streams, 6 if quick else changes, processes, report, step)
    report.show(machine)
    if markdown is not None:
        report.write(markdown, "benchmarks/alarm.py", "Alarm", machine)


if __name__ == "__main__":
    typer.run(main)
