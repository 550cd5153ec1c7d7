"""The report, opened in a real browser."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stream_leip_connectors.report import from_result, read_updates

from stream_leip.replay import ReplayResult
from tests.browsers import listen, loud
from tests.reports import NASTY, lines_of, simulate, written


@pytest.fixture(scope="module")
def five() -> ReplayResult:
    return simulate(5, NASTY)


class Page:
    """A report in a browser, and all that the browser had to say about it."""

    def __init__(self, browser: Any, path: Path, width: int = 1200, scheme: str = "light") -> None:
        viewport = {"width": width, "height": 900}
        self.page = browser.new_page(viewport=viewport, color_scheme=scheme)
        self.said, self.asked = listen(self.page)
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-ready=yes]", timeout=30_000)
        self.page.wait_for_timeout(300)

    def __enter__(self) -> "Page":
        return self

    def __exit__(self, *_: object) -> None:
        self.page.close()

    def check(self, path: Path) -> None:
        assert loud(self.said) == []
        assert [url for url in self.asked if not url.startswith("data:")] == [path.as_uri()]
        assert self.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")

    def names(self) -> list[str]:
        """The names of what is drawn in the figures that a legend goes with."""
        found: list[str] = self.page.evaluate(
            """Bokeh.documents[0].roots().flatMap((root) => root.above)
                .filter((each) => each.type === "Legend")
                .flatMap((legend) => legend.items.map((item) => item.label.value))"""
        )
        return found

    def frames(self) -> list[float]:
        """How high the figures are inside their axes, which a legend above must leave them."""
        found: list[float] = self.page.evaluate(
            "Bokeh.documents[0].roots().map((root) => root.inner_height)"
        )
        return found

    def inked(self, selector: str) -> bool:
        """Whether anything but nothing is drawn in a figure."""
        drawn: bool = self.page.evaluate(
            """(selector) => {
                const roots = (node) => [node, ...[...node.querySelectorAll("*")]
                    .filter((each) => each.shadowRoot).flatMap((each) => roots(each.shadowRoot))];
                return roots(document.querySelector(selector))
                    .flatMap((root) => [...root.querySelectorAll("canvas")])
                    .some((canvas) => canvas.width && canvas.getContext("2d")
                        .getImageData(0, 0, canvas.width, canvas.height).data.some((v) => v > 0));
            }""",
            selector,
        )
        return drawn


@pytest.mark.needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 900, 390])
def test_every_part_is_drawn(
    browser: Any, five: ReplayResult, tmp_path: Path, scheme: str, width: int
) -> None:
    path = written(from_result(five), tmp_path)
    with Page(browser, path, width, scheme) as page:
        page.check(path)
        for part in ("mix", "error", "accuracy", "memory", "alarm"):
            assert page.inked(f"#{part}"), part
        assert min(page.frames()) > 120
        assert page.page.locator(".panel:visible").count() == 5
        legends = [name.replace("\u200b", "") for name in page.names()]
        for name in (*NASTY, "true change", "alarm", "threshold", "dressed", "unadapted"):
            assert name in legends, name
        assert "with the true mix" in page.page.locator("#figures").inner_text()
        # Names are data: they are read as they are, and made nothing of the page.
        text = page.page.locator("body").inner_text()
        assert all(name in text for name in (*NASTY, "<b>plain</b>", "<i>All is well.</i>"))
        assert page.page.locator("section b").all_inner_texts() == ["dressed"]
        back = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (back == "rgb(255, 255, 255)") == (scheme == "light")
        axis = page.page.evaluate("Bokeh.documents[0].roots()[0].left[0].major_label_text_color")
        assert (axis == "#616975") == (scheme == "light")


@pytest.mark.needs_browser
def test_the_theme_follows_the_reader(browser: Any, five: ReplayResult, tmp_path: Path) -> None:
    path = written(from_result(five), tmp_path)
    colour = "Bokeh.documents[0].roots()[0].left[0].major_label_text_color"
    with Page(browser, path) as page:
        before = page.page.evaluate(colour)
        page.page.emulate_media(color_scheme="dark")
        page.page.wait_for_function(f"{colour} !== '{before}'")
        page.check(path)


@pytest.mark.needs_browser
def test_hovering_names_the_class_and_its_share(
    browser: Any, five: ReplayResult, tmp_path: Path
) -> None:
    path = written(from_result(five), tmp_path)
    with Page(browser, path) as page:
        # Where the line of the largest mover is on the screen, by the figure's own scales.
        place = page.page.evaluate(
            """() => {
                const view = Object.values(Bokeh.index.roots ?? Bokeh.index)
                    .find((each) => each.model.id === Bokeh.documents[0].roots()[0].id);
                const line = view.model.renderers.filter((r) => r.glyph.type === "Line")[0];
                const data = line.data_source.data, k = 20;
                const box = view.canvas_view.el.getBoundingClientRect();
                return [box.x + view.frame.x_scale.compute(data.x[k]),
                        box.y + view.frame.y_scale.compute(data.y[k]), line.name];
            }"""
        )
        page.page.mouse.move(place[0] - 5, place[1])
        page.page.mouse.move(place[0], place[1])
        tip = page.page.locator(".bk-Tooltip, .bk-tooltip, .bk-tooltip-row-value").first
        tip.wait_for(timeout=5000)
        shown = page.page.locator(".bk-tooltip-row-value").all_inner_texts()
        assert place[2] in shown
        assert any("%" in each and "–" in each for each in shown)
        page.check(path)


@pytest.mark.needs_browser
def test_a_hundred_classes_can_be_searched(browser: Any, tmp_path: Path) -> None:
    result = simulate(100, [f"class {j}" for j in range(100)], n=3000)
    path = written(from_result(result), tmp_path)
    assert path.stat().st_size < 6_000_000
    with Page(browser, path) as page:
        titles = page.page.locator(".panel:visible h3")
        assert titles.count() == 12
        assert titles.first.inner_text() == "class 0"
        assert "1 to 12 of 100" in page.page.locator("#told").inner_text()
        page.page.locator("#on").click()
        assert "13 to 24 of 100" in page.page.locator("#told").inner_text()
        page.page.locator("#search").fill("CLASS 77")
        assert titles.all_inner_texts() == ["class 77"]
        shares = page.page.evaluate(
            """Object.values(Bokeh.documents[0].roots().find((root) => root.height === 190)
                .renderers.at(-1).data_source.data.y)"""
        )
        lane = from_result(result).lanes[-1]
        np.testing.assert_allclose(shares, lane.prior[:, 77], rtol=1e-3, atol=1e-9)
        page.page.locator("#search").fill("nothing")
        assert titles.count() == 0
        assert page.page.locator("#told").inner_text() == "no class of that name"
        page.check(path)


@pytest.mark.needs_browser
def test_small_shares_have_labels_of_their_own(browser: Any, tmp_path: Path) -> None:
    path = written(from_result(simulate(2)), tmp_path)
    with Page(browser, path) as page:
        labels = page.page.evaluate(
            "Bokeh.documents[0].roots()[0].left[0].formatter"
            ".doFormat([0, 0.0005, 0.005, 0.01, 0.015, 0.5, 1], { loc: 0 })"
        )
    assert labels == ["0 %", "0.05 %", "0.5 %", "1 %", "1.5 %", "50 %", "100 %"]


@pytest.mark.needs_browser
def test_two_classes_without_a_single_extra(browser: Any, tmp_path: Path) -> None:
    result = simulate(2)
    plain = replace(result, tracks={"p": replace(result.tracks["<b>plain</b>"], name="p")})
    path = written(from_result(plain), tmp_path)
    with Page(browser, path, 390) as page:
        page.check(path)
        assert page.page.locator("#alarm").count() == 0
        assert "No assumption check" in page.page.locator("#check").inner_text()
        assert page.page.locator("#search").count() == 0


@pytest.mark.needs_browser
def test_a_replay_without_an_update_shows_the_truth(browser: Any, tmp_path: Path) -> None:
    path = written(from_result(simulate(3, n=100)), tmp_path)
    with Page(browser, path) as page:
        page.check(path)
        assert page.inked("#mix")
        assert "No monitor gave an update" in page.page.locator("body").inner_text()


@pytest.mark.needs_browser
def test_updates_in_a_file_with_times_and_without_truth(
    browser: Any, five: ReplayResult, tmp_path: Path
) -> None:
    file = tmp_path / "updates.jsonl"
    file.write_bytes(b"\n".join(lines_of(five, "truth", "number")))
    history = read_updates(file)
    assert history.timed
    path = written(history, tmp_path)
    with Page(browser, path) as page:
        page.check(path)
        assert page.page.locator("#error").count() == 0
        assert page.page.locator("#accuracy").count() == 0
        assert page.inked("#mix")
        assert page.inked("#alarm")
