"""Events and runs of `watch` that several tests share."""

import functools
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
from stream_leip_connectors.files import example

from stream_leip import SourceProfile, fit_profile
from tests.commands import COMMAND
from tests.test_watch import lines, write

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


@functools.cache
def fitted() -> SourceProfile:
    data = example()
    return fit_profile(data.val_logits, data.val_labels)


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
