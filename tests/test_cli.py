"""The command, run as people run it."""

import json
import re
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from rich.text import Text
from stream_leip_connectors.cli import app
from stream_leip_connectors.files import example

from stream_leip import SourceProfile
from tests.commands import COMMAND, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with validation data, a profile fitted to them, and a batch."""
    path = tmp_path_factory.mktemp("cli")
    data = example()
    np.savez(path / "validation.npz", scores=data.val_logits, labels=data.val_labels)
    np.savez(path / "today.npz", scores=data.draw([0.5, *[0.5 / 9] * 9], 2000))
    done = run("fit", "validation.npz", cwd=path)
    assert done.returncode == 0, done.stderr
    assert "source profile: 2000 validation rows of 10 classes" in done.stdout
    assert "written to profile.json" in done.stderr
    return path


def test_version_of_the_installed_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [COMMAND, "--version"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("stream-leip 0.")


def test_estimate_for_people(folder: Path) -> None:
    done = run("estimate", "today.npz", cwd=folder)
    assert done.returncode == 0
    assert "class mix of 2000 rows; low to high: auto's 95% interval" in done.stdout
    assert "auto takes" in done.stdout


@pytest.mark.parametrize("longest", [2, 12, 40])
def test_estimates_stay_whole_on_a_narrow_terminal(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, longest: int
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    data = example()
    names = [f"{j}".ljust(longest, "x") for j in range(10)]
    labels = [names[label] for label in data.val_labels]
    np.savez(tmp_path / "v.npz", scores=data.val_logits, labels=labels, classes=names)
    assert run("fit", "v.npz", cwd=tmp_path).returncode == 0
    lines = run("estimate", folder / "today.npz", cwd=tmp_path).stdout.splitlines()
    assert lines[1].split() == (
        ["class", "source", "auto", "low", "high", "LEIP", "EM", "RLLS", "BBSE", "CC", "PCC"]
    )
    assert max(map(len, lines[:-1])) <= 80
    figures = [line.split()[1:] for line in lines[2:-1] if "." in line]
    assert len(figures) == 10
    assert all(len(each) == 10 for each in figures)
    assert "…" not in "".join(lines)


def test_estimate_for_machines(folder: Path) -> None:
    done = run("estimate", "today.npz", "--json", cwd=folder)
    found = json.loads(done.stdout)
    assert found["n"] == 2000
    assert found["classes"] == [str(j) for j in range(10)]
    assert set(found["priors"]) == {"auto", "LEIP", "EM", "RLLS", "BBSE", "CC", "PCC"}
    assert found["priors"]["auto"] == found["priors"][found["estimator"]]
    assert found["priors"]["EM"][0] == pytest.approx(0.5, abs=0.04)


def test_csv_and_npz_say_the_same(folder: Path) -> None:
    data = example()
    names = ",".join(str(j) for j in range(10))
    labelled = np.column_stack([data.val_logits, data.val_labels])
    form = ["%.9g"] * 10 + ["%d"]
    np.savetxt(folder / "v.csv", labelled, form, ",", header=names + ",label", comments="")
    done = run("fit", "v.csv", "--output", "csv.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    by_csv, by_npz = (SourceProfile.load(folder / f"{name}.json") for name in ("csv", "profile"))
    np.testing.assert_allclose(by_csv.soft_prior, by_npz.soft_prior, rtol=1e-6)
    np.testing.assert_array_equal(by_csv.validation.hard, by_npz.validation.hard)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["fit", "none.npz"], "none.npz: no such file"),
        (["fit", "today.npz"], "no labels; add an array 'labels'"),
        (["fit", "odd.txt"], "files of type '.txt' are unknown"),
        (["fit", "broken.npz"], "not a readable .npz file"),
        (["fit", "other.npz"], "no array 'scores'; found x"),
        (["fit", "bad.csv"], "bad.csv: could not convert string 'x'"),
        (["fit", "narrow.csv"], "the header names 1 classes"),
        (["estimate", "today.npz", "--profile", "none.json"], "none.json: no such file"),
        (["estimate", "nan.npz"], "row 1: the score of class '0' is nan"),
        (["estimate", "wide.csv"], "no column for class '0'; the profile's classes are 0, 1"),
        (["fit", "renamed.npz"], "not a readable .npz file"),
        (["fit", "flat.npz"], "is no batch of rows"),
        (["fit", "named.npz"], "'classes' is not a list of names"),
        (["fit", "latin.csv"], "not UTF-8 text"),
        (["fit", "header.csv"], "no row below the header"),
        (["fit", "validation.npz", "--output", "nowhere/p.json"], "there is no folder nowhere"),
    ],
)
def test_bad_data_are_one_line_and_exit_code_1(
    folder: Path, arguments: list[str], says: str
) -> None:
    (folder / "odd.txt").write_text("x")
    (folder / "broken.npz").write_bytes(b"PK not really")
    np.savez(folder / "other.npz", x=np.zeros(3))
    (folder / "bad.csv").write_text("a,b,label\n1,x,a\n")
    (folder / "narrow.csv").write_text("a,label\n1,a\n")
    (folder / "wide.csv").write_text("a,b\n1,2\n")
    with (folder / "renamed.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    np.savez(folder / "flat.npz", scores=np.float64(1), labels=np.zeros(1))
    np.savez(folder / "named.npz", scores=np.eye(2), labels=[0, 1], classes="ab")
    (folder / "latin.csv").write_bytes("a,b,label\n1,2,é\n".encode("latin-1"))
    (folder / "header.csv").write_text("a,b,label\n")
    spoilt = example().test_logits[:3].copy()
    spoilt[1, 0] = np.nan
    np.savez(folder / "nan.npz", scores=spoilt)
    done = run(*arguments, cwd=folder)
    assert done.returncode == 1
    assert done.stdout == ""
    assert says in done.stderr.replace("\n", "")
    assert "Traceback" not in done.stderr


def test_bad_rows_can_be_left_out(folder: Path) -> None:
    spoilt = example().test_logits[:300].copy()
    spoilt[[1, 7], 0] = np.nan
    np.savez(folder / "some.npz", scores=spoilt)
    done = run("estimate", "some.npz", "--skip-bad", "--json", cwd=folder)
    assert json.loads(done.stdout)["n"] == 298
    assert json.loads(done.stdout)["bad"] == 2
    assert done.returncode == 1
    assert "2 bad rows left out; row 1" in done.stderr


@pytest.mark.parametrize("arguments", [["fit"], ["fit", "x", "--kind", "odds"], ["nonsense"]])
def test_wrong_usage_is_exit_code_2(tmp_path: Path, arguments: list[Any]) -> None:
    assert run(*arguments, cwd=tmp_path).returncode == 2


def test_class_names_are_data(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = ["[/b]", ":fox_face:", "C#"]
    labels = rng.integers(3, size=90)
    scores = 2.0 * np.eye(3)[labels] + rng.normal(size=(90, 3))
    lines = [",".join(names) + ",label"]
    for row, label in zip(scores, labels, strict=True):
        lines.append(",".join(map(str, row)) + "," + names[label])
    (tmp_path / "v.csv").write_text("\ufeff" + "\n".join(lines), encoding="utf-8")
    done = run("fit", "v.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    np.savez(tmp_path / "s.npz", scores=scores)
    done = run("estimate", "s.npz", cwd=tmp_path)
    for name in names:
        assert name in done.stdout


def test_every_kind_of_file_fits_the_same_profile(folder: Path) -> None:
    data = example()
    names = [f"c{j}" for j in range(10)]
    logits = data.val_logits.astype(float)
    labels = [names[label] for label in data.val_labels]
    columns = {name: logits[:, j] for j, name in enumerate(names)}
    times = np.arange(len(labels)) * 1.0
    pq.write_table(pa.table({"id": times, **columns, "truth": labels}), folder / "v.parquet")
    pq.write_table(pa.table({"scores": logits.tolist(), "label": labels}), folder / "l.parquet")
    rows = [dict(zip(names, row, strict=True)) for row in logits.tolist()]
    events = [
        json.dumps({"scores": row, "label": label}) for row, label in zip(rows, labels, strict=True)
    ]
    (folder / "v.jsonl").write_text("\n".join([*events, ""]))
    np.savez(folder / "n.npz", scores=logits, labels=labels, classes=names)
    chosen = ["--classes", ",".join(names)]
    made = [
        ["fit", "v.parquet", "--label", "truth", "--output", "1.json"],
        ["fit", "l.parquet", *chosen, "--output", "2.json"],
        ["fit", "v.jsonl", "--output", "3.json"],
        ["fit", "n.npz", "--output", "4.json"],
    ]
    for arguments in made:
        done = run(*arguments, cwd=folder)
        assert done.returncode == 0, done.stderr
        assert arguments[1] in done.stderr
    prints = {SourceProfile.load(folder / f"{i}.json").fingerprint for i in (1, 2, 3, 4)}
    assert len(prints) == 1


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.jsonl", "{", "a.jsonl: line 1: not a JSON object"),
        ("b.jsonl", '{"score": [1]}', "line 1: no field 'scores'; found score"),
        ("c.jsonl", "", "no events in it"),
        ("d.jsonl", '{"scores": [1, 2]}', "no labels; add"),
        ("e.jsonl", '{"scores": [1, 2], "label": 0}\n{"scores": [1, 2]}', "1 lines have no field"),
        (
            "f.csv",
            "a,b,comment,label\n1,2,fine,a\n",
            "columns read as scores are a, b, comment",
        ),
    ],
)
def test_unusable_files_to_fit(folder: Path, name: str, content: str, says: str) -> None:
    (folder / name).write_text(content)
    done = run("fit", name, cwd=folder)
    assert done.returncode == 1
    assert says in done.stderr


def test_estimate_reads_what_watch_reads(folder: Path) -> None:
    logits = example().draw([0.5, *[0.5 / 9] * 9], 2000).astype(float)
    names = [str(j) for j in range(10)]
    events = [json.dumps({"scores": row}) for row in logits.tolist()]
    (folder / "t.jsonl").write_text("\n".join([*events, "oops", ""]))
    columns = {name: logits[:, j] for j, name in reversed(list(enumerate(names)))}
    pq.write_table(pa.table({"comment": ["x"] * 2000, **columns}), folder / "t.parquet")
    wanted = json.loads(run("estimate", "today.npz", "--json", cwd=folder).stdout)
    found = run("estimate", "t.parquet", "--json", cwd=folder)
    assert json.loads(found.stdout) == wanted
    found = run("estimate", "t.jsonl", "--json", cwd=folder)
    assert found.returncode == 1
    assert "t.jsonl: line 2001: not JSON" in found.stderr
    found = run("estimate", "t.jsonl", "--json", "--skip-bad", cwd=folder)
    assert json.loads(found.stdout) == wanted | {"bad": 1}
    assert found.returncode == 1


def test_demo_data_can_be_used(tmp_path: Path) -> None:
    assert run("demo", "data", "files", cwd=tmp_path).returncode == 0
    first = {path.name: path.read_bytes() for path in (tmp_path / "files").iterdir()}
    assert run("demo", "data", "files", cwd=tmp_path).returncode == 0
    assert first == {path.name: path.read_bytes() for path in (tmp_path / "files").iterdir()}
    (tmp_path / "taken").write_text("")
    done = run("demo", "data", "taken", cwd=tmp_path)
    assert done.returncode == 1
    assert "taken: cannot be written" in done.stderr


def verbs(group: Any, *before: str) -> Iterator[tuple[str, ...]]:
    for name, verb in group.commands.items():
        yield from verbs(verb, *before, name) if hasattr(verb, "commands") else [(*before, name)]


@pytest.mark.parametrize("verb", list(verbs(typer.main.get_command(app))), ids=" ".join)
def test_help_reads_well_on_a_narrow_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = run(*verb, "--help", cwd=tmp_path).stdout
    assert "Example: " in text
    assert "[default: (" not in text
    assert re.findall(r"[a-zA-Z0-9]… *│", text) == []  # words too long for their column
    above = text.partition("╭")[0].split(" Usage: ")[1]
    paragraphs = [each.splitlines() for each in re.split(r"\n\s*\n", above.strip())]
    for lines in paragraphs[1:]:
        # A line ends where the next word would not fit, and nowhere else.
        for line, after in pairwise(lines):
            assert len(line.strip()) + len(after.split()[0]) >= 76, (line, after)


def options(verb: Any) -> Iterator[Any]:
    for inner in getattr(verb, "commands", {}).values():
        yield from options(inner)
        yield from (each for each in inner.params if each.param_type_name == "option")


def test_every_option_teaches_with_an_example_and_shows_all_of_its_text() -> None:
    found = list(options(typer.main.get_command(app)))
    assert len(found) > 100
    for option in found:
        assert "Example: " in option.help, option.opts
        # Rich would take [kafka] for markup, and print nothing.
        assert Text.from_markup(option.help).plain == option.help, option.opts
    for verb in app.registered_commands:
        text = verb.help or ""
        assert Text.from_markup(text).plain == text
