"""The pictures in the README and the documentation, drawn by the product itself.

Run `python -m benchmarks.pictures`; it needs chromium on the PATH. Run it twice: the first time
compiles kernels, which the demonstration's events a second would count. Drawn are the demonstration
in a terminal and its report in a browser, parts of the report of a sudden change, a pane, and the
dashboard.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from bokeh.embed import file_html
from bokeh.models import Range1d
from bokeh.models.annotations import Legend
from bokeh.plotting import figure
from bokeh.resources import INLINE
from playwright.sync_api import Browser, Page, sync_playwright
from rich.console import Console
from stream_leip_connectors.commands import replay as replaying
from stream_leip_connectors.commands.replay_view import View, summarise
from stream_leip_connectors.figures.drawing import COLOURS
from stream_leip_connectors.files import example
from stream_leip_connectors.report import from_result, write_report

from benchmarks.dashboard import served
from stream_leip import (
    LEIP,
    Adaptive,
    InputError,
    Monitor,
    SourceProfile,
    Tumbling,
    fit_profile,
)
from stream_leip.arrays import Rows
from stream_leip.replay import Pool, ReplayResult, Sudden, replay

EVENTS = 50_000
WIDTH, HEIGHT = 1100, 1060
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SUDDEN_EVENTS, SUDDEN_EVERY = 16_000, 250
SUDDEN_PARTS = ("mix", "memory", "alarm")
PANE_ROWS = 400
# It reads on light and on dark.
GREY = "#8a8f98"


@contextmanager
def browser() -> Iterator[Browser]:
    """Chromium, without a window."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise InputError(f"PATH: none of {', '.join(BROWSERS)} is on it; install chromium")
    # Chromium's own sandbox does not start for root.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=arguments)
        yield opened
        opened.close()


def in_light_and_dark(result: ReplayResult, opened: Browser) -> Iterator[tuple[str, Page]]:
    """The report of a replay, ready to be photographed, twice."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.html"
        write_report(from_result(result), report)
        page = opened.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            page.goto(report.as_uri())
            page.wait_for_selector("html[data-ready=yes]")
            page.wait_for_timeout(500)
            yield scheme, page
        page.close()


def print_demonstration(profile: SourceProfile, pool: Pool, opened: Browser, folder: Path) -> None:
    """`stream-leip replay`: its last words, and the top of its report."""
    view = View(profile, EVENTS)
    result = replay(
        replaying.monitors(profile),
        pool,
        replaying.SCHEDULES["tour"](),
        EVENTS,
        progress=view.advance,
    )
    print_terminal(result, view.rate, folder)
    for scheme, page in in_light_and_dark(result, opened):
        page.screenshot(path=folder / f"report-{scheme}.png")


def draw_sudden_change(profile: SourceProfile, pool: Pool, opened: Browser, folder: Path) -> None:
    """What adaptive memory and the alarm make of a class that goes from a tenth to a half."""
    monitors = {
        "adaptive": Monitor(profile, Adaptive(every=SUDDEN_EVERY)),
        "tumbling 2000": Monitor(profile, Tumbling(count=2000)),
    }
    result = replay(monitors, pool, Sudden(to={9: 0.5}), SUDDEN_EVENTS)
    for scheme, page in in_light_and_dark(result, opened):
        for part in SUDDEN_PARTS:
            page.locator(f"#{part} .bk-Figure").screenshot(
                path=folder / f"sudden-{part}-{scheme}.png"
            )


def draw_pane(profile: SourceProfile, logits: Rows, opened: Browser, folder: Path) -> None:
    """A pane's rows by confidence: before the threshold the confident set, then the buffer."""
    rows = profile.rows(logits)
    threshold = LEIP().estimate(rows, profile).details["threshold"]
    confidence = np.sort(rows.max(axis=1))[::-1]
    confident = int((confidence >= threshold).sum())
    place = np.arange(len(confidence), dtype=np.float64)
    plot = figure(
        width=WIDTH - 40, height=300, toolbar_location=None, y_range=Range1d(start=0.0, end=1.04),
        x_axis_label="rows, most confident first", y_axis_label="top probability",
        background_fill_color=None, border_fill_color=None, outline_line_color=None,
    )  # fmt: skip
    plot.add_layout(Legend(orientation="horizontal", location="left", ncols=3), "above")
    for part, words, colour in (
        (slice(confident), "confident set", COLOURS[0]),
        (slice(confident, None), "low-confidence buffer", COLOURS[1]),
    ):
        plot.vbar(
            x=place[part], top=confidence[part], width=1.0, fill_color=colour, line_color=None,
            legend_label=f"{words}, {len(place[part])} rows",
        )  # fmt: skip
    plot.line(
        [0, len(place)], np.full(2, threshold), color=GREY, line_dash="dashed", line_width=2,
        legend_label=f"threshold {threshold:.3f}",
    )  # fmt: skip
    plot.axis.axis_label_text_font_style = "normal"
    for each in (*plot.axis, *plot.legend):
        each.update(**{name: GREY for name in each.properties() if name.endswith("text_color")})
    plot.axis.axis_line_color = plot.axis.major_tick_line_color = GREY
    plot.axis.minor_tick_line_color = plot.grid.grid_line_color = None
    plot.legend[0].update(background_fill_color=None, border_line_color=None)
    page = opened.new_page(viewport={"width": WIDTH, "height": HEIGHT})
    page.set_content(file_html(plot, INLINE))
    page.wait_for_timeout(500)
    page.locator(".bk-Figure").screenshot(path=folder / "pane.png", omit_background=True)


def photograph_dashboard(opened: Browser, folder: Path) -> None:
    """The top of the dashboard, after the replay that it shows by itself."""
    with served("--events", str(EVENTS), "--pace", "10000") as (_, url):
        page = opened.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(url)
        page.wait_for_function(
            "document.querySelector('#health').textContent.includes('is over')", timeout=120_000
        )
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            page.wait_for_timeout(1000)
            page.screenshot(path=folder / f"dashboard-{scheme}.png")
        page.close()


def print_terminal(result: ReplayResult, rate: float, folder: Path) -> None:
    """What the command prints at its end."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=104, highlight=False, file=nowhere)
        console.print("[bold]$ stream-leip replay")
        summarise(result, rate, console)
        drawn = console.export_svg(title="stream-leip replay")
    # Rich would have the reader's browser load a font from elsewhere.
    local = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL)
    (folder / "replay.svg").write_text(local, encoding="utf-8")


def main(
    folder: Annotated[Path, typer.Option(help="Where the pictures go.")] = Path("docs/images"),
) -> None:
    """Draw the pictures."""
    data = example()
    profile = fit_profile(data.val_logits, data.val_labels)
    pool = Pool(data.test_logits, data.test_labels)
    folder.mkdir(parents=True, exist_ok=True)
    with browser() as opened:
        draw_pane(profile, data.test_logits[:PANE_ROWS], opened, folder)
        draw_sudden_change(profile, pool, opened, folder)
        print_demonstration(profile, pool, opened, folder)
        photograph_dashboard(opened, folder)


if __name__ == "__main__":
    typer.run(main)
