"""`watch --state`: a run that stops and resumes gives what one gives that never stopped."""

import json
import os
import resource
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stream_leip_connectors.files import example

from stream_leip import SourceProfile, fit_profile
from tests.commands import COMMAND, run
from tests.test_watch import lines, parquet, write

N = 6000
LOGITS = example().draw([0.3, *[0.7 / 9] * 9], N, seed=3)
TIMES = (1.7e9 + np.arange(N) * 0.5).tolist()
KEYS = [("north", "south", "west")[i % 7 % 3] for i in range(N)]
SPOILT: list[Any] = LOGITS.tolist()
SPOILT[77] = SPOILT[4000] = None
EVENTS = lines(scores=SPOILT, time=TIMES, key=KEYS)
WINDOWS = {
    "count": ["--window", "sliding 600 every 200", "--key", "none"],
    "time": ["--window", "sliding 5m every 1m lateness 3s", "--key", "none"],
    "keyed": ["--window", "tumbling 150"],
    "adaptive": ["--window", "adaptive every 200", "--key", "none"],
}


@pytest.fixture(scope="module")
def profile() -> SourceProfile:
    data = example()
    return fit_profile(data.val_logits, data.val_labels)


@pytest.fixture
def folder(tmp_path: Path, profile: SourceProfile) -> Path:
    profile.save(tmp_path / "profile.json")
    return tmp_path


def undisturbed(folder: Path, arguments: list[str]) -> str:
    whole = write(folder / "whole.jsonl", EVENTS)
    # A process like those compared with it: last digits were seen to differ from this one's.
    command = [str(COMMAND), "watch", str(whole), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr  # two lines are bad
    printed: str = done.stdout
    return printed


def start(folder: Path, *arguments: str, **streams: Any) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([COMMAND, "watch", *arguments], cwd=folder, **streams)


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


def test_a_csv_is_followed_with_a_state(folder: Path) -> None:
    names = ",".join(str(j) for j in range(10))
    rows = [",".join(map(str, row)) for row in LOGITS[:2000].tolist()]
    path = folder / "p.csv"
    path.write_text("\n".join([names, *rows[:1200], rows[1200][:11]]))
    process = start(folder, "p.csv", "-f", "--state", "s", "--output", "o", stderr=subprocess.PIPE)
    wait_for_lines(folder / "o", 1)
    time.sleep(0.5)
    path.rename(folder / "p.csv.1")
    path.write_text("\n".join([names, *rows[1201:], ""]))
    end = time.monotonic() + 60
    while (folder / "o").read_bytes().count(b"\n") < 1 and time.monotonic() < end:
        time.sleep(0.1)
    time.sleep(1.0)
    process.send_signal(signal.SIGTERM)
    _, says = process.communicate(timeout=60)
    assert process.returncode == 0
    # The line that was cut when the file went is bad; all others count.
    assert b"2,000 events, 3 updates, 1 bad" in says


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


@pytest.fixture
def kept(folder: Path) -> Path:
    """A folder with a state of the first half."""
    write(folder / "p.jsonl", EVENTS[: N // 2])
    done = run("watch", "p.jsonl", "--state", "s", *WINDOWS["count"], cwd=folder)
    assert done.returncode == 1
    return folder


def refused(folder: Path, *arguments: str, code: int = 1) -> str:
    """The error of a run with a state; the state is as it was."""
    before = (folder / "s").read_bytes()
    done = run("watch", *arguments, "--state", "s", cwd=folder)
    assert done.returncode == code
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert (folder / "s").read_bytes() == before
    assert not (folder / "s.partial").exists()
    return done.stderr


def test_a_state_is_bound_to_what_made_it(kept: Path) -> None:
    count = WINDOWS["count"]
    other_window = refused(kept, "p.jsonl", "--key", "none", code=2)
    assert "made with window Sliding(count=600" in other_window
    by_em = refused(kept, "p.jsonl", *count, "--estimator", "EM", code=2)
    assert "estimator auto, not EM" in by_em
    capped = refused(kept, "p.jsonl", *count, "--max-rows", "900", code=2)
    assert "made with max_rows unset, not 900" in capped
    assert "made with --key none, not key" in refused(kept, "p.jsonl", *count[:2], "--key", "key")
    np.savez(kept / "p.npz", scores=LOGITS)
    assert "of jsonl from a file, not of npz" in refused(kept, "p.npz", *count)
    other = example()
    fit_profile(other.val_logits[:1500], other.val_labels[:1500]).save(kept / "other.json")
    says = refused(kept, "p.jsonl", *count, "--profile", "other.json")
    assert "s: the state of profile" in says
    assert "use the profile it was made with, or another --state" in says


def test_a_file_cut_short_or_exchanged_is_refused(kept: Path) -> None:
    write(kept / "p.jsonl", EVENTS[:100])
    assert "were read of it before; it was cut short" in refused(kept, "p.jsonl", *WINDOWS["count"])
    write(kept / "p.jsonl", EVENTS[::-1])
    assert "is not the file that was read before" in refused(kept, "p.jsonl", *WINDOWS["count"])


@pytest.mark.parametrize("keep", [0, 5, 40, -1])
def test_a_damaged_state_is_refused(kept: Path, keep: int) -> None:
    data = (kept / "s").read_bytes()
    (kept / "s").write_bytes(data[:keep])
    says = refused(kept, "p.jsonl", *WINDOWS["count"])
    assert "error: s: " in says
    assert "Bring back a whole one, or remove it to begin anew" in says


def test_outputs_that_are_gone_are_missed(folder: Path) -> None:
    write(folder / "p.jsonl", EVENTS[: N // 2])
    options = ["p.jsonl", "--output", "o", *WINDOWS["count"]]
    run("watch", *options, "--state", "s", cwd=folder)
    whole = (folder / "o").read_bytes()
    (folder / "o").write_bytes(whole[:-10])
    assert "were written to it before" in refused(folder, *options)
    (folder / "o").unlink()
    assert "o: has 0 bytes, but" in refused(folder, *options)


def test_a_state_that_cannot_be_written_keeps_the_previous_one(kept: Path) -> None:
    """A disk that is full, played by a limit on the size of files."""
    before = (kept / "s").read_bytes()
    write(kept / "p.jsonl", EVENTS)
    command = [str(COMMAND), "watch", "p.jsonl", "--state", "s", *WINDOWS["count"]]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    done = subprocess.run(
        command, cwd=kept, capture_output=True, text=True, check=False, preexec_fn=limit
    )
    assert done.returncode == 1
    assert "error: s: cannot be written: File too large; the previous one is kept" in done.stderr
    assert "Traceback" not in done.stderr
    assert (kept / "s").read_bytes() == before
    assert not (kept / "s.partial").exists()
    other = run("watch", "p.jsonl", "--state", "nowhere/s", *WINDOWS["count"], cwd=kept)
    assert other.returncode == 1
    assert other.stdout == ""
    assert "nowhere/s: cannot be written: No such file or directory" in other.stderr


@pytest.mark.parametrize("option", ["--output", "--dead-letters", None])
def test_a_full_disk_under_the_outputs(folder: Path, option: str | None) -> None:
    write(folder / "p.jsonl", EVENTS)
    command = [str(COMMAND), "watch", "p.jsonl", "--state", "s", *WINDOWS["count"]]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*command, *([option, "/dev/full"] if option else [])],
            cwd=folder,
            stdout=full if option is None else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
    says = done.stderr.decode()
    assert done.returncode == 1
    assert "cannot be written: No space left on device" in says
    assert "Traceback" not in says
    resumed = run("watch", "p.jsonl", "--state", "s", *WINDOWS["count"], cwd=folder)
    assert resumed.stdout == undisturbed(folder, WINDOWS["count"])


def test_a_reader_that_goes_away_ends_it(folder: Path) -> None:
    write(folder / "p.jsonl", EVENTS)
    reading, writing = os.pipe()
    os.close(reading)
    process = start(folder, "p.jsonl", *WINDOWS["count"], stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    _, says = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"stdout: its reader has gone" in says
    assert b"Exception" not in says


def test_a_rotated_log_is_followed(folder: Path) -> None:
    path = folder / "p.jsonl"
    write(path, EVENTS[:1000])
    options = ["--window", "500", "--key", "none", "--output", "o.jsonl"]
    process = start(folder, "p.jsonl", "-f", *options, stderr=subprocess.PIPE)
    wait_for_lines(folder / "o.jsonl", 1)
    path.rename(folder / "p.jsonl.1")
    write(path, EVENTS[1000:1800])
    wait_for_lines(folder / "o.jsonl", 3)
    path.write_bytes(b"")
    time.sleep(0.5)
    with path.open("ab") as file:
        file.write(b"\n".join([*EVENTS[1800:2600], b""]))
    wait_for_lines(folder / "o.jsonl", 5)
    process.send_signal(signal.SIGINT)
    _, says = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"2,600 events, 5 updates, 1 bad" in says


def wait_for_state(path: Path) -> None:
    """Wait until a command that has just been started has written its state once."""
    before = path.stat().st_ino if path.exists() else None
    end = time.monotonic() + 60
    while not path.exists() or path.stat().st_ino == before:
        assert time.monotonic() < end, f"{path} was not written"
        time.sleep(0.01)


def wait_for_lines(path: Path, n: int) -> None:
    end = time.monotonic() + 60
    while not path.exists() or path.read_bytes().count(b"\n") < n:
        assert time.monotonic() < end, f"{path} has no {n} lines"
        time.sleep(0.05)
