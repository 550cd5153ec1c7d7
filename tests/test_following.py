"""`watch --follow`: logs that grow, are rotated, or are cut short."""

import signal
import subprocess
import time
from pathlib import Path

import pytest
from stream_leip_connectors.sources import FileSource

from tests.test_watch import write
from tests.watches import EVENTS, LOGITS, fitted, start, wait_for_lines, wait_for_state


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fitted().save(tmp_path / "profile.json")
    return tmp_path


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


def test_a_log_that_is_emptied_and_gone_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(b"one\n")
    source = FileSource(path, follow=True)
    assert source.read() == b"one\n"
    path.write_bytes(b"")
    path.unlink()
    assert source.read() == b""
    path.write_bytes(b"two\n")
    assert source.read() == b""  # opened anew
    assert source.read() == b"two\n"
    source.close()


def test_a_log_emptied_in_the_middle_of_its_first_line(folder: Path) -> None:
    path = folder / "p.jsonl"
    path.write_bytes(EVENTS[0][:150])
    options = ["--window", "500", "--key", "none", "--output", "o.jsonl", "--state", "s"]
    process = start(folder, "p.jsonl", "-f", *options, stderr=subprocess.PIPE)
    wait_for_state(folder / "s")
    time.sleep(0.5)
    path.write_bytes(b"")
    time.sleep(0.5)
    with path.open("ab") as file:
        file.write(b"\n".join([*EVENTS[1000:1500], b""]))
    wait_for_lines(folder / "o.jsonl", 1)
    process.send_signal(signal.SIGINT)
    _, says = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"501 events, 1 update, 1 bad" in says
