"""`watch --state`: a run that stops and resumes gives what one gives that never stopped."""

import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tests.commands import run
from tests.test_watch import parquet
from tests.watches import (
    EVENTS,
    LOGITS,
    WINDOWS,
    N,
    fitted,
    start,
    undisturbed,
    wait_for_state,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fitted().save(tmp_path / "profile.json")
    return tmp_path


@pytest.mark.parametrize("window", WINDOWS)
def test_a_file_in_parts(folder: Path, window: str) -> None:
    """Each run finds more of the file, cut wherever, and goes on where the last one ended."""
    whole = b"\n".join([*EVENTS, b""])
    rng = np.random.default_rng(5)
    cuts = [*sorted(rng.integers(0, len(whole), 6).tolist()), len(whole)]
    printed = ""
    for cut in cuts:
        (folder / "p.jsonl").write_bytes(whole[:cut])
        done = run("watch", "p.jsonl", "--state", "s", *WINDOWS[window], cwd=folder)
        assert "Traceback" not in done.stderr
        printed += done.stdout
    assert printed == undisturbed(folder, WINDOWS[window])


@pytest.mark.parametrize("window", WINDOWS)
def test_sigterm_at_random_moments(folder: Path, window: str) -> None:
    """A real process follows a file that grows in odd pieces, and is ended again and again."""
    expected = undisturbed(folder, WINDOWS[window])
    path = folder / "growing.jsonl"
    path.touch()
    whole = b"\n".join([*EVENTS, b""])
    rng = np.random.default_rng(11)

    def grow() -> None:
        cuts = sorted(rng.integers(0, len(whole), 60).tolist())
        with path.open("ab", buffering=0) as file:
            for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
                file.write(whole[begin:end])
                time.sleep(0.1)

    growing = threading.Thread(target=grow)
    printed = b""
    options = ["--state", "s", "--state-every", "0.2", "-f", *WINDOWS[window]]
    for turn in range(3):
        process = start(folder, "growing.jsonl", *options, stdout=subprocess.PIPE)
        wait_for_state(folder / "s")
        if turn == 0:
            growing.start()
        time.sleep(float(rng.uniform(0.0, 2.0)))
        process.send_signal(signal.SIGTERM)
        part, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        printed += part
    assert printed, "ended before anything was read; let the file grow for longer"
    growing.join()
    done = run("watch", "growing.jsonl", *options[:4], *WINDOWS[window], cwd=folder)
    assert printed.decode() + done.stdout == expected


@pytest.mark.slow
@pytest.mark.parametrize("window", WINDOWS)
def test_kill_at_random_moments_with_an_output_file(folder: Path, window: str) -> None:
    """Without a chance to finish, too: what was written after the last state is taken back."""
    expected = undisturbed(folder, WINDOWS[window])
    letters = ["--dead-letters", "bad.jsonl"]
    path = folder / "growing.jsonl"
    path.touch()
    whole = b"\n".join([*EVENTS, b""])
    rng = np.random.default_rng(12)

    def grow() -> None:
        with path.open("ab", buffering=0) as file:
            for begin in range(0, len(whole), 8000):
                file.write(whole[begin : begin + 8000])
                time.sleep(0.1)

    growing = threading.Thread(target=grow)
    options = ["--state", "s", "--state-every", "0.3", "--output", "o.jsonl", *letters]
    for turn in range(8):
        process = start(folder, "growing.jsonl", *options, "-f", *WINDOWS[window])
        wait_for_state(folder / "s")
        if turn == 0:
            growing.start()
        time.sleep(float(rng.uniform(0.0, 2.0)))
        process.kill()
        process.wait(timeout=60)
    growing.join()
    run("watch", "growing.jsonl", *options, *WINDOWS[window], cwd=folder)
    assert (folder / "o.jsonl").read_text() == expected
    dead = [json.loads(line)["line"] for line in (folder / "bad.jsonl").read_text().splitlines()]
    assert dead == [78, 4001]


def test_a_pipe_goes_on_in_the_middle_of_a_line(folder: Path) -> None:
    expected = undisturbed(folder, WINDOWS["count"])
    whole = b"\n".join([*EVENTS, b""])
    reading, writing = os.pipe()
    options = ["--state", "s", *WINDOWS["count"]]
    printed = b""
    half = len(whole) // 2 + 17
    for part, last in ((whole[:half], False), (whole[half:], True)):
        process = start(folder, *options, stdin=reading, stdout=subprocess.PIPE)
        _write_all(writing, part)
        if last:
            os.close(writing)
        else:
            time.sleep(1.0)
            process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
        assert process.returncode == (1 if last else 0)
        printed += out
    os.close(reading)
    assert printed.decode() == expected


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


@pytest.mark.parametrize("kind", ["csv", "npz", "parquet", "f32"])
def test_other_formats_resume_too(folder: Path, kind: str) -> None:
    """A longer file of the same beginning is read from where the shorter one ended."""
    names = [str(j) for j in range(10)]

    def put(n: int) -> None:
        path = folder / f"p.{kind}"
        if kind == "csv":
            rows = [",".join(map(str, row)) for row in LOGITS[:n].tolist()]
            path.write_text("\n".join([",".join(names), *rows, ""]))
        elif kind == "npz":
            np.savez(path, scores=LOGITS[:n])
        elif kind == "f32":
            path.write_bytes(LOGITS[:n].astype("<f4").tobytes())
        else:
            parquet(path, **{name: LOGITS[:n, j] for j, name in enumerate(names)})

    printed = ""
    for n in (0, 1, 950, 2100, N) if kind != "parquet" else (1, 950, 2100, N):
        put(n)
        done = run("watch", f"p.{kind}", "--state", "s", cwd=folder)
        assert done.returncode == 0, done.stderr
        printed += done.stdout
    assert printed == run("watch", f"p.{kind}", cwd=folder).stdout


@pytest.mark.parametrize("kind", ["csv", "f32"])
def test_tables_that_grow_in_odd_pieces(folder: Path, kind: str) -> None:
    names = [str(j) for j in range(10)]
    rows = [",".join(map(str, row)) for row in LOGITS.tolist()]
    whole = "\n".join([",".join(names), *rows, ""]).encode()
    if kind == "f32":
        whole = LOGITS.astype("<f4").tobytes()
    printed = ""
    path = folder / f"p.{kind}"
    for cut in (0, 7, 60, 61, 100_003, 200_001, len(whole)):
        path.write_bytes(whole[:cut])
        done = run("watch", path, "--state", "s", cwd=folder)
        assert done.returncode == 0, done.stderr
        printed += done.stdout
    assert printed == run("watch", path, cwd=folder).stdout
    assert printed.count("\n") >= N // 1000  # one more whenever the alarm changes


def test_an_unfinished_line_is_left_for_the_next_run(folder: Path) -> None:
    path = folder / "p.jsonl"
    path.write_bytes(b"\n".join(EVENTS[:50]) + b"\n" + EVENTS[50][:40])
    done = run("watch", path, "--state", "s", "--key", "none", cwd=folder)
    assert "its last line is not finished; it is left for the next run" in done.stderr
    assert "50 events" in done.stderr
    assert done.returncode == 0
    path.write_bytes(b"\n".join(EVENTS[:60]))
    done = run("watch", path, "--state", "s", "--key", "none", cwd=folder)
    assert "60 events" in done.stderr
    assert "not finished" not in done.stderr
