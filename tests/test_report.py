"""The report, opened in a real browser."""

import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from stream_leip_connectors.report import History, from_result, read_updates, write_report

from stream_leip import (
    InputError,
    KeyedMonitor,
    Monitor,
    Sliding,
    StreamLeipError,
    Tumbling,
    Update,
    fit_profile,
)
from stream_leip.replay import Constant, Jumps, Pool, ReplayResult, Sudden, Traffic, replay
from tests.strategies import make_profile

NASTY = [
    "<script>alert(1)</script>",
    "</script><b>bold</b>",
    "$$x^2$$",
    "@y {{ &amp; \"'",
    "naïve · 类",
]


class Dressed(Monitor):
    """A monitor whose updates carry every field that an update may have."""

    def update_many(self, scores: Any, times: Any = None) -> list[Update]:
        return [dress(update) for update in super().update_many(scores, times)]


def dress(update: Update) -> Update:
    assert update.prior is not None
    spread = 2.0 * np.sqrt(update.prior * (1.0 - update.prior) / update.n)
    value = float(np.exp(40.0 * (update.prior.max() - 1.0 / len(update.prior)) ** 2))
    return replace(
        update,
        low=np.maximum(0.0, update.prior - spread),
        high=np.minimum(1.0, update.prior + spread),
        memory=float(update.n),
        alarm={"value": value, "threshold": 5.0, "raised": value > 5, "warning": value > 3},
        check={
            "p": 0.4,
            "flagged": False,
            "validation_share": 0.1,
            "message": "<i>All is well.</i>",
        },
    )


def simulate(m: int, names: list[str] | None = None, n: int = 8000) -> ReplayResult:
    rng = np.random.default_rng(m)
    labels = np.concatenate([np.arange(m).repeat(4), rng.integers(m, size=600)])
    odds = np.exp(5.0 * np.eye(m)[labels] + rng.normal(size=(len(labels), m)))
    scores = odds / odds.sum(axis=1, keepdims=True)
    profile = make_profile(np.full(m, 1.0 / m))
    if names is not None:
        profile = replace(profile, classes=tuple(names))
    monitors = {
        "dressed": Dressed(profile, Sliding(count=1000, every=200), "EM"),
        "<b>plain</b>": Monitor(profile, Tumbling(count=1000), "EM"),
    }
    schedule = Constant().then(Sudden(to={0: 0.6}, at=0)).then(Jumps(pieces=2))
    return replay(monitors, Pool(scores, labels), schedule, n)


@pytest.fixture(scope="module")
def five() -> ReplayResult:
    return simulate(5, NASTY)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)))
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


class Page:
    """A report in a browser, and all that the browser had to say about it."""

    def __init__(self, browser: Any, path: Path, width: int = 1200, scheme: str = "light") -> None:
        viewport = {"width": width, "height": 900}
        self.page = browser.new_page(viewport=viewport, color_scheme=scheme)
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda each: self.said.append(f"{each.type}: {each.text}"))
        self.page.on("pageerror", lambda each: self.said.append(f"error: {each}"))
        self.page.on("dialog", lambda each: self.said.append(f"error: dialog {each.message}"))
        self.page.on("request", lambda each: self.asked.append(each.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-ready=yes]", timeout=30_000)
        self.page.wait_for_timeout(300)

    def __enter__(self) -> "Page":
        return self

    def __exit__(self, *_: object) -> None:
        self.page.close()

    def check(self, path: Path) -> None:
        loud = [each for each in self.said if each.split(":")[0] in ("error", "warning")]
        assert loud == []
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


def written(history: History, folder: Path, name: str = "report.html") -> Path:
    path = folder / name
    write_report(history, path)
    return path


@pytest.mark.needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390])
def test_every_part_is_drawn(
    browser: Any, five: ReplayResult, tmp_path: Path, scheme: str, width: int
) -> None:
    path = written(from_result(five), tmp_path)
    with Page(browser, path, width, scheme) as page:
        page.check(path)
        for part in ("mix", "error", "accuracy", "memory", "alarm"):
            assert page.inked(f"#{part}"), part
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


def lines_of(result: ReplayResult, *dropped: str) -> list[bytes]:
    return [
        msgspec.json.encode({k: v for k, v in each.items() if k not in dropped})
        for each in result.records()
    ]


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


def test_a_file_says_what_the_result_says(five: ReplayResult, tmp_path: Path) -> None:
    file = tmp_path / "updates.jsonl"
    file.write_bytes(b"\n".join(lines_of(five)))
    of_file, of_result = read_updates(file), from_result(five)
    assert of_file.classes == of_result.classes
    assert of_file.notes == ()
    assert of_file.source is not None
    np.testing.assert_allclose(of_file.source, five.source, rtol=1e-6)
    assert {lane.name for lane in of_file.lanes} == {"dressed", "<b>plain</b>"}
    by_name = {lane.name: lane for lane in of_file.lanes}
    for lane in of_result.lanes:
        np.testing.assert_array_equal(lane.prior, by_name[lane.name].prior)
        np.testing.assert_array_equal(lane.x, by_name[lane.name].x)
        assert lane.raised == by_name[lane.name].raised
    error = by_name["<b>plain</b>"].error
    assert error is not None
    assert error.mean() == pytest.approx(five.tracks["<b>plain</b>"].errors.total_variation)


def test_bad_lines_are_counted_and_named(five: ReplayResult, tmp_path: Path) -> None:
    good = lines_of(five)
    odd = [
        b"{",
        b"null",
        b"[" * 5000,
        b"\xff\xfe",
        b'{"classes": ["a"]}',
        b'{"classes": ["a", "b"], "prior": [1.0]}',
        b'{"classes": ["a", "b"], "prior": [0.5, 0.5]}',
        b'{"classes": 3}',
    ]
    file = tmp_path / "updates.jsonl"
    file.write_bytes(b"\n".join([good[0], b"", *odd, *good[1:]]))
    history = read_updates(file)
    assert sum(lane.updates for lane in history.lanes) == len(good)
    (note,) = history.notes
    assert f"{len(odd)} of {len(good) + len(odd)} lines are no updates" in note
    assert "line 3" in note


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no update with a prior in 0 lines"),
        (b"{\n", "no update with a prior in 1 lines; line 1"),
        (b'{"classes": ["a", "b"], "prior": null}', "no update with a prior in 1 lines"),
    ],
)
def test_a_file_of_no_updates_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    file = tmp_path / "updates.jsonl"
    file.write_bytes(content)
    with pytest.raises(InputError, match=says):
        read_updates(file)
    with pytest.raises(InputError, match="cannot be read"):
        read_updates(tmp_path / "none.jsonl")


def test_many_streams_are_shown_by_their_number_of_updates(tmp_path: Path) -> None:
    lines = [
        {"classes": ["a", "b"], "prior": [0.5, 0.5], "key": f"k{k}", "last": 10 * i, "n": 10}
        for k in range(300)
        for i in range(1 + k % 7)
    ]
    file = tmp_path / "updates.jsonl"
    file.write_bytes(b"\n".join(map(msgspec.json.encode, lines)))
    history = read_updates(file)
    assert len(history.lanes) == 8
    assert {lane.updates for lane in history.lanes} == {7}
    assert any("8 of 200 streams are shown" in note for note in history.notes)
    written(history, tmp_path)


def test_long_files_are_thinned(tmp_path: Path) -> None:
    file = tmp_path / "updates.jsonl"
    with file.open("wb") as out:
        for i in range(20_000):
            line = {"classes": ["a", "b"], "prior": [i / 20_000, 1 - i / 20_000], "last": i, "n": 1}
            out.write(msgspec.json.encode(line) + b"\n")
    (lane,) = read_updates(file).lanes
    assert lane.updates == 20_000
    assert 250 <= len(lane.x) <= 501
    assert lane.x[-1] == 20_000
    assert (np.diff(lane.x) > 0).all()


def test_keyed_replays_have_a_lane_for_each_key(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=900)
    logits = 4.0 * np.eye(3)[labels] + rng.normal(size=(900, 3))
    keyed = KeyedMonitor(fit_profile(logits, labels), Tumbling(count=200), "EM")
    traffic = Traffic(keys=("north", "south"), duplicates=0.1)
    result = replay({"k": keyed}, Pool(logits, labels), Sudden(), 3000, traffic=traffic)
    history = from_result(result)
    assert {lane.name for lane in history.lanes} == {"k · north", "k · south"}
    assert "duplicate" in history.notes[0]
    first, second = history.lanes
    assert first.error is not None
    assert second.error is not None
    assert first.error.tolist() != second.error.tolist()
    written(history, tmp_path)


def test_a_report_that_cannot_be_written_leaves_the_old_one(
    five: ReplayResult, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        written(from_result(five), tmp_path / "nowhere")


def test_figures_stand_without_a_page(five: ReplayResult) -> None:
    from stream_leip_connectors.report import plots

    history = from_result(five)
    x_range = plots.shared_range(history)
    drawn = {"mix": plots.mix(history, x_range), "alarm": plots.alarm(history, x_range)}
    assert drawn["alarm"] is not None
    named = {
        name: [item.label.value for item in plot.items]  # type: ignore[union-attr]
        for name, plot in drawn.items()
        if plot is not None
    }
    # Warnings would bury the mix; they are with the alarm.
    assert named["mix"][-2:] == ["true change", "alarm"]
    assert named["alarm"] == ["dressed", "true change", "warning", "alarm", "threshold"]
    one = plots.panel(history, 3, x_range)
    np.testing.assert_array_equal(one.truth.data["y"], five.truth[:, 3])
    np.testing.assert_array_equal(one.lanes[0].data["y"], history.lanes[0].prior[:, 3])
    np.testing.assert_array_equal(one.lanes[0].data["low"], history.lanes[0].low[:, 3])  # type: ignore[index]


def test_a_missing_bokeh_names_the_extra(
    five: ReplayResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "bokeh", None)
    with pytest.raises(StreamLeipError, match=r"pip install 'stream-leip\[report\]'"):
        written(from_result(five), tmp_path)


def test_sentences_say_what_happened_and_what_was_gained(five: ReplayResult) -> None:
    happened, gained = from_result(five).sentences
    assert "Over 8,000 events the class mix went up to" in happened
    assert gained.startswith("Adapting the predictions")
    assert gained.count("%") >= 2
