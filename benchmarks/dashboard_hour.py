"""A browser that shows the dashboard for an hour: what its page and the server hold.

Run `python -m benchmarks.dashboard_hour [--minutes 60] [--markdown docs/dashboard.md]
[--picture docs/images/dashboard-hour.svg]`. The load is modest: what is asked is whether anything
grows, and a page redraws twice a second whatever arrives. Every stream has its 640 steps after the
first minutes. Linux only: memory is read from /proc.
"""

import tempfile
import time
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer
from playwright.sync_api import Browser, Page

from benchmarks.curves import Curve, draw
from benchmarks.dashboard import Load, Writer, chromium, heap, memory, served, shown
from benchmarks.reporting import Report, context

LOAD = Load("100 keys × 10 classes", 100, 10, 200.0)
EVERY = 30.0  # seconds between two samples
WARM = 0.15  # of the time: streams fill to their 640 steps
MOST_GROWTH = 0.05


class Sample(NamedTuple):
    """MB and counts, so many seconds after the page was ready."""

    at: float
    heap: float  # of the page's script, after a collection
    nodes: int  # of the page's document
    renderer: float  # resident memory of the browser's drawing processes
    server: float
    redraws: int


def look(seconds: float, folder: Path, browser: Browser) -> tuple[list[Sample], int]:
    """Samples of the whole time, and the updates that were written."""
    path = folder / "updates.jsonl"
    found: list[Sample] = []
    with path.open("wb") as file, served(path) as (process, url):
        writer = Writer(file, LOAD)
        writer.write(time.monotonic() + 2.0)
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.goto(url)
        page.wait_for_selector("html[data-ready=yes]", timeout=60_000)
        begun = time.monotonic()
        while (at := time.monotonic() - begun) < seconds:
            found.append(sample(at, page, browser, process))
            writer.write(begun + min(at + EVERY, seconds))
        found.append(sample(at, page, browser, process))
        page.close()
        written = writer.written
    return found, written


def sample(at: float, page: Page, browser: Browser, process: int) -> Sample:
    held = heap(page)
    nodes: int = page.evaluate("() => document.getElementsByTagName('*').length")
    session = browser.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    renderers = [each["id"] for each in processes if each["type"] == "renderer"]
    resident = sum(memory(each) for each in renderers)
    return Sample(at, held, nodes, resident, memory(process), shown(page)[1])


def judge(samples: list[Sample], written: int, report: Report) -> None:
    last = samples[-1]
    redraws = (last.redraws - samples[0].redraws) / (last.at - samples[0].at)
    table = report.section(
        f"{last.at / 60:.0f} minutes, {LOAD.name}, {written:,} updates, {redraws:.2f} redraws/s",
        "after", "page's script, MB", "elements", "browser's renderers, MB", "server, MB",
    )  # fmt: skip
    for each in samples[:: max(1, len(samples) // 12)]:
        table.lines.append(
            (f"{each.at / 60:.0f} min", f"{each.heap:.1f}", f"{each.nodes:,}",
             f"{each.renderer:.0f}", f"{each.server:.0f}")
        )  # fmt: skip
    warm = [each for each in samples if each.at > WARM * last.at]
    half = len(warm) // 2
    for name, values in (
        ("page's script", [each.heap for each in warm]),
        ("browser's renderers", [each.renderer for each in warm]),
        ("server", [each.server for each in warm]),
    ):
        first, second = float(np.median(values[:half])), float(np.median(values[half:]))
        growth = second / first - 1.0
        report.require(
            f"{name}: median of the second half within {MOST_GROWTH:.0%} of the first's",
            f"{first:.1f} → {second:.1f} MB ({growth:+.1%})",
            growth < MOST_GROWTH,
        )


def main(
    minutes: Annotated[float, typer.Option(help="How long the browser looks.")] = 60.0,
    markdown: Annotated[Path | None, typer.Option(help="Page to write the tables into.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the curves, as SVG.")] = None,
) -> None:
    """Look for an hour, and say whether anything grew once every stream was full."""
    machine = context(["bokeh", "tornado", "msgspec", "numpy"])
    report = Report()
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        samples, written = look(60.0 * minutes, Path(folder), browser)
    judge(samples, written, report)
    report.show(machine)
    if picture is not None:
        curves = (
            Curve("Heap of the page's script, MB", [each.heap for each in samples]),
            Curve("The browser's renderers, MB", [each.renderer for each in samples]),
            Curve("The server, MB", [each.server for each in samples]),
        )
        draw(picture, [each.at for each in samples], curves)
    if markdown is not None:
        report.write(markdown, "benchmarks.dashboard_hour", "Measured, over time", machine)


if __name__ == "__main__":
    typer.run(main)
