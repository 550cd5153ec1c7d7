"""River models on streams whose class mix drifts, labels late: what adapting gains and costs.

Run `python -m benchmarks.river_replay [--part costs] [--events 12000] [--seeds 5]
[--resume gains.json] [--markdown docs/river.md]`.
"""

import os

# One core for all, which the libraries read when numpy is first imported.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

import json
import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from river import datasets, drift, naive_bayes, tree
from river.datasets import synth
from stream_leip_connectors.river import LabelShiftClassifier, PriorTracker
from stream_leip_connectors.river.weighing import Weighing, checked

from benchmarks.datasets import Data, load
from benchmarks.reporting import Report, Step, context, steps
from stream_leip import fit_profile

MODELS: dict[str, Callable[[], Any]] = {
    "GaussianNB": naive_bayes.GaussianNB,
    "HoeffdingTree": tree.HoeffdingTreeClassifier,
}
DRIFTS = ("none", "sudden", "swing")
DELAYS = (500, 2000)
# Even at first, while models learn; then mixes drawn from Dirichlet(0.5).
EVEN, STAY, PERIOD = 3000, 4000, 6000
JUDGED_FROM = 1000
MOST_LOST = 0.5
# Two accuracies of 12,000 events differ by so much by chance alone.
NOISE = 0.2
CLASSES = 10
ROUNDS = 7

Pool = list[tuple[dict[Any, Any], Any]]


def rbf(centroids: int) -> Pool:
    stream = synth.RandomRBF(
        seed_model=7, seed_sample=1, n_classes=5, n_features=10, n_centroids=centroids
    )
    return list(stream.take(40_000))


def mnist() -> Pool:
    scored = load(Data.MNIST)
    pairs = zip(scored.test_logits.tolist(), scored.test_labels.tolist(), strict=True)
    return [(dict(enumerate(logits)), label) for logits, label in pairs]


POOLS: dict[str, Callable[[], Pool]] = {
    "RandomRBF, 15 centroids": lambda: rbf(15),
    "RandomRBF, 50 centroids": lambda: rbf(50),
    "ImageSegments": lambda: list(datasets.ImageSegments()),
    "MNIST logits": mnist,
}


@dataclass(frozen=True)
class Event:
    """Features, label, and the true mix by label."""

    x: dict[Any, Any]
    y: Any
    mix: dict[Any, float]


def events(pool: Pool, drift_kind: str, n: int, seed: int) -> Iterator[Event]:
    """The pool resampled: each class's events in random order, classes by the schedule."""
    rng = np.random.default_rng(seed)
    by_label: dict[Any, list[dict[Any, Any]]] = {}
    for x, y in pool:
        by_label.setdefault(y, []).append(x)
    labels = sorted(by_label)
    order = {y: rng.permutation(len(by_label[y])) for y in labels}
    used = dict.fromkeys(labels, 0)
    mixes = rng.dirichlet(np.full(len(labels), 0.5), n // STAY + 2)
    for i in range(n):
        mix = np.full(len(labels), 1.0 / len(labels))
        if i >= EVEN and drift_kind == "sudden":
            mix = mixes[i // STAY]
        elif i >= EVEN and drift_kind == "swing":
            part = 0.5 - 0.5 * math.cos(2.0 * math.pi * (i - EVEN) / PERIOD)
            mix = (1.0 - part) * mixes[0] + part * mixes[1]
        y = labels[rng.choice(len(labels), p=mix)]
        place = order[y][used[y] % len(order[y])]
        used[y] += 1
        yield Event(by_label[y][place], y, dict(zip(labels, mix.tolist(), strict=True)))


class Once:
    """Has a model asked once for what is asked twice in a row; asking is most of the time."""

    def __init__(self, model: Any) -> None:
        self.x: Any = None
        self._found: Any = None
        self._ask = model.predict_proba_one
        model.predict_proba_one = self.ask

    def ask(self, x: Any) -> Any:
        """What the model says; `x` is set to None whenever it may say something else."""
        if x is not self.x:
            self.x, self._found = x, self._ask(x)
        return dict(self._found)


def judge(stream: Iterator[Event], make: Callable[[], Any], delay: int) -> NDArray[np.float64]:
    """Accuracy in per cent, and log loss: of the bare model, ours, and ours with the true mix."""
    inner = make()
    once = Once(inner)
    model = LabelShiftClassifier(inner, observe_on_predict=True)
    waiting: deque[Event] = deque()
    sums = np.zeros((2, 3))
    n = 0
    for i, event in enumerate(stream):
        once.x = None
        bare = checked(inner.predict_proba_one(event.x), "model")
        ours = model.predict_proba_one(event.x)
        if i >= JUDGED_FROM and bare:
            n += 1
            for k, found in enumerate((bare, ours, with_true_mix(model, bare, event.mix))):
                sums[0, k] += max(found, key=found.__getitem__) == event.y
                sums[1, k] -= math.log(max(found.get(event.y, 0.0), 1e-15))
        waiting.append(event)
        if len(waiting) > delay:
            late = waiting.popleft()
            once.x = None
            model.learn_one(late.x, late.y)
    means: NDArray[np.float64] = sums / n * np.array([[100.0], [1.0]])
    return means


def with_true_mix(model: LabelShiftClassifier, bare: Any, mix: dict[Any, float]) -> Any:
    """The same profile, with what nobody knows in place of the estimate, and all of it trusted."""
    profile = model.profile
    if profile is None:
        return bare
    labels = list(model.prior)
    prior = np.array([mix[label] for label in labels])
    return Weighing(profile, labels, prior).posteriors(bare, 1.0)


def compare(n: int, seeds: int, resume: Path | None, report: Report, step: Step) -> None:
    done: dict[str, Any] = {}
    if resume is not None and resume.exists():
        done = json.loads(resume.read_text())
    columns = ("stream", "model", "mix", "labels late by", "bare", "ours", "true mix", "gain")
    accuracy = report.section(f"Accuracy, per cent, mean of {seeds} seeds", *columns)
    loss = report.section(f"Log loss, mean of {seeds} seeds", *columns)
    pools = {name: make() for name, make in POOLS.items()}
    runs: dict[tuple[str, ...], list[Any]] = {}
    for seed, (name, pool), model, kind, delay in product(
        range(seeds), pools.items(), MODELS, DRIFTS, DELAYS
    ):
        run = f"{name}, {model}, {kind}, {delay}, {n} events, seed {seed}"
        step(run)
        if run not in done:
            done[run] = judge(events(pool, kind, n, seed), MODELS[model], delay).tolist()
            if resume is not None:
                resume.write_text(json.dumps(done))
        runs.setdefault((name, model, kind, str(delay)), []).append(done[run])
    for case, each_run in runs.items():
        found = np.array(each_run)
        for table, each, digits in ((accuracy, 0, 2), (loss, 1, 3)):
            means = (f"{mean:.{digits}f}" for mean in found[:, each].mean(axis=0))
            gain = spread(found[:, each, 1] - found[:, each, 0], digits)
            table.lines.append((*case, *means, gain))
        require(report, ", ".join(case), case[2], found)


def spread(gains: NDArray[np.float64], digits: int) -> str:
    """Mean, standard error, and range over the seeds."""
    if len(gains) == 1:
        return f"{gains[0]:+.{digits}f}"
    error = gains.std(ddof=1) / math.sqrt(len(gains))
    ends = f"{gains.min():+.{digits}f} to {gains.max():+.{digits}f}"
    return f"{gains.mean():+.{digits}f} ± {error:.{digits}f} ({ends})"


def require(report: Report, case: str, kind: str, found: NDArray[np.float64]) -> None:
    """Without shift every seed has to do; between bare and true mix the mean of the seeds."""
    gains = found[:, 0, 1] - found[:, 0, 0]
    if kind == "none":
        met = bool(gains.min() >= -MOST_LOST)
        figure = f"at worst {gains.min():+.2f}"
        report.require(f"{case}: at most {MOST_LOST} points below bare, each seed", figure, met)
        return
    (bare, ours, true), (bare_loss, our_loss, true_loss) = found.mean(axis=0)
    figure = f"{ours - bare:+.2f} of {true - bare:+.2f} points, at worst {gains.min():+.2f}"
    report.require(f"{case}: accuracy between", figure, bare <= ours <= max(bare, true) + NOISE)
    figure = f"{our_loss - bare_loss:+.3f} of {true_loss - bare_loss:+.3f}"
    met = true_loss - 0.01 <= our_loss <= bare_loss
    report.require(f"{case}: log loss between", figure, met)


def timed(verb: Callable[..., Any], calls: list[tuple[Any, ...]]) -> float:
    """Seconds of this process, so that others on the machine count for little."""
    begin = process_time()
    for each in calls:
        verb(*each)
    return process_time() - begin


def cost(pool: Pool, make: Callable[[], Any], n: int = 6000) -> dict[str, float]:
    """Seconds an event, side by side in turns, from the first fit on; the median of three runs."""
    runs: dict[str, list[float]] = {}
    for _ in range(3):
        bare, ours = make(), LabelShiftClassifier(make())
        watching = LabelShiftClassifier(make(), observe_on_predict=True)
        spent = dict.fromkeys(("predict", "learn", "our predict", "our learn", "observing"), 0.0)
        stream = [(each.x, each.y) for each in events(pool, "sudden", n, seed=0)]
        for begin in range(0, n, 250):
            part: list[tuple[Any, ...]] = list(stream[begin : begin + 250])
            only_x = [(x,) for x, _ in part]
            found = {
                "predict": timed(bare.predict_proba_one, only_x),
                "our predict": timed(ours.predict_proba_one, only_x),
                "observing": timed(watching.predict_proba_one, only_x),
                "learn": timed(bare.learn_one, part),
                "our learn": timed(ours.learn_one, part),
            }
            timed(watching.learn_one, part)
            timed(ours.observe_one, only_x)
            if begin >= JUDGED_FROM:
                spent = {name: each + found[name] for name, each in spent.items()}
        for name, each in spent.items():
            runs.setdefault(name, []).append(each / (n - JUDGED_FROM))
    return {name: median(each) for name, each in runs.items()}


def pauses(pool: Pool, make: Callable[[], Any], n: int = 8000) -> dict[str, list[float]]:
    """Seconds that single calls of learn_one took: those that refit, those that fit a whole one."""
    model = LabelShiftClassifier(make())
    found: dict[str, list[float]] = {"refit": [], "whole": []}
    for each in events(pool, "sudden", n, seed=0):
        model.observe_one(each.x)
        profile, whole = model.profile, model._source.whole
        begin = perf_counter()
        model.learn_one(each.x, each.y)
        spent = perf_counter() - begin
        if whole > 1 and model.profile is not profile:
            found["whole" if model._source.whole > whole else "refit"].append(spent)
    return found


def costs(report: Report, step: Step) -> None:
    longest = report.section(
        "What the learn_one that refits takes, ms: median, and the longest",
        "stream", "model", "refit (every 200 labels)", "whole profile (every 2000)",
    )  # fmt: skip
    table = report.section(
        "Cost of an event, refits included, µs, and to the bare model",
        "stream", "model", "predict", "ours", "observing as well", "predict + learn", "our learn",
    )  # fmt: skip
    for name in ("RandomRBF, 15 centroids", "ImageSegments"):
        pool = POOLS[name]()
        for model, make in MODELS.items():
            step(f"cost: {name}, {model}")
            found = cost(pool, make)
            both = found["predict"] + found["learn"]
            predict, learn = found["our predict"] / found["predict"], found["our learn"] / both
            watching = found["observing"] / found["predict"]
            table.lines.append(
                (
                    name,
                    model,
                    f"{1e6 * found['predict']:.1f}",
                    f"{1e6 * found['our predict']:.1f} ({predict:.2f}×)",
                    f"{1e6 * found['observing']:.1f} ({watching:.2f}×)",
                    f"{1e6 * both:.1f}",
                    f"{1e6 * found['our learn']:.1f} ({learn:.2f}×)",
                )
            )
            step(f"pauses: {name}, {model}")
            took = pauses(pool, make).values()
            cells = (f"{1e3 * np.median(each):.1f}, {1e3 * max(each):.1f}" for each in took)
            longest.lines.append((name, model, *cells))
            what = f"{name}, {model}"
            report.require(f"{what}: learn_one ≤ 1.5×", f"{learn:.2f}×", learn <= 1.5)
            report.require(f"{what}: predict_proba_one ≤ 1.3×", f"{predict:.2f}×", predict <= 1.3)


def tracking(report: Report, step: Step) -> None:
    scored = load(Data.MNIST)
    profile = fit_profile(scored.val_logits[:2000], scored.val_labels[:2000])
    logits = np.tile(scored.test_logits, (4, 1))[:30_000].astype(float)
    given = [(dict(zip(profile.classes, line, strict=True)),) for line in logits.tolist()]
    rows = profile.rows(logits).tolist()
    table = report.section(
        f"PriorTracker.update, {CLASSES} classes, µs an event", "what", "an event", "to the ADWINs"
    )

    def adwins() -> float:
        detectors = [drift.ADWIN() for _ in range(CLASSES)]
        begin = process_time()
        for row in rows:
            for detector, p in zip(detectors, row, strict=True):
                detector.update(p)
        return process_time() - begin

    runs: dict[str, list[float]] = {"ADWIN": [], "EM": [], "LEIP": []}
    for _ in range(ROUNDS):
        step("cost: PriorTracker")
        runs["ADWIN"].append(adwins())
        for name in ("EM", "LEIP"):
            runs[name].append(timed(PriorTracker(profile, estimator=name).update, given))
    per = {name: 1e6 * median(each) / len(given) for name, each in runs.items()}
    table.lines.append((f"{CLASSES} river ADWINs", f"{per['ADWIN']:.2f}", "1"))
    for name in ("EM", "LEIP"):
        ratio = per[name] / per["ADWIN"]
        table.lines.append((f"PriorTracker, dicts, by {name}", f"{per[name]:.2f}", f"{ratio:.2f}×"))
        asked = f"PriorTracker.update by {name} ≤ 2× an ADWIN a class"
        report.require(asked, f"{ratio:.2f}×", ratio <= 2.0)


class Part(StrEnum):
    """What to run."""

    ALL = "all"
    COSTS = "costs"
    GAINS = "gains"


def main(
    n: Annotated[int, typer.Option("--events", min=4000, help="Of each stream.")] = 12_000,
    part: Annotated[Part, typer.Option(help="Costs need a quiet machine, gains 25 minutes.")] = (
        Part.ALL
    ),
    seeds: Annotated[int, typer.Option(min=1, help="Streams drawn for each case.")] = 5,
    resume: Annotated[
        Path | None, typer.Option(help="Keep gains in this file, and go on where it ends.")
    ] = None,
    markdown: Annotated[Path | None, typer.Option(help="Put the tables into this file.")] = None,
) -> None:
    """Judge River models with and without adapting, and time them."""
    cases = len(POOLS) * len(MODELS) * len(DRIFTS) * len(DELAYS) * seeds
    for each, total in ((Part.COSTS, 8 + ROUNDS), (Part.GAINS, cases)):
        if part not in (Part.ALL, each):
            continue
        machine = context(("river", "numpy", "numba"))
        report = Report()
        with steps(total) as step:
            if each is Part.COSTS:
                tracking(report, step)
                costs(report, step)
            else:
                compare(n, seeds, resume, report, step)
        report.show(machine)
        if markdown is not None:
            script = f"benchmarks/river_replay.py, {each}"
            report.write(markdown, script, each.capitalize(), machine)


if __name__ == "__main__":
    typer.run(main)
