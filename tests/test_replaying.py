"""`stream-leip replay` and `stream-leip report`, run as people run them."""

import io
import json
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from rich.console import Console
from stream_leip_connectors.commands.replay import SCHEDULES
from stream_leip_connectors.commands.replay_view import View, summarise
from stream_leip_connectors.files import example
from stream_leip_connectors.mixes import read_mixes

from stream_leip import InputError
from stream_leip.replay import Alarms
from tests.commands import run
from tests.reports import simulate
from tests.strategies import make_profile


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a profile and a labelled pool."""
    path = tmp_path_factory.mktemp("replaying")
    data = example()
    np.savez(path / "validation.npz", scores=data.val_logits, labels=data.val_labels)
    np.savez(path / "pool.npz", scores=data.test_logits, labels=data.test_labels)
    done = run("fit", "validation.npz", cwd=path)
    assert done.returncode == 0, done.stderr
    return path


def test_replay_needs_no_arguments(tmp_path: Path) -> None:
    done = run("replay", "--events", "5000", "--updates", "updates.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for word in ("tumbling LEIP", "tumbling EM", "unadapted", "with the true mix", "Adapting"):
        assert word in " ".join(done.stdout.split())
    assert "report written to report.html" in done.stderr
    assert (tmp_path / "report.html").stat().st_size > 1_000_000
    lines = (tmp_path / "updates.jsonl").read_bytes().splitlines()
    records = [msgspec.json.decode(line) for line in lines]
    assert {"tumbling LEIP", "tumbling EM"} < {record["monitor"] for record in records}
    assert all(len(record["truth"]) == 10 for record in records)
    done = run("report", "updates.jsonl", "--output", "again.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{len(records)} updates of 3 streams" in done.stderr.replace("\n", " ")
    assert (tmp_path / "again.html").exists()


@pytest.mark.parametrize("schedule", list(SCHEDULES))
def test_every_schedule_runs_and_the_same_seed_gives_the_same(folder: Path, schedule: str) -> None:
    command = (
        *("replay", "pool.npz", "--profile", "profile.json", "--schedule", schedule),
        *("--events", "2000", "--seed", "3", "--json", "--no-report"),
    )
    first, second = (run(*command, cwd=folder) for _ in range(2))
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    found = json.loads(first.stdout)
    assert found["n"] == 2000
    assert found["monitors"]["tumbling EM"]["updates"] == 2
    assert not (folder / "report.html").exists()


def test_bad_late_and_duplicate_events_and_a_breach(folder: Path) -> None:
    done = run(
        *(
            "replay",
            "pool.npz",
            "--profile",
            "profile.json",
            "--events",
            "3000",
            "--json",
            "--no-report",
        ),
        *("--bad", "0.05", "--late", "0.05", "--duplicates", "0.05", "--breach", "noise"),
        *("--out-of-order", "0.05"),
        cwd=folder,
    )
    counts = json.loads(done.stdout)["counts"]
    assert counts["events"] == 3000 + counts["duplicate"]
    for name in ("bad", "late", "duplicate", "delayed"):
        assert 80 < counts[name] < 240
    assert "LogitNoise" in json.loads(done.stdout)["settings"]["violations"]


def test_a_profile_is_fitted_to_half_of_the_scores(folder: Path) -> None:
    done = run("replay", "pool.npz", "--events", "2000", "--json", "--no-report", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["classes"] == [str(j) for j in range(10)]


@pytest.mark.parametrize("schedule", list(SCHEDULES))
def test_every_schedule_suits_two_classes(schedule: str) -> None:
    found = SCHEDULES[schedule]().priors(500, np.array([0.5, 0.5]))
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_json_lines_are_a_pool_too(folder: Path) -> None:
    data = example()
    names = [f"digit {j}" for j in range(10)]
    for name, rows in {
        "lists.jsonl": data.test_logits.tolist(),
        "named.jsonl": [
            dict(zip(names, row, strict=True)) for row in data.test_logits[:2000].tolist()
        ],
    }.items():
        labels = data.test_labels.tolist()
        labels = [names[label] for label in labels] if name[0] == "n" else labels
        events = zip(rows, labels, strict=False)
        lines = [msgspec.json.encode({"scores": row, "label": label}) for row, label in events]
        (folder / name).write_bytes(b"\n".join(lines))
    options = ("--profile", "profile.json", "--events", "1000", "--json", "--no-report")
    of_lines, of_arrays = (
        run("replay", name, *options, cwd=folder) for name in ("lists.jsonl", "pool.npz")
    )
    assert of_lines.returncode == 0, of_lines.stderr
    for name in ("truth", "unadapted"):
        assert json.loads(of_lines.stdout)[name] == json.loads(of_arrays.stdout)[name]
    done = run("replay", "named.jsonl", "--events", "1000", "--json", "--no-report", cwd=folder)
    assert json.loads(done.stdout)["classes"] == names, done.stderr
    (folder / "uneven.jsonl").write_text(
        '{"scores": [1.0, 2.0], "label": 0}\n{"scores": [1.0], "label": 1}\n'
    )
    done = run("replay", "uneven.jsonl", cwd=folder)
    assert done.returncode == 1
    assert "every line needs a score for each class" in done.stderr


@pytest.mark.parametrize("width", [80, 120])
def test_the_live_table_keeps_a_class_on_one_line(width: int) -> None:
    console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
    result = simulate(10)
    view = View(make_profile(np.full(10, 0.1)), result.n)
    for name in ("adaptive", "tumbling LEIP", "tumbling EM"):
        view.note(name, result.tracks["dressed"].points[-1])
    console.print(view)
    assert isinstance(console.file, io.StringIO)
    drawn = console.file.getvalue().splitlines()
    assert sum(line.count("(") == 3 and line.count(")") == 3 for line in drawn) == 10
    assert all(len(line) <= width for line in drawn)


@pytest.mark.parametrize("delays", [(50, 2550), (100, 150, 12550, None)])
def test_the_summary_cuts_no_figure_short(delays: tuple[int | None, ...]) -> None:
    result = simulate(10)
    alarms = Alarms(raised=(50,), warned=(), false=0, delays=delays)
    track = replace(result.tracks["dressed"], alarms=alarms)
    result = replace(result, tracks={"adaptive": track, "tumbling LEIP": track})
    console = Console(width=80, file=io.StringIO(), color_system=None)
    summarise(result, 10_000.0, console)
    assert isinstance(console.file, io.StringIO)
    drawn = console.file.getvalue()
    assert "…" not in drawn
    assert all(name in drawn.splitlines()[1] for name in ("error", "held", "accuracy", "log loss"))


def test_a_table_of_mixes(folder: Path) -> None:
    names = [str(j) for j in range(10)]
    lines = ["time," + ",".join(reversed(names))]
    lines.append("2025-01-01T00:00:00+00:00," + ",".join(["0.1"] * 10))
    lines.append("2025-01-02T00:00:00+00:00," + ",".join(["0"] * 5 + ["0.2"] * 5))
    (folder / "mixes.csv").write_text("\n".join(lines))
    done = run(
        *("replay", "pool.npz", "--profile", "profile.json", "--table", "mixes.csv"),
        *("--events", "2000", "--json", "--no-report"),
        cwd=folder,
    )
    found = json.loads(done.stdout)
    assert found["changes"] == [1000]
    np.testing.assert_allclose(found["truth"][-1], [0.2] * 5 + [0.0] * 5)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", r"the header is \[\]"),
        ("time,a\n", "name 'time' and each class once: a, b"),
        ("time,a,b\n0,1\n", "line 2: 2 fields for 3 columns"),
        ("time,a,b\n0,1,x\n", "line 2: could not convert"),
        ("time,a,b\n2025-01-01,1,0\n", "has no zone"),
        ("time,a,b\nsoon,1,0\n", "line 2: Invalid isoformat"),
    ],
)
def test_bad_tables_are_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "mixes.csv").write_text(text)
    with pytest.raises(InputError, match=says):
        read_mixes(tmp_path / "mixes.csv", ("a", "b"))
    with pytest.raises(InputError, match="cannot be read"):
        read_mixes(tmp_path / "none.csv", ("a", "b"))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["replay", "--report", "nowhere/r.html"], "there is no folder nowhere"),
        (["replay", "--updates", "nowhere/u.jsonl"], "there is no folder nowhere"),
        (["replay", "none.npz"], "none.npz: no such file"),
        (["replay", "unlabelled.npz"], "no labels; add an array 'labels'"),
        (["replay", "odd.csv", "--profile", "profile.json"], "its classes are not the profile's"),
        (["replay", "--profile", "none.json"], "none.json: no such file"),
        (["report", "none.jsonl"], "none.jsonl: cannot be read"),
        (["report", "unlabelled.npz"], "no update with a prior"),
    ],
)
def test_bad_data_are_one_line_and_exit_code_1(
    folder: Path, arguments: list[str], says: str
) -> None:
    np.savez(folder / "unlabelled.npz", scores=example().test_logits[:20])
    (folder / "odd.csv").write_text("a,b,label\n1,2,a\n")
    done = run(*arguments, cwd=folder)
    assert done.returncode == 1
    assert done.stdout == ""
    assert says in done.stderr.replace("\n", "")
    assert "Traceback" not in done.stderr
