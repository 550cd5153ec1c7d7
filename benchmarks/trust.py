"""What trust costs: the time of intervals, assumption check and the evidence they need.

Run `python -m benchmarks.trust [--markdown docs/trust.md]`.
"""

import os

# One core for all, which the libraries read when numpy is first imported.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import typer

from benchmarks.coverage import Pool
from benchmarks.datasets import Data
from benchmarks.reporting import Report, Section, context, steps
from stream_leip import EM, SourceProfile, fit_profile
from stream_leip._kernels.labels import largest_entries
from stream_leip.arrays import Labels, Vector
from stream_leip.assumption import check, moments
from stream_leip.calibration import as_logits
from stream_leip.estimators.estimate import NO_WEIGHTS
from stream_leip.evidence import gather
from stream_leip.interval import interval, validation_variance
from stream_leip.pane import Pane

REPEATS = 30
CLASSES, KEPT = 1000, 16


@dataclass(frozen=True, eq=False)
class Case:
    """A window of some profile."""

    name: str
    profile: SourceProfile
    pane: Pane
    repeats: int

    @property
    def prior(self) -> Vector:
        """Of greatest likelihood."""
        return EM().estimate_ranked(self.pane, self.profile, NO_WEIGHTS).prior


def best_time(call: Callable[[], object], repeats: int) -> float:
    """The best of several, in seconds of the processor, after a warm-up; others may be at work."""
    call()
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return min(times)


def few_classes() -> Case:
    """1000 rows of CIFAR-10, 2000 validation rows."""
    rng = np.random.default_rng(0)
    validation, rest = Pool.of(Data.CIFAR10).split(2000, rng)
    profile = validation.fit("BCTS")
    rows = profile.rows(rest.draw(1000, rng.dirichlet(np.ones(10)), rng))
    return Case("1000 × 10", profile, Pane.seal(rows), REPEATS)


def many_classes() -> Case:
    """1000 rows of 1000 Gaussian classes, their 16 largest entries; 10,000 validation rows."""
    rng = np.random.default_rng(0)

    def pool(labels: Labels) -> Pool:
        logits = rng.standard_normal((len(labels), CLASSES), np.float32)
        logits[np.arange(len(labels)), labels] += 3.5
        return Pool(logits, labels)

    known = np.concatenate([np.arange(CLASSES), rng.integers(CLASSES, size=9 * CLASSES)])
    profile = pool(known).fit("BCTS")
    seen = pool(rng.choice(CLASSES, 1000, p=rng.dirichlet(np.ones(CLASSES))))
    entries = np.empty((len(seen.labels), KEPT), np.float32)
    classes = np.empty(entries.shape, np.uint16)
    largest_entries(profile.rows(seen.logits), entries, classes)
    pane = Pane.seal(entries, classes=classes, m=CLASSES)
    return Case(f"1000 × {CLASSES}, {KEPT} entries", profile, pane, 5)


def measure(case: Case, table: Section) -> dict[str, float]:
    """Seconds of each part, in a line of the table."""
    profile, pane, prior = case.profile, case.pane, case.prior
    seen = moments(pane, profile)
    found = {
        "EM": best_time(lambda: case.prior, case.repeats),
        "interval": best_time(
            lambda: interval(pane, profile, NO_WEIGHTS, prior, 0.95), case.repeats
        ),
        "variance": best_time(lambda: validation_variance(pane, profile, prior), case.repeats),
        "moments": best_time(lambda: moments(pane, profile), case.repeats),
        "check": best_time(lambda: check(seen, profile, prior), case.repeats),
    }
    table.lines.append((case.name, *(f"{1e3 * seconds:.3g}" for seconds in found.values())))
    return found


def fit_costs(report: Report, many: SourceProfile) -> None:
    """What the evidence adds to fitting, and to the file."""
    table = report.section(
        "Evidence", "validation rows", "to gather, CPU s", "fit_profile, CPU s", "file"
    )
    pool = Pool.of(Data.CIFAR10)
    logits, labels = pool.logits[:10_000], pool.labels[:10_000]
    profile = fit_profile(logits, labels)
    rows, wide = profile.rows(logits), as_logits(logits, "logits")
    part = best_time(lambda: gather(rows, labels, wide, profile.calibrator, 0), 3)
    whole = best_time(lambda: fit_profile(logits, labels), 3)
    with TemporaryDirectory() as folder:
        sizes = []
        for name, held in (("few", profile), ("many", many)):
            held.save(Path(folder, name))
            sizes.append(f"{Path(folder, name).stat().st_size / 1e6:.1f} MB")
    table.lines.append(("10,000 × 10", f"{part:.3f}", f"{whole:.2f}", sizes[0]))
    table.lines.append((f"10,000 × {CLASSES}", "–", "–", sizes[1]))
    report.require("fit_profile of 10,000 × 10 ≤ 1 s", f"{whole:.2f} s", whole <= 1.0)


def main(
    markdown: Annotated[Path | None, typer.Option(help="Put the tables into this file.")] = None,
) -> None:
    """Time each part."""
    machine = context(("numpy", "numba", "scipy"))
    report = Report()
    table = report.section(
        "Milliseconds of processor time for a window", "rows × classes",
        "EM", "interval", "validation variance", "moments", "check",
    )  # fmt: skip
    with steps(3) as step:
        step("10 classes")
        few = measure(few_classes(), table)
        step(f"{CLASSES} classes")
        case = many_classes()
        many = measure(case, table)
        step("fitting")
        fit_costs(report, case.profile)
    for asked, seconds, most in (
        ("interval, 1000 × 10", few["interval"], 2e-3),
        ("validation variance, 1000 × 10", few["variance"], 0.3e-3),
        ("moments of a row, 10 classes", few["moments"] / 1000, 0.3e-6),
        (f"interval, {case.name}", many["interval"], 0.2),
    ):
        report.require(f"{asked} ≤ {1e6 * most:g} µs", f"{1e6 * seconds:.3g} µs", seconds <= most)
    report.show(machine)
    if markdown is not None:
        report.write(markdown, "benchmarks/trust.py", "Cost", machine)


if __name__ == "__main__":
    typer.run(main)
