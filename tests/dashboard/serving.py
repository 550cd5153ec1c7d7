"""The command in a process of its own, and a browser that looks at what it serves."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.browsers import listen, loud
from tests.commands import COMMAND


@contextmanager
def serving(*arguments: str | Path, port: int = 0, **variables: str) -> Iterator[str]:
    """A dashboard; where it is. It must end with 0, and without a traceback, when asked to."""
    process = subprocess.Popen(
        [COMMAND, "dashboard", *map(str, arguments), "--port", str(port)],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | variables,
    )
    assert process.stderr is not None
    with process, process.stderr:
        first = process.stderr.readline()
        try:
            found = re.search(r"open (http://\S+)", first)
            assert found, first + process.stderr.read()
            yield found[1]
        finally:
            process.send_signal(signal.SIGTERM)
            said = process.stderr.read()
            code = process.wait(30)
    assert (code, "Traceback" in said) == (0, False), said


class Looking:
    """A page in a browser, and all that the browser had to say about it."""

    def __init__(
        self, browser: Any, url: str, width: int = 1200, scheme: str = "light", ready: bool = True
    ) -> None:
        viewport = {"width": width, "height": 900}
        self.page = browser.new_page(viewport=viewport, color_scheme=scheme)
        self.said, self.asked = listen(self.page)
        self.page.set_default_timeout(15_000)
        self.page.add_init_script(
            "window.rootOf = (name) => Bokeh.documents[0].roots().find((r) => r.name === name)"
        )
        self.page.goto(url)
        self.url = url
        if ready:
            self.page.wait_for_selector("html[data-ready=yes]", timeout=30_000)

    def __enter__(self) -> "Looking":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        home = self.url.partition("://")[2].partition("/")[0]
        elsewhere = [url for url in self.asked if not re.match(rf"(http|ws)://{home}/|blob:", url)]
        self.page.close()
        if kind is None:
            assert loud(self.said) == []
            assert [url for url in elsewhere if not url.startswith("data:")] == [], elsewhere

    def text(self, selector: str) -> str:
        found: str = self.page.locator(selector).inner_text()
        return found

    def until(self, selector: str, text: str, timeout: float = 15_000) -> None:
        """Wait until a part of the page says something."""
        self.page.wait_for_function(
            "([selector, text]) => document.querySelector(selector).textContent.includes(text)",
            arg=[selector, text],
            timeout=timeout,
        )

    def movers(self) -> list[list[str]]:
        """The table's lines."""
        return [
            [cell.inner_text() for cell in row.locator("td").all()[:5]]
            for row in self.page.locator("#movers tbody tr").all()
        ]

    def drawn(self, figure: str) -> dict[str, dict[str, list[float]]]:
        """The lines of a figure that have points, by their names."""
        found: dict[str, dict[str, list[float]]] = self.page.evaluate(
            """(name) => {
                const lines = rootOf(name).renderers
                    .filter((each) => each.glyph.type === "Line");
                return Object.fromEntries(lines.map((line) => {
                    const data = line.data_source.data;
                    return [line.name, Object.fromEntries(Object.entries(
                        data instanceof Map ? Object.fromEntries(data) : data)
                        .map(([column, values]) => [column, Array.from(values)]))];
                }).filter(([_, data]) => data.x.length));
            }""",
            figure,
        )
        return found

    def marks(self, figure: str, kind: str) -> list[float]:
        """Where upright lines of a kind are."""
        found: list[float] = self.page.evaluate(
            """([name, kind]) => {
                const data = rootOf(name).renderers
                    .find((each) => each.name === kind).data_source.data;
                return Array.from(data instanceof Map ? data.get("x") : data.x);
            }""",
            [figure, kind],
        )
        return found
