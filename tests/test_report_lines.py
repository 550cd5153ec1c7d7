"""The lines of a report: of a replay, and of a file of updates."""

import re
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
from stream_leip_connectors.report import from_result, read_updates

from stream_leip import (
    InputError,
    KeyedMonitor,
    StreamLeipError,
    Tumbling,
    fit_profile,
)
from stream_leip.replay import Pool, ReplayResult, Sudden, Traffic, replay
from tests.reports import NASTY, lines_of, simulate, written


@pytest.fixture(scope="module")
def five() -> ReplayResult:
    return simulate(5, NASTY)


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


def test_one_stream_needs_no_name(five: ReplayResult, tmp_path: Path) -> None:
    file = tmp_path / "updates.jsonl"
    mine = [each for each in five.records() if each["monitor"] == "dressed"]
    file.write_bytes(b"\n".join(msgspec.json.encode(each | {"monitor": None}) for each in mine))
    moved, alarmed = read_updates(file).sentences
    assert re.match(rf"{len(mine)} updates: class “.*” moved most, between [\d.]+ % and", moved)
    assert re.fullmatch(r"The alarm was raised (once|twice|\d+ times)\.", alarmed)
    assert "Solid: estimated; shaded" in written(read_updates(file), tmp_path).read_text("utf-8")


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


def test_a_report_that_cannot_be_written_leaves_nothing_half_done(
    five: ReplayResult, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        written(from_result(five), tmp_path / "nowhere")
    (tmp_path / "report.html").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        written(from_result(five), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_figures_stand_without_a_page(five: ReplayResult) -> None:
    from stream_leip_connectors.figures import plots

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
    assert re.search(r"raised its alarm [\d,]+ events after the change at event [\d,]+\.", happened)
    assert gained.startswith("Adapting the predictions")
    assert gained.count("%") >= 2
