"""The dashboard of a file, in a real browser."""

import csv
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.dashboard.serving import Looking, serving
from tests.dashboard.updates import CLASSES, NASTY_CLASS, NASTY_KEY, append, update

pytestmark = pytest.mark.needs_browser


class Served:
    """A dashboard of a file that the tests write to, each with keys of its own."""

    def __init__(self, path: Path, url: str) -> None:
        self.path = path
        self.url = url

    def key(self, name: str) -> str:
        """Where a key is shown."""
        return f"{self.url}?key={name}"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("dashboard") / "updates.jsonl"
    append(path, *(update(k, key=f"shop-{k}") for k in range(60)))
    # Whatever the environment says to Bokeh, nothing comes from elsewhere.
    with serving(path, BOKEH_RESOURCES="cdn", BOKEH_ALLOW_WS_ORIGIN="evil.example") as url:
        yield Served(path, url)


MIXES = [(0.2, 0.3, 0.5), (0.25, 0.3, 0.45), (0.7, 0.1, 0.2)]


def test_what_is_shown_is_what_was_sent(browser: Any, served: Served) -> None:
    append(served.path, *(update(k, mix, key="values") for k, mix in enumerate(MIXES)))
    with Looking(browser, served.key("values")) as page:
        page.until("#name", "values")
        assert page.text("#mix-now") == "cat: 70.0 %, fox: 20.0 %, dog: 10.0 %"
        assert page.movers() == [
            ["cat", "33.3 %", "70.0 %", "68.0 – 72.0 %", "+36.7"],
            ["fox", "33.3 %", "20.0 %", "18.0 – 22.0 %", "−13.3"],
            ["dog", "33.3 %", "10.0 %", "8.0 – 12.0 %", "−23.3"],
        ]
        lines = page.drawn("mix")
        for j, name in enumerate(CLASSES):
            shares = [mix[j] for mix in MIXES]
            assert lines[name]["x"] == [1000, 2000, 3000]
            np.testing.assert_allclose(lines[name]["y"], shares, rtol=1e-6)
            np.testing.assert_allclose(lines[name]["low"], np.array(shares) - 0.02, rtol=1e-6)
            np.testing.assert_allclose(lines[name]["high"], np.array(shares) + 0.02, rtol=1e-6)
            np.testing.assert_allclose(lines[f"{name}, source"]["y"], [1 / 3, 1 / 3])
        assert page.drawn("memory")["values"]["y"] == [4321] * 3
        alarm = page.drawn("alarm")
        assert (alarm["values"]["y"], alarm["threshold"]["y"]) == ([1.0] * 3, [4.4] * 3)
        rows = page.drawn("confident")
        np.testing.assert_allclose(rows["confident set"]["y"], [900.0] * 3)
        assert rows["low-confidence buffer"]["y"] == [100.0] * 3
        numbers = page.text("#numbers")
        for said in ("events\t3,000", "bad events\t7", "late events\t3", "newest update"):
            assert said in numbers, numbers
        assert page.text("#window") == "4,321 events"
        assert "900 rows are in the confident set (90.0 %)" in page.text("#confidence")
        assert "A new class mix explains what changed" in page.text("#check-said")
        assert "EM" in page.text("#settings")
        assert "it did best" in page.text("#settings")
        append(served.path, update(3, (0.1, 0.8, 0.1), key="values"))
        page.until("#mix-now", "dog: 80.0 %")
        assert page.drawn("mix")["dog"]["y"][-1] == pytest.approx(0.8)


def test_an_alarm_appears_within_two_seconds(browser: Any, served: Served) -> None:
    append(served.path, update(0, key="alarmed"))
    with Looking(browser, served.key("alarmed")) as page:
        page.until("#name", "alarmed")
        assert page.text("#alarm-word") == "no"
        append(served.path, update(1, key="alarmed", raised=True))
        begun = time.monotonic()
        page.until("#alarm-word", "changed", timeout=2000)
        assert time.monotonic() - begun < 2.0
        assert "Last raised at event 2,000 by class cat up." in page.text("#alarm-said")
        assert "Alarm raised at event 2,000 by class cat up" in page.text("#onsets")
        assert page.marks("alarm", "alarm") == page.marks("mix", "alarm") == [2000]
        assert page.page.title().startswith("▲")
        # In the list it is above all that are quiet, and says why.
        assert "▲ alarmed (1 alarm)" in page.page.locator("#keys option").all_inner_texts()[:3]


def test_keys_are_found_and_chosen(browser: Any, served: Served) -> None:
    append(served.path, update(60, (0.1, 0.1, 0.8), key="shop-7"))
    with Looking(browser, served.url) as page:
        page.page.locator("#search").fill("SHOP-7")
        page.page.wait_for_function("document.querySelector('#found').textContent.startsWith('1 ')")
        options = page.page.locator("#keys option")
        assert "shop-7" in options.all_inner_texts()
        page.page.locator("#keys").select_option("shop-7")
        page.until("#name", "shop-7")
        page.until("#mix-now", "fox: 80.0 %")
        page.page.locator("#search").fill("no such key")
        page.until("#found", "0 of ")


def test_a_pause_holds_what_is_shown(browser: Any, served: Served) -> None:
    append(served.path, *(update(k, key="paused") for k in range(3)))
    with Looking(browser, served.key("paused")) as page:
        page.until("#name", "paused")
        button = page.page.locator("#pause")
        button.focus()
        page.page.keyboard.press("Enter")
        assert button.get_attribute("aria-pressed") == "true"
        page.page.wait_for_timeout(700)
        append(served.path, update(3, (0.9, 0.05, 0.05), key="paused"))
        page.page.wait_for_timeout(1500)
        assert page.text("#mix-now").startswith("cat: 50.0 %")
        assert len(page.drawn("mix")["cat"]["x"]) == 3
        button.click()
        page.until("#mix-now", "cat: 90.0 %")


def test_downloads_have_what_is_shown(browser: Any, served: Served, tmp_path: Path) -> None:
    append(served.path, *(update(k, key="down") for k in range(200)))
    with Looking(browser, served.key("down")) as page:
        page.until("#name", "down")
        page.page.locator("#range").select_option("newest 50 updates")
        page.page.wait_for_timeout(300)
        with page.page.expect_download() as caught:
            page.page.locator("#csv").click()
        assert caught.value.suggested_filename == "mix-down.csv"
        caught.value.save_as(tmp_path / "d.csv")
        with (tmp_path / "d.csv").open(newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        assert len(lines) == 50 * 3
        assert (lines[0]["events"], lines[-1]["events"]) == ("151000", "200000")
        assert {line["class"] for line in lines} == set(CLASSES)
        page.page.evaluate(
            """() => {
                const pen = CanvasRenderingContext2D.prototype, write = pen.fillText;
                pen.fillText = function (text, ...where) {
                    (window.written ??= []).push(text);
                    return write.call(this, text, ...where);
                };
            }"""
        )
        with page.page.expect_download() as caught:
            page.page.locator("#png").click()
        caught.value.save_as(tmp_path / "d.png")
        picture = (tmp_path / "d.png").read_bytes()
        assert picture[:8] == b"\x89PNG\r\n\x1a\n"
        assert int.from_bytes(picture[20:24], "big") > 1000  # all four figures, one below another
        assert len(picture) > 20_000
        shares = rf"({'|'.join(map(re.escape, CLASSES))}): [\d.]+ %"
        heading = re.compile(rf".+: {shares}, {shares}, {shares}")
        assert any(map(heading.fullmatch, page.page.evaluate("window.written")))


def test_a_range_is_chosen_drawn_and_reset(browser: Any, served: Served) -> None:
    append(served.path, *(update(k, key="ranged") for k in range(100)))
    bounds = "[rootOf('mix').x_range.start, rootOf('mix').x_range.end]"
    with Looking(browser, served.key("ranged")) as page:
        page.until("#name", "ranged")
        assert page.page.evaluate(bounds) == [1000, 100_000]
        page.page.locator("#range").select_option("newest 50 updates")
        assert page.page.evaluate(bounds) == [51_000, 100_000]
        page.page.evaluate("rootOf('mix').x_range.setv({start: 20000, end: 30000})")
        assert page.page.locator("#range").input_value() == "drawn"
        append(served.path, update(100, key="ranged"))
        page.until("#numbers", "101,000")
        assert page.page.evaluate(bounds) == [20_000, 30_000]
        page.page.evaluate("Bokeh.index.roots.find((view) => view.model.name === 'mix').reset()")
        page.page.wait_for_function(f"({bounds})[1] === 101000")
        assert page.page.locator("#range").input_value() == "0"


def test_names_are_data_and_never_markup(browser: Any, served: Served) -> None:
    classes = (NASTY_CLASS, "$$x^2$$", "</script><b>bold</b>")
    append(served.path, update(0, key=NASTY_KEY, classes=classes, raised=True))
    with Looking(browser, served.url) as page:
        page.page.locator("#search").fill("owned")
        page.page.wait_for_function("document.querySelector('#found').textContent.startsWith('1 ')")
        page.page.locator("#keys").evaluate(
            """(list) => { list.value = [...list.options]
                .find((each) => each.text.includes("<script>")).value;
                list.dispatchEvent(new Event("change")); }"""
        )
        page.until("#name", NASTY_KEY)
        assert page.text("#name") == NASTY_KEY
        assert {line[0] for line in page.movers()} == set(classes)
        assert NASTY_CLASS in page.text("#alarm-said")
        page.page.wait_for_timeout(500)
        assert page.page.locator("main img, main b:not(.card b), header script").count() == 0
        assert "owned" not in page.page.title().replace(NASTY_KEY, "")
        legend = page.page.evaluate(
            """rootOf("mix").above[0].items
                .map((item) => item.label.value)"""
        )
        assert {name.replace("\u200b", "") for name in legend[:3]} == set(classes)
        # Hovering shows names too.
        place = page.page.evaluate(
            """() => {
                const view = Bokeh.index.roots.find((each) => each.model.name === "mix");
                const line = view.model.renderers.find((each) => each.glyph.type === "Line");
                const data = line.data_source.data;
                const get = (name) => (data instanceof Map ? data.get(name) : data[name])[0];
                const box = view.canvas_view.el.getBoundingClientRect();
                return [box.x + view.frame.x_scale.compute(get("x")),
                        box.y + view.frame.y_scale.compute(get("y"))];
            }"""
        )
        page.page.mouse.move(place[0] - 4, place[1])
        page.page.mouse.move(*place)
        page.page.wait_for_timeout(500)
        assert page.page.locator("img").count() == 0


def test_many_classes_can_be_searched(browser: Any, served: Served) -> None:
    classes = tuple(f"class {j}" for j in range(1000))
    prior = np.full(1000, 0.0005)
    prior[7] = 1.0 - 0.0005 * 999
    append(
        served.path,
        *(update(k, tuple(prior.tolist()), key="wide", classes=classes) for k in range(20)),
    )
    with Looking(browser, served.key("wide")) as page:
        page.until("#name", "wide")
        assert len(page.movers()) == 12
        assert page.movers()[0][0] == "class 7"
        assert page.text("#told") == "12 of 1000 classes"
        page.page.locator("#classes").fill("class 123")
        page.page.wait_for_function("document.querySelectorAll('#movers tbody tr').length === 1")
        assert page.movers()[0][0] == "class 123"
        assert [name for name in page.drawn("mix") if "," not in name] == ["class 123"]


def test_event_times_are_on_the_axis(browser: Any, served: Served) -> None:
    append(served.path, *(update(k, key="timed", end=1.7e9 + k, start=1.6e9) for k in range(5)))
    with Looking(browser, served.key("shop-1")) as page:
        page.page.locator("#search").fill("timed")
        page.page.wait_for_function("document.querySelector('#found').textContent.startsWith('1 ')")
        page.page.locator("#keys").select_option("timed")
        page.until("#name", "timed")
        page.page.wait_for_function("rootOf('mix').below[0].type === 'DatetimeAxis'")
        page.until("#numbers", "behind the newest event")
        assert page.drawn("mix")["cat"]["x"][0] == 1.7e12


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 768, 390])
def test_it_fits_and_can_be_reached(browser: Any, served: Served, width: int, scheme: str) -> None:
    with Looking(browser, served.url, width, scheme) as page:
        page.page.wait_for_timeout(300)
        assert page.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        back = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (back == "rgb(255, 255, 255)") == (scheme == "light")
        if width != 1200:
            return
        # Every control has a name, and the keyboard comes to each of them.
        names = page.page.evaluate(
            """[...document.querySelectorAll("input, select, button")]
                .map((each) => each.labels.length ? each.labels[0].innerText : each.innerText)"""
        )
        assert all(name.strip() for name in names)
        reached = set()
        for _ in range(12):
            page.page.keyboard.press("Tab")
            reached.add(page.page.evaluate("document.activeElement.id"))
        assert reached >= {"search", "keys", "range", "pause", "csv", "png"}


@pytest.mark.slow
def test_a_browser_does_not_grow(browser: Any, served: Served) -> None:
    append(served.path, *(update(k, key="long") for k in range(700)))
    number = 700
    with Looking(browser, served.key("long")) as page:
        page.until("#name", "long")

        def write(seconds: float) -> None:
            nonlocal number
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                append(served.path, *(update(number + k, key="long") for k in range(100)))
                number += 100
                page.page.wait_for_timeout(50)

        session = page.page.context.new_cdp_session(page.page)

        def heap() -> float:
            session.send("HeapProfiler.collectGarbage")
            used: float = session.send("Runtime.getHeapUsage")["usedSize"]
            return used

        write(10.0)
        before = heap()
        write(60.0)
        assert heap() < 1.1 * before
        assert page.page.evaluate("document.querySelectorAll('*').length") < 1000
