"""`watch` on states, inputs and outputs that fail: clear errors, the previous state kept."""

import os
import resource
import subprocess
from pathlib import Path

import numpy as np
import pytest
from stream_leip_connectors.files import example

from stream_leip import fit_profile
from tests.commands import COMMAND, run
from tests.test_watch import write
from tests.watches import EVENTS, LOGITS, WINDOWS, N, fitted, start, undisturbed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fitted().save(tmp_path / "profile.json")
    return tmp_path


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


def test_a_state_in_no_folder_leaves_outputs_alone(folder: Path) -> None:
    write(folder / "p.jsonl", EVENTS)
    (folder / "o").write_text("of yesterday")
    done = run("watch", "p.jsonl", "--output", "o", "--state", "nowhere/s", cwd=folder)
    assert done.returncode == 1
    assert "nowhere/s: there is no folder nowhere; make it first" in done.stderr
    assert (folder / "o").read_text() == "of yesterday"


@pytest.mark.parametrize(
    "arguments",
    [
        ["watch", "p.jsonl", "--state", "device"],
        ["fit", "labelled.csv", "--output", "device"],
        ["report", "updates.jsonl", "--output", "device"],
    ],
)
def test_a_device_is_never_replaced(folder: Path, arguments: list[str]) -> None:
    (folder / "device").symlink_to("/dev/full")
    write(folder / "p.jsonl", EVENTS)
    rows = [f"{','.join(map(str, row))},{i % 10}" for i, row in enumerate(LOGITS[:400].tolist())]
    heading = ",".join([*map(str, range(10)), "label"])
    (folder / "labelled.csv").write_text("\n".join([heading, *rows]))
    run("watch", "p.jsonl", "--output", "updates.jsonl", *WINDOWS["count"], cwd=folder)
    done = run(*arguments, cwd=folder)
    assert done.returncode in (1, 2)
    assert "device" in done.stderr
    assert "Traceback" not in done.stderr
    assert (folder / "device").is_symlink()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["watch", "p.jsonl", "--output", "./p.jsonl"], "--output: p.jsonl is the input already"),
        (["watch", "p.jsonl", "--output", "link"], "--output: link is the input already"),
        (["watch", "p.jsonl", "--state", "profile.json"], "--state: profile.json is --profile"),
        (["watch", "p.jsonl", "--output", "o", "--dead-letters", "o"], "o is --output already"),
        (["fit", "p.jsonl", "--output", "p.jsonl"], "p.jsonl is the input already"),
        (["report", "p.jsonl", "--output", "p.jsonl"], "p.jsonl is the input already"),
        (["replay", "--updates", "r", "--report", "r"], "--updates: r is --report already"),
    ],
)
def test_one_file_does_not_serve_two_uses(folder: Path, arguments: list[str], says: str) -> None:
    write(folder / "p.jsonl", EVENTS)
    (folder / "link").symlink_to("p.jsonl")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    done = run(*arguments, cwd=folder)
    assert done.returncode == 2
    assert says in done.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_all_outputs_may_go_nowhere(folder: Path) -> None:
    write(folder / "p.jsonl", EVENTS)
    options = ["--output", os.devnull, "--dead-letters", os.devnull]
    assert run("watch", "p.jsonl", *options, cwd=folder).returncode == 1  # two lines are bad


@pytest.mark.parametrize(("closed", "name"), [("<&-", "stdin"), (">&-", "stdout")])
def test_streams_that_are_closed_are_named(folder: Path, closed: str, name: str) -> None:
    write(folder / "p.jsonl", EVENTS)
    file = "" if name == "stdin" else "p.jsonl"
    done = subprocess.run(
        ["bash", "-c", f'"{COMMAND}" watch {file} {closed}'],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {name}: it is closed; ")
    assert done.stderr.count("\n") == 1
