"""Predictions adapted to the class mix of a stream: accuracy and macro recall on replays.

Run `python -m benchmarks.adapting [--seeds 10] [--markdown docs/streaming.md]`.
"""

import os

# One core for all, which the libraries read when numpy is first imported.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from benchmarks.datasets import Data, Scored, load
from benchmarks.reporting import Report, Step, context, steps
from stream_leip import Adaptive, Monitor, Sliding, SourceProfile, Tumbling, fit_profile
from stream_leip.adapt import adapt
from stream_leip.arrays import Labels, Matrix, Rows, Vector
from stream_leip.windows import Window

FITTED = 2000
EVENTS, CHUNK, SWAP = 20_000, 100, 2000
STRONG = 0.1
MOST_LOST = 0.1
NAMES = {Data.MNIST: "MNIST", Data.CIFAR10: "CIFAR-10"}
WINDOWS: dict[str, Window] = {
    "Adaptive()": Adaptive(),
    "Tumbling(200)": Tumbling(count=200),
    "Tumbling(1000)": Tumbling(count=1000),
    "Sliding(1000, 100)": Sliding(count=1000, every=100),
}
SCENARIOS = ("no shift", "strong shift", "square wave")


@dataclass(frozen=True, eq=False)
class Stream:
    """Events with their labels, and the true mix of each chunk."""

    logits: NDArray[np.float32]
    labels: Labels
    mixes: Matrix

    def chunks(self) -> Iterator[tuple[NDArray[np.float32], Vector]]:
        """Chunk by chunk, with the true mix."""
        for i, mix in enumerate(self.mixes):
            yield self.logits[CHUNK * i : CHUNK * (i + 1)], mix


def mixes_of(scenario: str, source: Vector, rng: np.random.Generator) -> Matrix:
    """The true mix of each chunk."""
    n = EVENTS // CHUNK
    if scenario == "no shift":
        return np.tile(source, (n, 1))
    first, second = rng.dirichlet(np.full(len(source), STRONG), 2)
    if scenario == "strong shift":
        return np.tile(first, (n, 1))
    swapped = (CHUNK * np.arange(n) // SWAP) % 2 == 1
    return np.asarray(np.where(swapped[:, None], second, first))


def draw(scored: Scored, mixes: Matrix, rng: np.random.Generator) -> Stream:
    """Test rows, with replacement, whose labels follow the mixes."""
    labels = np.concatenate([rng.choice(len(mix), CHUNK, p=mix) for mix in mixes])
    places = np.empty(len(labels), np.int64)
    for j in np.unique(labels):
        here = labels == j
        places[here] = rng.choice(np.flatnonzero(scored.test_labels == j), here.sum())
    return Stream(scored.test_logits[places], labels, mixes)


def replay(stream: Stream, profile: SourceProfile, window: Window) -> Labels:
    """Adapt each chunk with the monitor as it stands, then feed it; the labels predicted."""
    monitor = Monitor(profile, window, level=None, alarm=None, check=False)
    found: list[Labels] = []
    for logits, _ in stream.chunks():
        found.append(monitor.adapt(logits).argmax(axis=1))
        monitor.update_many(logits)
    return np.concatenate(found)


def with_true_mix(stream: Stream, rows: Rows, source: Vector) -> Labels:
    """The labels predicted by one who knows the mix."""
    parts = np.split(rows, len(stream.mixes))
    pairs = zip(parts, stream.mixes, strict=True)
    return np.concatenate([adapt(part, mix, source).argmax(axis=1) for part, mix in pairs])


def judge(predicted: Labels, labels: Labels) -> tuple[float, float]:
    """Accuracy, and the mean recall of the classes that came, in per cent."""
    right = predicted == labels
    recalls = [right[labels == j].mean() for j in np.unique(labels)]
    return 100.0 * float(right.mean()), 100.0 * float(np.mean(recalls))


def measure(
    scored: Scored, profile: SourceProfile, scenario: str, seeds: int
) -> dict[str, NDArray[np.float64]]:
    """Accuracy and macro recall by seed: unadapted, with the true mix, and adapted by window."""
    found: dict[str, list[tuple[float, float]]] = {}
    for seed in range(seeds):
        rng = np.random.default_rng([seed, SCENARIOS.index(scenario)])
        stream = draw(scored, mixes_of(scenario, profile.hard_prior, rng), rng)
        rows = profile.rows(stream.logits)
        predicted = {
            "unadapted": rows.argmax(axis=1),
            "true mix": with_true_mix(stream, rows, profile.soft_prior),
            **{name: replay(stream, profile, window) for name, window in WINDOWS.items()},
        }
        for name, labels in predicted.items():
            found.setdefault(name, []).append(judge(labels, stream.labels))
    return {name: np.array(by_seed) for name, by_seed in found.items()}


def run(seeds: int, report: Report, step: Step) -> None:
    columns = ("data", "stream", "window", "unadapted", "adapted", "true mix", "difference")
    tables = [
        report.section("Accuracy, per cent, and adapted less unadapted in points", *columns),
        report.section("Macro recall, per cent, and adapted less unadapted in points", *columns),
    ]
    for data in Data:
        scored = load(data)
        step(f"{NAMES[data]}: fitting a profile")
        profile = fit_profile(scored.val_logits[:FITTED], scored.val_labels[:FITTED])
        for scenario in SCENARIOS:
            step(f"{NAMES[data]}: {scenario}")
            found = measure(scored, profile, scenario, seeds)
            for window in WINDOWS:
                gained = found[window] - found["unadapted"]
                mean = gained.mean(axis=0)
                error = gained.std(axis=0, ddof=1) / np.sqrt(seeds)
                for i, table in enumerate(tables):
                    names = ("unadapted", window, "true mix")
                    figures = [f"{found[name][:, i].mean():.2f}" for name in names]
                    difference = f"{mean[i]:+.2f} ± {error[i]:.2f}"
                    table.lines.append((NAMES[data], scenario, window, *figures, difference))
                what = f"{NAMES[data]}, {scenario}, {window}"
                figure = f"{mean[0]:+.2f} points of accuracy"
                if scenario == "no shift":
                    asked = f"{what}: no worse than {MOST_LOST} points"
                    report.require(asked, figure, mean[0] >= -MOST_LOST)
                else:
                    report.require(f"{what}: the error falls", figure, mean[0] > 0.0)


def main(
    seeds: Annotated[int, typer.Option(min=2, help="How many streams of each kind.")] = 10,
    markdown: Annotated[Path | None, typer.Option(help="Put the tables into this file.")] = None,
) -> None:
    """Adapt predictions on replayed streams, and judge them."""
    machine = context(("numpy", "numba"))
    report = Report()
    with steps(2 * (1 + len(SCENARIOS))) as step:
        run(seeds, report, step)
    report.show(machine)
    if markdown is not None:
        report.write(markdown, "benchmarks/adapting.py", "Adapting", machine)


if __name__ == "__main__":
    typer.run(main)
