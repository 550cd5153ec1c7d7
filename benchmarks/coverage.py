"""Intervals: how often they hold the true mix, and how wide they are.

Run `python -m benchmarks.coverage [--quick] [--markdown docs/trust.md]`. Every trial draws its
validation set anew from all rows of a data set, and its windows from the rest.
"""

import os

# One core for all, which the libraries read when numpy is first imported.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from benchmarks.datasets import Data, load
from benchmarks.reporting import Report, Step, context, steps
from stream_leip import EM, SourceProfile
from stream_leip.arrays import Labels, Vector
from stream_leip.calibration import METHODS, Method, as_logits
from stream_leip.estimators.estimate import NO_WEIGHTS
from stream_leip.fitting import Labelled, fit_source
from stream_leip.interval import interval
from stream_leip.pane import Pane

NAMES = {Data.MNIST: "MNIST", Data.CIFAR10: "CIFAR-10"}
LEVEL = 0.95
FITTED = (500, 2000, 8000)
WINDOWS = (200, 1000, 5000)
ALPHAS = (0.5, 1.0, 10.0)
DOMINATED, DOMINANT = 3, 0.6
ASKED = {"rare": 0.93, "middle": 0.93, "common": 0.93, "dominant": 0.90, "beside it": 0.90}
GROUPS = tuple(ASKED)


@dataclass(frozen=True, eq=False)
class Pool:
    """All rows of a data set, validation and test."""

    logits: NDArray[np.float32]
    labels: Labels

    @classmethod
    def of(cls, data: Data) -> "Pool":
        """Both parts as one."""
        scored = load(data)
        return cls(
            np.concatenate([scored.val_logits, scored.test_logits]),
            np.concatenate([scored.val_labels, scored.test_labels]),
        )

    def split(self, n: int, rng: np.random.Generator) -> tuple["Pool", "Pool"]:
        """So many random rows, and the rest."""
        order = rng.permutation(len(self.labels))
        first, rest = order[:n], order[n:]
        return Pool(self.logits[first], self.labels[first]), Pool(
            self.logits[rest], self.labels[rest]
        )

    def sample(self, n: int, rng: np.random.Generator) -> "Pool":
        """So many random rows, with replacement."""
        chosen = rng.integers(len(self.labels), size=n)
        return Pool(self.logits[chosen], self.labels[chosen])

    def fit(self, method: Method) -> SourceProfile:
        """The profile of these rows, without the replay that intervals have no use for."""
        names = tuple(map(str, range(self.logits.shape[1])))
        logits = as_logits(self.logits, "logits")
        return fit_source(Labelled(self.logits, logits, self.labels, names, "logits"), method, 0)

    def draw(self, n: int, prior: Vector, rng: np.random.Generator) -> NDArray[np.float32]:
        """Logits, with replacement, whose labels follow the prior."""
        order = np.argsort(self.labels, kind="stable")
        begin = np.searchsorted(self.labels[order], np.arange(len(prior) + 1))
        labels = rng.choice(len(prior), n, p=prior)
        width = np.diff(begin)[labels]
        return self.logits[order[begin[labels] + (rng.random(n) * width).astype(np.int64)]]


def group_of(prior: Vector) -> NDArray[np.str_]:
    """The group of each class: by its share, or as one above 60 % and those beside it."""
    if prior.max() > DOMINANT:
        return np.where(prior > DOMINANT, "dominant", "beside it")
    return np.where(prior < 0.01, "rare", np.where(prior < 0.1, "middle", "common"))


def mixes(m: int, rng: np.random.Generator) -> Iterator[Vector]:
    """Some of every strength, and some in which one class holds more than 60 %."""
    for alpha in ALPHAS:
        yield rng.dirichlet(np.full(m, alpha))
    found = 0
    while found < DOMINATED:
        prior = rng.dirichlet(np.full(m, 0.1))
        if prior.max() > DOMINANT:
            found += 1
            yield prior


@dataclass(frozen=True)
class Cell:
    """What one window gave: which of its classes are of a group, held, and how wide."""

    group: str
    window: int
    held: NDArray[np.bool_]
    width: Vector


def trial(pool: Pool, fitted: int, method: Method, seed: int) -> Iterator[Cell]:
    """One validation set, and windows of every size and mix."""
    rng = np.random.default_rng([seed, fitted])
    validation, rest = pool.split(fitted, rng)
    profile = validation.fit(method)
    for n, prior in product(WINDOWS, list(mixes(len(profile.classes), rng))):
        pane = Pane.seal(profile.rows(rest.draw(n, prior, rng)))
        found = EM().estimate_ranked(pane, profile, NO_WEIGHTS).prior
        low, high = interval(pane, profile, NO_WEIGHTS, found, LEVEL)
        held = (low <= prior) & (prior <= high)
        groups = group_of(prior)
        for group in np.unique(groups):
            here = groups == group
            yield Cell(str(group), n, held[here], (high - low)[here])


def measure(
    pool: Pool, fitted: int, method: Method, trials: int
) -> dict[tuple[int, str], tuple[float, float, int]]:
    """Share held, mean width and number of intervals, by window size and group."""
    cells: dict[tuple[int, str], list[Cell]] = {}
    for seed in range(trials):
        for cell in trial(pool, fitted, method, seed):
            cells.setdefault((cell.window, cell.group), []).append(cell)
    return {
        key: (
            float(np.concatenate([cell.held for cell in found]).mean()),
            float(np.concatenate([cell.width for cell in found]).mean()),
            sum(len(cell.held) for cell in found),
        )
        for key, found in cells.items()
    }


def run(trials: int, report: Report, step: Step) -> None:
    columns = ("data", "calibration", "validation", "window", *GROUPS)
    table = report.section(
        f"Windows: per cent held at nominal {LEVEL:.0%} (mean width of the interval, in points)",
        *columns,
    )
    worst: dict[tuple[Method, str], tuple[float, str]] = {}
    for data in Data:
        pool = Pool.of(data)
        for method, fitted in product(METHODS, FITTED):
            step(f"{NAMES[data]}: {method}, {fitted} validation rows")
            found = measure(pool, fitted, method, trials)
            for n in WINDOWS:
                figures = []
                for group in GROUPS:
                    held, width, _ = found.get((n, group), (np.nan, np.nan, 0))
                    figures.append(f"{100 * held:.1f} ({100 * width:.2g})")
                    where = f"{NAMES[data]}, {fitted}, {n}"
                    if held < worst.get((method, group), (2.0, ""))[0]:
                        worst[method, group] = (held, where)
                table.lines.append((NAMES[data], method, str(fitted), str(n), *figures))
    for (method, group), (held, where) in worst.items():
        report.require(
            f"{method}, {group}: the worst cell ≥ {ASKED[group]:.0%}",
            f"{100 * held:.1f} % ({where})",
            held >= ASKED[group],
        )


def main(
    trials: Annotated[int, typer.Option(min=2, help="Validation sets for each setting.")] = 60,
    quick: Annotated[bool, typer.Option("--quick", help="A look: few trials.")] = False,
    markdown: Annotated[Path | None, typer.Option(help="Put the tables into this file.")] = None,
) -> None:
    """Draw validation sets and windows, and count how often the intervals hold the truth."""
    machine = context(("numpy", "numba"))
    report = Report()
    with steps(len(Data) * len(METHODS) * len(FITTED)) as step:
        run(5 if quick else trials, report, step)
    report.show(machine)
    if markdown is not None:
        report.write(markdown, "benchmarks/coverage.py", "Intervals", machine)


if __name__ == "__main__":
    typer.run(main)
