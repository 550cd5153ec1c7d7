"""The dashboard under load: a file that grows, one browser that looks, and what the server costs.

Run `python -m benchmarks.dashboard [--quick] [--minutes 1] [--markdown docs/dashboard.md]`.
An hour of one browser is benchmarks/dashboard_hour.py.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NamedTuple

import msgspec
import numpy as np
import typer
from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.reporting import Report, context

COMMAND = Path(sys.executable).with_name("stream-leip")
MOST_CPU = 0.30
PART = 0.05  # seconds between two writes
TICKS = os.sysconf("SC_CLK_TCK")


class Load(NamedTuple):
    """Updates a second, of so many keys and classes."""

    name: str
    keys: int
    classes: int
    rate: float


LOADS = (
    Load("1000 keys × 10 classes", 1000, 10, 2000.0),
    Load("1 key × 10 classes", 1, 10, 2000.0),
    Load("1 key × 1000 classes", 1, 1000, 20.0),
)


class Measured(NamedTuple):
    """Of one load, after the page had settled."""

    cpu: float
    behind: float
    redraws: float
    server: tuple[float, float]
    heap: tuple[float, float]


class Writer:
    """Appends updates as monitors write them, key after key."""

    def __init__(self, file: BinaryIO, load: Load) -> None:
        self._file = file
        self._load = load
        self.written = 0
        rng = np.random.default_rng(0)
        source = np.full(load.classes, 1.0 / load.classes)
        self._plain = [_update(rng, source) for _ in range(64)]

    def write(self, until: float) -> None:
        """Catch up with the clock, until a moment of it."""
        begun, before = time.monotonic(), self.written
        while (now := time.monotonic()) < until:
            due = before + int((now - begun) * self._load.rate)
            lines = []
            for number in range(self.written, due):
                plain = self._plain[number % len(self._plain)]
                turn = number // self._load.keys
                key = None if self._load.keys == 1 else f"shop-{number % self._load.keys}"
                lines.append(
                    msgspec.json.encode(
                        plain | {"key": key, "sequence": turn, "last": 100 * turn + 99}
                    )
                )
            self.written = max(due, self.written)
            self._file.write(b"".join(line + b"\n" for line in lines))
            self._file.flush()
            time.sleep(PART)


def _update(rng: np.random.Generator, source: Any) -> dict[str, Any]:
    """An update with every field that a monitor fills."""
    prior = rng.dirichlet(20.0 * np.ones(len(source)))
    shares = prior.tolist()
    return {
        "schema": 1, "sequence": 0, "first": 0, "last": 99, "start": None, "end": None, "n": 6400,
        "classes": [f"class {j}" for j in range(len(source))], "estimator": "EM",
        "reason": "experts with a memory of about 6358 events; least error on replayed shifts",
        "prior": shares, "weights": (prior / source).tolist(), "adapting_prior": shares,
        "leip": shares, "em": shares, "threshold": 0.7, "confident": (5000 * prior).tolist(),
        "buffered": 567, "bad": 0, "late": 0, "thinned": 0, "key": None,
        "low": (0.9 * prior).tolist(), "high": (prior + 0.1 * (1 - prior)).tolist(),
        "memory": 6358.5, "changed_at": None,
        "alarm": {"value": float(rng.random()), "threshold": 4.38, "warning": False,
                  "raised": False, "since": None, "classes": [], "null": shares, "nulls": 0},
        "check": {"p": 0.88, "flagged": False, "validation_share": 0.7, "message": "all is well"},
    }  # fmt: skip


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser of this machine, headless."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    arguments = ["--no-sandbox", "--enable-precise-memory-info"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


@contextmanager
def served(*arguments: str | Path) -> Iterator[tuple[int, str]]:
    """A dashboard in a process of its own: its number, and where it is."""
    process = subprocess.Popen(
        [COMMAND, "dashboard", *arguments, "--port", "0"], stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        yield process.pid, line.rpartition("open ")[2].strip()
    finally:
        process.terminate()
        process.wait(30)


def measure(load: Load, folder: Path, seconds: float, browser: Browser) -> Measured:
    """Write at the load's rate while a browser looks."""
    path = folder / "updates.jsonl"
    with path.open("wb") as file, served(path) as (process, url):
        writer = Writer(file, load)
        writer.write(time.monotonic() + 2.0)
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.goto(url)
        page.wait_for_selector("html[data-ready=yes]", timeout=30_000)
        writer.write(time.monotonic() + min(10.0, seconds))
        script, held = heap(page), memory(process)
        cpu, begun, before = _cpu(process), time.monotonic(), shown(page)
        writer.write(time.monotonic() + seconds)
        ended = time.monotonic()
        spent, elapsed = _cpu(process) - cpu, ended - begun
        redraws = (shown(page)[1] - before[1]) / (time.monotonic() - begun)
        while shown(page)[0] < writer.written and time.monotonic() < ended + 60.0:
            page.wait_for_timeout(50)
        behind = time.monotonic() - ended
        if shown(page)[0] != writer.written:
            raise RuntimeError(f"{writer.written} updates were written, {shown(page)[0]} taken")
        found = Measured(
            spent / elapsed,
            behind,
            redraws,
            (held, memory(process)),
            (script, heap(page)),
        )
        page.close()
    return found


def _cpu(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory(process: int) -> float:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


def heap(page: Page) -> float:
    """Of the page's script, in MB, after a collection."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used: float = session.send("Runtime.getHeapUsage")["usedSize"]
    session.detach()
    return used / 1e6


def shown(page: Page) -> tuple[int, int]:
    """Updates that the page says it knows of, and how often it was told something."""
    told: str = page.evaluate(
        """() => {
            const board = Bokeh.documents[0].roots().find((root) => root.name === "board");
            return JSON.stringify([JSON.parse(board.pulse).updates, board.beat]);
        }"""
    )
    updates, beats = msgspec.json.decode(told)
    return updates, beats


def main(
    quick: Annotated[bool, typer.Option("--quick", help="10 s a load.")] = False,
    minutes: Annotated[float, typer.Option(help="How long each load is measured.")] = 1.0,
    markdown: Annotated[Path | None, typer.Option(help="Page to write the tables into.")] = None,
) -> None:
    """Measure every load, and set the server's share of a core beside what is required."""
    machine = context(["bokeh", "tornado", "msgspec", "numpy"])
    report = Report()
    seconds = 10.0 if quick else 60.0 * minutes
    table = report.section(
        f"One browser looking, {seconds:g} s",
        "load", "updates/s", "behind, s", "redraws/s", "server, of a core", "server, MB",
        "browser, MB",
    )  # fmt: skip
    with chromium() as browser:
        for load in LOADS:
            with tempfile.TemporaryDirectory() as folder:
                found = measure(load, Path(folder), seconds, browser)
            table.lines.append(
                (
                    load.name,
                    f"{load.rate:,.0f}",
                    f"{found.behind:.1f}",
                    f"{found.redraws:.2f}",
                    f"{100 * found.cpu:.0f} %",
                    "{:.0f} → {:.0f}".format(*found.server),
                    "{:.1f} → {:.1f}".format(*found.heap),
                )
            )
            if load.classes == 10:
                report.require(
                    f"{load.name}: under {100 * MOST_CPU:.0f} % of a core",
                    f"{100 * found.cpu:.0f} %",
                    found.cpu < MOST_CPU and found.behind < 2.0,
                )
            report.require(
                f"{load.name}: at most 2 redraws a second",
                f"{found.redraws:.2f}",
                found.redraws <= 2.05,
            )
    report.show(machine)
    if markdown is not None:
        report.write(markdown, "benchmarks.dashboard", "Measured", machine)


if __name__ == "__main__":
    typer.run(main)
