"""The documentation: links resolve, commands run, all names are there, nothing is loaded."""

import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import typer
from playwright.sync_api import sync_playwright
from stream_leip_connectors.cli import app

import stream_leip
import stream_leip.replay
from tests.test_readme import Block, blocks, run_python, run_shell

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
RUN = ("index.md", "choosing.md", "command-line.md")
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)|\b(?:src|srcset|href)=\"([^\"]+)\"")


def links(text: str) -> list[str]:
    return [markdown or html for markdown, html in LINK.findall(CODE.sub("", text))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_resolve(page: Path) -> None:
    targets = [link.partition("#")[0] for link in links(page.read_text(encoding="utf-8"))]
    relative = [target for target in targets if target and "://" not in target]
    missing = [target for target in relative if not (page.parent / target).exists()]
    assert missing == []


def test_links_are_found_outside_of_code() -> None:
    text = '[a](b.md#c) `[d](e.md)`\n```\n[f](g.md)\n```\n<img src="h.png"> <s srcset="i.png">'
    assert links(text) == ["b.md#c", "h.png", "i.png"]


def examples() -> Iterator[Any]:
    for name in RUN:
        for block in blocks((ROOT / "docs" / name).read_text(encoding="utf-8")):
            yield pytest.param(name, block, id=f"{name}-line-{block.line}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all pages, in their order: the quick start writes what the others read."""
    return tmp_path_factory.mktemp("docs")


@pytest.mark.parametrize(("name", "block"), list(examples()))
def test_block_of_a_page_runs(name: str, block: Block, folder: Path) -> None:
    if block.kind == "sh":
        printed = run_shell(block, folder)
    else:
        printed = run_python(block, {"__name__": "docs"}, folder)
    if block.output is not None:
        assert printed.rstrip() == block.output.rstrip()


def benchmark_commands() -> list[Any]:
    found = re.compile(r"^ *python -m (benchmarks\..*)$", re.MULTILINE)
    commands = {each for page in PAGES for each in found.findall(page.read_text("utf-8"))}
    return [
        pytest.param(each, marks=[pytest.mark.needs_spark] if "benchmarks.spark" in each else [])
        for each in sorted(commands)
    ]


# Of the libraries that are compared with ours, when they are imported.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("command", benchmark_commands())
def test_a_benchmark_takes_the_options_that_a_page_shows(command: str) -> None:
    """They take minutes: that they run is seen where they wrote the page's figures."""
    module, *options = shlex.split(command)
    verb = typer.Typer()
    verb.command()(importlib.import_module(module).main)
    context = typer.main.get_command(verb).make_context(module, options)
    shown = context.params.get("markdown")
    assert not isinstance(shown, Path) or (ROOT / shown).is_file()


@pytest.mark.parametrize(
    ("page", "module"),
    [("reference.md", stream_leip), ("reference-replay.md", stream_leip.replay)],
)
def test_reference_has_every_public_name(page: str, module: Any) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    named = re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE)
    assert sorted(named) == sorted(f"{module.__name__}.{name}" for name in module.__all__)


def test_every_example_is_on_its_page() -> None:
    text = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    scripts = sorted(path.name for path in (ROOT / "examples").glob("[0-9]*.py"))
    assert re.findall(r'^--8<-- "examples/(.*)"$', text, re.MULTILINE) == scripts


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


class Loaded(HTMLParser):
    """Addresses that a page makes a browser load; links to follow are not among them."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = ["src", "srcset", "data", "poster"]
        if tag == "link" and dict(attrs).get("rel") not in ("canonical", "next", "prev"):
            names.append("href")
        self.addresses += [value for name, value in attrs if name in names and value]


def test_built_pages_load_nothing_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 15
    for page in pages:
        loaded = Loaded()
        loaded.feed(page.read_text(encoding="utf-8"))
        assert loaded.addresses
        assert [each for each in loaded.addresses if re.match(r"(https?:)?//", each)] == []
    for sheet in site.rglob("*.css"):
        assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", sheet.read_text()) == []


def test_every_verb_is_on_the_built_page(site: Path) -> None:
    text = (site / "command-line.html").read_text(encoding="utf-8")
    for verb in typer.main.get_command(app).commands:  # type: ignore[attr-defined]
        assert f"Usage: stream-leip {verb}" in text


@pytest.mark.needs_browser
def test_a_browser_loads_nothing_from_elsewhere(site: Path) -> None:
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)))
    asked: list[str] = []
    failed: list[str] = []
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=found, args=arguments)
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: failed.append(str(error)))
        for name in ("index", "how-it-works", "reference", "command-line"):
            page.goto((site / f"{name}.html").as_uri())
            page.wait_for_timeout(300)
            # A picture that was found has a width.
            widths = page.eval_on_selector_all("img", "all => all.map(each => each.naturalWidth)")
            assert all(widths), name
        browser.close()
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert failed == []
