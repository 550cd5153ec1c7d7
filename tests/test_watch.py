"""`stream-leip watch`: what comes out, against a monitor fed by hand."""

import io
import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from stream_leip_connectors.files import example
from stream_leip_connectors.live import classes_table, keys_table

from stream_leip import Fading, KeyedMonitor, Monitor, Sliding, SourceProfile, Tumbling, fit_profile
from tests.commands import COMMAND, Done, run

N = 3000
LOGITS = example().draw([0.3, *[0.7 / 9] * 9], N).astype(np.float64)
TIMES = 1.7e9 + np.arange(N) * 0.5
KEYS = [("north", "south", "west")[i % 7 % 3] for i in range(N)]
NAMES = [str(j) for j in range(10)]


@pytest.fixture(scope="module")
def profile() -> SourceProfile:
    data = example()
    return fit_profile(data.val_logits, data.val_labels)


@pytest.fixture
def folder(tmp_path: Path, profile: SourceProfile) -> Path:
    profile.save(tmp_path / "profile.json")
    return tmp_path


def lines(**fields: Sequence[Any]) -> list[bytes]:
    """JSON events, of fields with a value for each."""
    names = list(fields)
    each = zip(*fields.values(), strict=True)
    return [json.dumps(dict(zip(names, values, strict=True))).encode() for values in each]


def write(path: Path, events: list[bytes]) -> Path:
    path.write_bytes(b"\n".join([*events, b""]))
    return path


def found(done: Done) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def wanted(updates: list[Any]) -> list[dict[str, Any]]:
    return [json.loads(json.dumps(update.to_dict())) for update in updates]


def parquet(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path, row_group_size=700)
    return path


def csv(path: Path, header: str, *columns: Sequence[Any]) -> Path:
    rows = [",".join(map(str, row)) for row in zip(*columns, strict=True)]
    path.write_text("\n".join([header, *rows, ""]))
    return path


def inputs(folder: Path) -> Iterator[Path]:
    """The same events in every format."""
    listed = LOGITS.tolist()
    by_name = [dict(zip(NAMES, row, strict=True)) for row in listed]
    header = ",".join(["id", *NAMES[::-1], "time"])
    yield write(folder / "list.jsonl", lines(scores=listed, time=TIMES.tolist()))
    yield write(folder / "named.jsonl", lines(time=TIMES.tolist(), logits=by_name))
    flat = lines(
        **{name: LOGITS[:, j].tolist() for j, name in enumerate(NAMES)}, time=TIMES.tolist()
    )
    yield write(folder / "flat.jsonl", flat)
    backwards = [LOGITS[:, j].tolist() for j in range(9, -1, -1)]
    yield csv(folder / "s.csv", header, range(N), *backwards, TIMES.tolist())
    np.savez(folder / "s.npz", scores=LOGITS, times=TIMES)
    yield folder / "s.npz"
    yield parquet(folder / "list.parquet", time=TIMES, scores=listed)
    columns = {name: LOGITS[:, j] for j, name in enumerate(NAMES)}
    stamps = pa.array((TIMES * 1e6).astype(np.int64)).cast(pa.timestamp("us", tz="Europe/Berlin"))
    yield parquet(folder / "s.parquet", timestamp=stamps, **columns)


def test_every_format_gives_the_updates_of_a_monitor(folder: Path, profile: SourceProfile) -> None:
    updates = wanted(Monitor(profile, Tumbling(count=700)).update_many(LOGITS, TIMES))
    for path in inputs(folder):
        done = run("watch", path, "--window", "tumbling 700", cwd=folder)
        assert done.returncode == 0, done.stderr
        assert found(done) == updates, path
        assert "3,000 events, 4 updates" in done.stderr
        assert "now: update 4: 200 rows" in done.stderr


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
@pytest.mark.parametrize(("mark", "end"), [(b"\xef\xbb\xbf", b"\n"), (b"", b"\r\n")])
def test_marks_and_line_ends_of_other_systems(
    folder: Path, profile: SourceProfile, kind: str, mark: bytes, end: bytes
) -> None:
    if kind == "csv":
        rows = [",".join(NAMES), *(",".join(map(str, row)) for row in LOGITS.tolist())]
        events = [row.encode() for row in rows]
    else:
        events = lines(scores=LOGITS.tolist())
    (folder / f"s.{kind}").write_bytes(mark + end.join([*events, b"oops", b""]))
    options = ["--window", "tumbling 700", "--dead-letters", "bad.jsonl"]
    done = run("watch", f"s.{kind}", *options, cwd=folder)
    assert found(done) == wanted(Monitor(profile, Tumbling(count=700)).update_many(LOGITS))
    (letter,) = (folder / "bad.jsonl").read_bytes().splitlines()
    assert json.loads(letter)["line"] == len(events) + 1


def test_raw_rows_in_a_file(folder: Path, profile: SourceProfile) -> None:
    rows = LOGITS.astype("<f4")
    (folder / "s.f32").write_bytes(rows.tobytes() + b"abc")
    done = run("watch", "s.f32", "--dead-letters", "bad.jsonl", cwd=folder)
    assert found(done) == wanted(Monitor(profile).update_many(rows))
    assert done.returncode == 1
    letter = json.loads((folder / "bad.jsonl").read_text())
    assert (letter["row"], letter["text"]) == (3000, "abc")
    assert "3 bytes, not 40" in letter["reason"]


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("sliding 1000 every 250", Sliding(count=1000, every=250)),
        ("tumbling 60s", Tumbling(seconds=60)),
        ("sliding 5m every 1m lateness 2s", Sliding(seconds=300, every=60, lateness=2)),
        ("fading 500", Fading(500)),
    ],
)
def test_every_window(folder: Path, profile: SourceProfile, text: str, window: Any) -> None:
    path = write(folder / "p.jsonl", lines(scores=LOGITS.tolist(), time=TIMES.tolist()))
    done = run("watch", path, "--window", text, "--estimator", "LEIP", cwd=folder)
    monitor = Monitor(profile, window, "LEIP")
    assert found(done) == wanted(monitor.update_many(LOGITS, TIMES))
    assert len(found(done)) > 2


@pytest.mark.parametrize("kind", ["jsonl", "csv", "npz", "parquet"])
def test_a_stream_for_each_key(folder: Path, profile: SourceProfile, kind: str) -> None:
    path = folder / f"keyed.{kind}"
    columns = {name: LOGITS[:, j].tolist() for j, name in enumerate(NAMES)}
    if kind == "jsonl":
        write(path, lines(scores=LOGITS.tolist(), shop=KEYS))
    elif kind == "csv":
        csv(path, ",".join([*NAMES, "shop"]), *columns.values(), KEYS)
    elif kind == "npz":
        np.savez(path, scores=LOGITS, shop=KEYS)
    else:
        parquet(path, **columns, shop=KEYS)
    done = run("watch", path, "--key", "shop", "--window", "300", cwd=folder)
    keyed = KeyedMonitor(profile, Tumbling(count=300))
    assert found(done) == wanted(keyed.update_many(KEYS, LOGITS))
    assert "a stream for each 'shop'" in done.stderr
    assert "3 keys" in done.stderr


def test_fields_are_found_and_named(folder: Path) -> None:
    events = lines(probs=LOGITS.tolist(), timestamp=TIMES.tolist(), key=KEYS, id=range(N))
    done = run("watch", write(folder / "p.jsonl", events), cwd=folder)
    assert "scores in 'probs', time in 'timestamp', a stream for each 'key'" in done.stderr
    done = run("watch", "p.jsonl", "--key", "none", "--time", "none", cwd=folder)
    assert "scores in 'probs', no time, one stream" in done.stderr


@pytest.mark.parametrize(
    ("event", "arguments", "code", "says"),
    [
        ({"a": [1, 2], "b": "x"}, [], 1, "found a (list of 2), b (text). Name the field"),
        ({"a": [1] * 10, "b": [1] * 10}, [], 1, "2 fields could be the scores"),
        ({"scores": [1] * 10}, ["--scores", "s"], 2, "there is no field 's'; found scores"),
        ({"scores": [1] * 10}, ["--key", "shop"], 2, "there is no field or column 'shop'"),
        ({"scores": [1] * 10}, ["--window", "60s"], 1, "goes by event time, but the events have"),
        ({"scores": [1] * 10}, ["--window", "often"], 2, "Windows read like"),
        ({"scores": [1] * 10}, ["--estimator", "x"], 2, "(from --estimator)"),
        ({"scores": [1] * 10}, ["--format", "xml"], 2, "format: 'xml'"),
        ({"scores": [1] * 10}, ["--format", "parquet", "-f"], 2, "only be read from a whole file"),
        ([1], [], 1, "an event is an object, not list of 1"),
    ],
)
def test_unclear_input_says_what_was_found(
    folder: Path, event: Any, arguments: list[str], code: int, says: str
) -> None:
    path = write(folder / "p.jsonl", [json.dumps(event).encode()])
    done = run("watch", path, *arguments, cwd=folder)
    assert says in done.stderr.replace("\n", " ")
    assert done.returncode == code
    assert done.stdout == ""


def test_unclear_tables_say_what_was_found(folder: Path) -> None:
    csv(folder / "p.csv", "a,b", [1], [2])
    done = run("watch", "p.csv", cwd=folder)
    assert "p.csv: no column for class '0'" in done.stderr
    assert "the columns found are a, b" in done.stderr
    parquet(folder / "p.parquet", **{name: ["x"] for name in NAMES})
    assert "column '0' does not hold numbers" in run("watch", "p.parquet", cwd=folder).stderr
    stamps = pa.array([0]).cast(pa.timestamp("us"))
    parquet(folder / "z.parquet", time=stamps, **{name: [0.5] for name in NAMES})
    assert "column 'time' has no time zone" in run("watch", "z.parquet", cwd=folder).stderr
    (folder / "q.parquet").write_bytes(b"PAR1 no")
    assert "not a readable Parquet file" in run("watch", "q.parquet", cwd=folder).stderr


def test_a_missing_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet(folder / "p.parquet", **{name: [0.5] for name in NAMES})
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    done = run("watch", "p.parquet", cwd=folder)
    assert done.returncode == 1
    assert "need the extra 'files': pip install 'stream-leip[files]'" in done.stderr


def test_bad_lines_are_counted_where_they_stand(folder: Path, profile: SourceProfile) -> None:
    """An update says how many bad events came before it, however the file is cut into blocks."""
    rows: list[Any] = LOGITS.tolist()
    rows[100] = rows[699] = [1.0]
    rows[1500] = ["x"] * 10
    path = write(folder / "p.jsonl", lines(scores=rows))
    done = run("watch", path, "--window", "700", "--dead-letters", "bad.jsonl", cwd=folder)
    monitor = Monitor(profile, Tumbling(count=700), on_bad="skip")
    updates = [update for row in rows for update in monitor.update(row)]
    assert found(done) == wanted(updates)
    assert [update["bad"] for update in found(done)] == [2, 2, 3, 3]
    letters = [json.loads(line) for line in (folder / "bad.jsonl").read_text().splitlines()]
    assert [letter["line"] for letter in letters] == [101, 700, 1501]
    assert json.loads(letters[0]["text"]) == {"scores": [1.0]}
    assert letters[0]["source"] == str(path)
    assert done.returncode == 1
    assert "3 lines of" in done.stderr
    assert "(they are in bad.jsonl); the first: line 101: not an event" in done.stderr


def test_scores_that_the_gate_refuses_are_dead_letters(folder: Path) -> None:
    data = example()
    shares = np.exp(data.val_logits) / np.exp(data.val_logits).sum(axis=1, keepdims=True)
    fit_profile(shares, data.val_labels, kind="probabilities").save(folder / "p.json")
    rows = shares[:200].tolist()
    rows[7][0] += 0.5
    rows[9] = [-0.5, 1.5, *[0.0] * 8]
    for keys in ({}, {"key": ["a", "b"] * 100}):
        path = write(folder / "p.jsonl", lines(scores=rows, **keys))
        done = run(
            "watch", path, "--profile", "p.json", "--dead-letters", "bad.jsonl", "--window", "90",
            cwd=folder,
        )  # fmt: skip
        letters = [json.loads(line) for line in (folder / "bad.jsonl").read_text().splitlines()]
        assert [letter["line"] for letter in letters] == [8, 10]
        assert "the probabilities sum to" in letters[0]["reason"]
        assert "below zero" in letters[1]["reason"]
        assert done.returncode == 1
        assert max(update["bad"] for update in found(done)) == 2


@pytest.mark.parametrize("keyed", [False, True])
def test_late_events_are_counted_and_kept(folder: Path, keyed: bool) -> None:
    times = TIMES.copy()
    late = [500, 900, 1200]
    times[late] -= 200
    spoilt: list[Any] = LOGITS.tolist()
    spoilt[300] = spoilt[901] = None
    keys = {"key": KEYS} if keyed else {}
    path = write(folder / "p.jsonl", lines(scores=spoilt, time=times.tolist(), **keys))
    done = run("watch", path, "--window", "60s", "--dead-letters", "bad.jsonl", cwd=folder)
    letters = [json.loads(line) for line in (folder / "bad.jsonl").read_text().splitlines()]
    lines_of_late = [each["line"] for each in letters if "too late" in each["reason"]]
    assert lines_of_late == [place + 1 for place in late]
    assert [each["line"] for each in letters] == [301, 501, 901, 902, 1201]
    assert "2 bad, 3 late" in done.stderr


@pytest.mark.parametrize("block", [1, 700, 5000])
def test_the_size_of_blocks_does_not_matter(
    folder: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    rows: list[Any] = LOGITS[:800].tolist()
    rows[3] = rows[500] = None
    write(folder / "p.jsonl", [b"", b"x", *lines(scores=rows, key=KEYS[:800])])
    table = [",".join(map(str, row)) for row in LOGITS[:800].tolist()]
    (folder / "p.csv").write_text("\n".join([",".join(NAMES), *table[:9], "", "1,2", *table[9:]]))
    wide = {}
    for name in ("p.jsonl", "p.csv"):
        wide[name] = run("watch", name, "--window", "90", "--dead-letters", "b", cwd=folder)
        wide[name + " bad"] = Done(0, (folder / "b").read_text(), "")
    monkeypatch.setattr("stream_leip_connectors.sources.BLOCK", block)
    for name in ("p.jsonl", "p.csv"):
        done = run("watch", name, "--window", "90", "--dead-letters", "b", cwd=folder)
        assert done == wide[name]
        assert (folder / "b").read_text() == wide[name + " bad"].stdout


def test_a_named_pipe_is_read(folder: Path, profile: SourceProfile) -> None:
    write(folder / "p.jsonl", lines(scores=LOGITS.tolist()))
    command = f"{COMMAND} watch <(cat p.jsonl)"
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == len(Monitor(profile).update_many(LOGITS))


def test_a_terminal_gets_a_live_table(folder: Path) -> None:
    """On a terminal of its own: the table is drawn on stderr, and stdout stays data."""
    for name, events in {
        "p.jsonl": lines(scores=LOGITS.tolist()),
        "k.jsonl": lines(scores=LOGITS.tolist(), key=KEYS),
    }.items():
        write(folder / name, events)
        master, slave = pty.openpty()
        process = subprocess.Popen(
            [COMMAND, "watch", name, "-f", "--window", "500", "--output", "o"],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=slave,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
        )
        os.close(slave)
        drawn = b""
        end = time.monotonic() + 60
        wanted_words = [b"3,000 events", b"events/s", b"mix now" if name[0] == "k" else b"source"]
        while not all(word in drawn for word in wanted_words) and time.monotonic() < end:
            drawn += os.read(master, 65536)
        process.send_signal(signal.SIGINT)
        while True:
            try:
                drawn += os.read(master, 65536)
            except OSError:
                break
        out, _ = process.communicate(timeout=60)
        os.close(master)
        assert process.returncode == 0
        assert out == b""
        assert all(word in drawn for word in wanted_words), drawn.decode()


def test_live_tables_say_the_mix_and_the_alarm(profile: SourceProfile) -> None:
    data = example()
    monitor = KeyedMonitor(profile)
    monitor.update_many(["shop"] * 3000, data.draw([0.1] * 10, n=3000, seed=1))
    updates = monitor.update_many(["shop"] * 200, data.draw([*[0.01] * 9, 0.91], n=200, seed=2))
    update = next(each for each in updates if (each.alarm or {})["raised"])
    assert str(update).endswith(f": {update.mix_words}; {update.alarm_words}")
    assert update.prior is not None
    for table, mix in (
        (keys_table([update]), update.mix_words),
        (classes_table(update, profile), f"{update.prior[9]:.3f}"),
    ):
        drawn = io.StringIO()
        Console(width=160, file=drawn).print(table)
        assert "alarm: changed at event 3000 (9 up" in drawn.getvalue()
        assert mix in drawn.getvalue()


def test_stdin_is_read_to_its_end(folder: Path, profile: SourceProfile) -> None:
    events = b"\n".join(lines(scores=LOGITS.tolist()))
    done = piped(folder, events, "watch")
    assert found(done) == wanted(Monitor(profile).update_many(LOGITS))
    assert "event 2999, memory" in done.stderr


def piped(folder: Path, data: bytes, *arguments: str) -> Done:
    """Run the command in a process of its own, with these bytes on stdin."""
    done = subprocess.run(
        [COMMAND, *arguments], cwd=folder, input=data, capture_output=True, check=False
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())
