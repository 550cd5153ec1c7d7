"""Batch estimators beside QuaPy, abstention and mlquantify: time, memory, certificates.

Run `python -m benchmarks.estimators [--quick] [--markdown docs/estimators.md]`.
"""

import os

# One core for all, which the libraries read when numpy is first imported.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

import signal
import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import numpy as np
import typer
from abstention.label_shift import EMImbalanceAdapter
from mlquantify.likelihood import EMQ as MlquantifyEMQ
from numpy.typing import NDArray
from quapy.method import aggregative as quapy
from sklearn.dummy import DummyClassifier

from benchmarks.reporting import Report, Section, Step, context, steps
from stream_leip import EM, LEIP, SourceProfile, fit_profile
from stream_leip.arrays import Matrix, Rows, Vector
from stream_leip.calibration import Calibrator
from stream_leip.profile import ReplayErrors
from stream_leip.validation import Validation

DATA = Path(__file__).parent / "data"
DATASETS = {"MNIST": "mnist_mlp.npz", "CIFAR-10": "cifar10_resnet20.npz"}
FITTED = 2000
SEED = 7
PEER_TOLERANCE = 1e-6
FEWEST, MOST, ENOUGH_SECONDS = 3, 100, 2.0
LONG_CALL, LIMIT = 20.0, 120

Result = TypeVar("Result")
Data = dict[str, NDArray[Any]]


REPORT = Report()


@dataclass(frozen=True, eq=False)
class Case:
    """Rows under a label shift; `wide` is the float64 copy that peers take."""

    name: str
    profile: SourceProfile
    rows: Rows
    wide: Matrix

    @property
    def size(self) -> str:
        """Rows × classes."""
        n, m = self.rows.shape
        return f"1e{round(np.log10(n))} × {m}"


def shifted_case(name: str, data: Data, profile: SourceProfile, n: int) -> Case:
    """Test rows resampled, with replacement, to class shares drawn from Dirichlet(1)."""
    rng = np.random.default_rng(SEED)
    counts = rng.multinomial(n, rng.dirichlet(np.ones(len(profile.classes))))
    members = [np.flatnonzero(data["test_labels"] == j) for j in range(len(counts))]
    places = np.concatenate(list(map(rng.choice, members, counts)))
    rows = profile.rows(data["test_logits"][rng.permutation(places)])
    return Case(name, profile, rows, rows.astype(np.float64))


def thousand_case(n: int = 10**5, m: int = 1000) -> Case:
    """Rows of a calibrated classifier of Gaussian features, accurate in about 3 rows of 4."""
    rng = np.random.default_rng(SEED)
    shares, source = rng.dirichlet(np.ones(m)), rng.dirichlet(np.full(m, 10.0))
    labels = rng.choice(m, n, p=shares)
    rows = rng.standard_normal((n, m), np.float32)
    rows[np.arange(n), labels] += 4.0
    rows *= 4.0
    rows += np.log(source).astype(np.float32)
    rows -= rows.max(axis=1, keepdims=True)
    np.exp(rows, out=rows)
    rows /= rows.sum(axis=1, keepdims=True)
    accuracy = float(np.mean(rows.argmax(axis=1) == labels))
    joint = np.diag(source)
    validation = Validation(n, joint, joint, (0.0, 0.0), (0.0, 0.0))
    names, calibrator = tuple(map(str, range(m))), Calibrator("none", np.ones(m), np.zeros(m))
    replay = ReplayErrors((n,), {"LEIP": (1.0,), "EM": (0.0,)})
    profile = SourceProfile(names, "probabilities", calibrator, validation, replay)
    return Case(f"Gaussian, accuracy {accuracy:.2f}", profile, rows, rows.astype(np.float64))


def quapy_leip(profile: SourceProfile) -> Callable[[Matrix], Vector]:
    """QuaPy's LEIP with the source prior and the confident share of ours."""
    m = len(profile.classes)
    classifier = DummyClassifier().fit(np.zeros((m, 1)), np.arange(m))
    peer = quapy.LEIP(classifier, fit_classifier=False, val_split=None)
    peer.retain_fraction_ = float(profile.recalls.min())
    peer.train_prevalence = profile.soft_prior
    return lambda rows: np.asarray(peer.aggregate(rows))


def quapy_em(rows: Matrix, source: Vector) -> Vector:
    return np.asarray(quapy.EMQ.EM(source, rows, epsilon=PEER_TOLERANCE)[0])


def abstention_em(rows: Matrix, source: Vector) -> Vector:
    """Its source prior is the mean of validation rows: the prior itself as the only row."""
    adapter = EMImbalanceAdapter(tolerance=PEER_TOLERANCE)(rows, source[None])
    return np.asarray(adapter.multipliers * source)


def mlquantify_em(rows: Matrix, source: Vector) -> Vector:
    return np.asarray(MlquantifyEMQ.EM(rows, source, tolerance=PEER_TOLERANCE)[0])


PEERS: dict[str, Callable[[Matrix, Vector], Vector]]
PEERS = {"QuaPy": quapy_em, "abstention": abstention_em, "mlquantify": mlquantify_em}


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in a Python loop that runs longer."""

    def stop(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def best_time(call: Callable[[], Result]) -> tuple[float, Result]:
    """The best of several repeats after a warm-up, which is all that a long call gets."""
    begin = time.perf_counter()
    result = call()
    first = time.perf_counter() - begin
    if first > LONG_CALL:
        return first, result
    times: list[float] = []
    while len(times) < FEWEST or (len(times) < MOST and sum(times) < ENOUGH_SECONDS):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times), result


def gap(case: Case, prior: Vector) -> float:
    """How far a prior may be below the greatest mean log-likelihood; no code of ours in it."""
    source = case.profile.soft_prior
    density = case.wide @ (prior / source)
    gradient = (1.0 / density) @ case.wide / len(case.wide) / source
    return float(gradient.max() - 1.0)


def ties(case: Case, threshold: float) -> int:
    """Buffered rows whose top probability another, different row has: their order is undefined."""
    top = case.rows.max(axis=1)
    distinct = np.unique(case.rows[top < threshold], axis=0).max(axis=1, initial=0.0)
    return len(distinct) - len(np.unique(distinct))


def duration(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{1e6 * seconds:.0f} µs"
    return f"{seconds:.2f} s" if seconds >= 1.0 else f"{1e3 * seconds:.3g} ms"


def compare_leip(case: Case, section: Section, least: float) -> None:
    peer = quapy_leip(case.profile)
    seconds, ours = best_time(lambda: LEIP().estimate(case.rows, case.profile))
    peer_seconds, theirs = best_time(lambda: peer(case.wide))
    ratio = peer_seconds / seconds
    difference = float(np.abs(ours.prior - theirs).max())
    tied = ties(case, cast(float, ours.details["threshold"]))
    section.lines.append((
        case.name, case.size, str(ours.details["buffered"]), duration(seconds),
        duration(peer_seconds), f"{ratio:.0f}×", f"{difference:.1g}", str(tied),
    ))  # fmt: skip
    what = f"{case.name} {case.size}: LEIP"
    REPORT.require(f"{what} ≥ {least:.0f}× QuaPy's", f"{ratio:.0f}×", ratio >= least)
    REPORT.require(f"{what} − QuaPy's = 0", f"{difference:.1g} ({tied} ties)", difference == 0.0)


def compare_em(case: Case, section: Section, tolerance: float, least: float | None) -> None:
    """Every EM on one case; distances are from our maximum at a finer tolerance."""
    best = EM(tolerance=1e-3 * tolerance).estimate(case.rows, case.profile)
    seconds, ours = best_time(lambda: EM(tolerance=tolerance).estimate(case.rows, case.profile))
    claimed, checked = cast(float, ours.details["gap"]), gap(case, ours.prior)

    def add(name: str, took: str, ratio: str, bound: str, prior: Vector) -> None:
        place = f"{gap(case, prior):.1e}", f"{np.abs(prior - best.prior).sum():.1e}"
        section.lines.append((case.name, case.size, name, took, ratio, bound, *place))

    add("stream-leip", duration(seconds), "1", f"{claimed:.1e} ≤ {tolerance:.0e}", ours.prior)
    what = f"{case.name} {case.size}: EM"
    for name, peer in PEERS.items():
        try:
            with time_limit(LIMIT):
                took, prior = best_time(partial(peer, case.wide, case.profile.soft_prior))
            add(name, duration(took), f"{took / seconds:.3g}×", "none", prior)
        except TimeoutError:
            took, skipped = LIMIT, f"skipped (> {LIMIT} s)"
            section.lines.append((case.name, case.size, name, skipped, "", "", "", ""))
        if name == "QuaPy" and least is not None:
            ratio = took / seconds
            REPORT.require(f"{what} ≥ {least:.0f}× QuaPy's", f"{ratio:.3g}×", ratio >= least)
    certified = max(claimed, checked - 1e-12) <= tolerance
    figure = f"{claimed:.1e}, by numpy {checked:.1e}"
    REPORT.require(f"{what} certified at {tolerance:.0e}", figure, certified)


# The peak of getrusage is no use here: a child's begins at its parent's. Linux's own can be reset.
PROBE = """
import sys, time
from pathlib import Path
begin = time.perf_counter()
import stream_leip
imported = time.perf_counter() - begin
import numpy as np
folder, name = sys.argv[1:]
profile = stream_leip.SourceProfile.load(folder + "/profile.json")
estimator = getattr(stream_leip, name)()
few = np.load(folder + "/few.npy")
begin = time.perf_counter()
estimator.estimate(few, profile)
first = time.perf_counter() - begin
rows = np.load(folder + "/rows.npy")
def peak():
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])
grown = float("nan")
if sys.platform == "linux":
    Path("/proc/self/clear_refs").write_text("5")
    before = peak()
    estimator.estimate(rows, profile)
    grown = (peak() - before) / len(rows)
print(imported, first, grown)
"""


def probe(folder: Path, name: str) -> tuple[float, float, float]:
    """In a fresh process: seconds of import and of a first call, peak bytes a row of a second."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(folder), name],
        env=os.environ | {"NUMBA_CACHE_DIR": f"{folder}/{name}"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    imported, first, grown = map(float, done.stdout.split())
    return imported, first, grown


def traced_bytes(case: Case, estimator: LEIP | EM) -> float:
    """Peak bytes a row of numpy's allocations during an estimate."""
    tracemalloc.start()
    estimator.estimate(case.rows, case.profile)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / len(case.rows)


def measure_processes(case: Case, section: Section, folder: Path, step: Step) -> None:
    """Memory, import and compilation, in processes of their own."""
    case.profile.save(folder / "profile.json")
    np.save(folder / "rows.npy", case.rows)
    np.save(folder / "few.npy", case.rows[:1000])
    for estimator in (LEIP(), EM()):
        name = type(estimator).__name__
        step(f"{name}: memory and start of a process")
        _, compiled, _ = probe(folder, name)
        runs = np.array([probe(folder, name) for _ in range(5)])
        imported, first, _ = runs.min(axis=0)
        traced, grown = traced_bytes(case, estimator), runs[:, 2].max()
        times = map(duration, (imported, compiled, first))
        section.lines.append((name, case.size, f"{traced:.2f}", f"{grown:.2f}", *times))
        REPORT.require(f"import of stream_leip < 1 s ({name})", duration(imported), imported < 1.0)
        if name == "LEIP":
            figure = f"{traced:.2f} traced, {grown:.2f} of the process"
            REPORT.require(
                f"{case.size}: LEIP ≤ 12 bytes a row", figure, max(traced, grown) <= 12.0
            )


def measure_fit(step: Step) -> None:
    step("fitting a profile to 10,000 × 10")
    data = np.load(DATA / DATASETS["MNIST"])
    took, _ = best_time(lambda: fit_profile(data["val_logits"], data["val_labels"]))
    REPORT.require("fit_profile of 10,000 × 10 < 10 s", duration(took), took < 10.0)


def run(quick: bool, step: Step) -> None:
    leip = REPORT.section(
        "LEIP and QuaPy's LEIP",
        "data", "rows × classes", "buffered rows", "stream-leip", "QuaPy", "ratio",
        "largest difference", "ties",
    )  # fmt: skip
    em = REPORT.section(
        "EM",
        "data", "rows × classes", "library", "time", "ratio to ours", "certificate",
        "gap by numpy", "L1 from the maximum",
    )  # fmt: skip
    processes = REPORT.section(
        "Peak memory over the input, and the start of a fresh process",
        "estimator", "rows × classes", "bytes a row, traced", "bytes a row, process",
        "import stream_leip", "first call, nothing compiled", "first call, compiled before",
    )  # fmt: skip
    measure_fit(step)
    least_leip = {10**4: 100.0, 10**6: 50.0}
    for name, file in DATASETS.items():
        step(f"{name}: fitting a profile")
        data = dict(np.load(DATA / file))
        profile = fit_profile(data["val_logits"][:FITTED], data["val_labels"][:FITTED])
        for n in (10**4, 10**5) if quick else (10**4, 10**5, 10**6):
            case = shifted_case(name, data, profile, n)
            if n in least_leip:
                step(f"{name} {case.size}: LEIP")
                compare_leip(case, leip, least_leip[n])
            step(f"{name} {case.size}: EM")
            compare_em(case, em, 1e-8, 50.0 if n == 10**6 else None)
        if not processes.lines:
            with tempfile.TemporaryDirectory() as folder:
                measure_processes(case, processes, Path(folder), step)
    if not quick:
        step("1e5 × 1000: EM, minutes")
        compare_em(thousand_case(), em, 1e-6, 1.0)


def main(
    quick: Annotated[bool, typer.Option(help="Leave out 1e6 rows and 1000 classes.")] = False,
    markdown: Annotated[Path | None, typer.Option(help="Put the tables into this file.")] = None,
) -> None:
    """Measure the batch estimators against QuaPy, abstention and mlquantify."""
    warnings.simplefilter("ignore")
    machine = context(("numpy", "numba", "quapy", "abstention", "mlquantify"))
    with steps(11 if quick else 16) as step:
        run(quick, step)
    REPORT.show(machine)
    if markdown is not None:
        REPORT.write(markdown, "benchmarks/estimators.py", "Figures", machine)


if __name__ == "__main__":
    typer.run(main)
