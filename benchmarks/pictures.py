"""The pictures in the README: the demonstration in a terminal, and its report in a browser.

Run `python -m benchmarks.pictures`; it needs chromium on the PATH.
"""

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from playwright.sync_api import sync_playwright
from rich.console import Console
from stream_leip_connectors.commands import replay as replaying
from stream_leip_connectors.files import example
from stream_leip_connectors.report import from_result, write_report

from stream_leip import InputError, fit_profile
from stream_leip.replay import Pool, ReplayResult, replay

EVENTS = 50_000
WIDTH, HEIGHT = 1100, 1060
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def photograph(report: Path, folder: Path) -> None:
    """The top of the report, light and dark."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise InputError(f"PATH: none of {', '.join(BROWSERS)} is on it; install chromium")
    # Chromium's own sandbox does not start for root.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=arguments)
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            page.goto(report.as_uri())
            page.wait_for_selector("html[data-ready=yes]")
            page.wait_for_timeout(500)
            page.screenshot(path=folder / f"report-{scheme}.png")
        browser.close()


def print_terminal(result: ReplayResult, rate: float, folder: Path) -> None:
    """What the command prints at its end."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=104, highlight=False, file=nowhere)
        console.print("[bold]$ stream-leip replay")
        replaying.summarise(result, rate, console)
        drawn = console.export_svg(title="stream-leip replay")
    # Rich would have the reader's browser load a font from elsewhere.
    local = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL)
    (folder / "replay.svg").write_text(local, encoding="utf-8")


def main(
    folder: Annotated[Path, typer.Option(help="Where the pictures go.")] = Path("docs/images"),
) -> None:
    """Draw the README's pictures."""
    data = example()
    profile = fit_profile(data.val_logits, data.val_labels)
    view = replaying.View(profile, EVENTS)
    result = replay(
        replaying.monitors(profile),
        Pool(data.test_logits, data.test_labels),
        replaying.SCHEDULES["tour"](),
        EVENTS,
        progress=view.advance,
    )
    folder.mkdir(parents=True, exist_ok=True)
    print_terminal(result, view.rate, folder)
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.html"
        write_report(from_result(result), report)
        photograph(report, folder)


if __name__ == "__main__":
    typer.run(main)
