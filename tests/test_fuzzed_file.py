"""100,000 lines that are no events among good ones: none of either kind goes astray."""

import json
from pathlib import Path

import numpy as np
from stream_leip_connectors.events import Fields

from stream_leip import Monitor, Tumbling
from tests.commands import run
from tests.strategies import make_profile
from tests.test_events import slowly

GOOD, FUZZED = 50_000, 100_000
PIECES = [
    b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\", b"\\u", b"null", b"NaN", b"1e999", b"-", b"0",
    b"\xff", b"\xc3", b"\x00", b"\r", b"\t", b" ", b"true", b'"scores"', b"{}", b'"time":', b"c0",
]  # fmt: skip


def fuzz(line: bytes, rng: np.random.Generator) -> bytes:
    """A line with a few of its bytes exchanged, taken out or added to, or cut, or doubled."""
    kind = rng.integers(8)
    if kind == 0:
        return line[: rng.integers(1, len(line))]
    if kind == 1:
        return line + line
    if kind == 2:
        return rng.bytes(int(rng.integers(1, 60))).replace(b"\n", b"")
    spoilt = bytearray(line)
    for _ in range(rng.integers(1, 4)):
        place = int(rng.integers(len(spoilt)))
        piece = PIECES[rng.integers(len(PIECES))] if kind < 6 else rng.bytes(1)
        spoilt[place : place + int(rng.integers(0, 3))] = piece.replace(b"\n", b"")
    return bytes(spoilt)


def is_row(row: list[float]) -> bool:
    return min(row) >= 0 and abs(sum(row) - 1.0) <= 1e-3


def test_every_good_event_is_counted_and_every_bad_line_kept(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    profile = make_profile(np.array([0.5, 0.3, 0.2]))
    profile.save(tmp_path / "profile.json")
    rows = rng.dirichlet([0.4, 0.4, 0.4], GOOD)
    good = [json.dumps({"id": i, "scores": row}).encode() for i, row in enumerate(rows.tolist())]
    fuzzed = [fuzz(good[i], rng) for i in rng.integers(GOOD, size=FUZZED)]
    lines = [*good, *fuzzed]
    # The order of the good ones stays.
    order = np.argsort(np.r_[np.sort(rng.random(GOOD)), rng.random(FUZZED)], kind="stable")
    lines = [lines[i] for i in order]
    (tmp_path / "p.jsonl").write_bytes(b"\n".join([*lines, b""]))

    done = run("watch", "p.jsonl", "--dead-letters", "bad.jsonl", "--window", "5000", cwd=tmp_path)

    bad: list[int] = []
    taken: list[list[float]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        event = slowly(line, Fields(), "probabilities")
        if event is not None and is_row(event[0]):
            taken.append(event[0])
        else:
            bad.append(number)
    assert len(bad) > 0.8 * FUZZED
    letters = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_bytes().splitlines()]
    assert [letter["line"] for letter in letters] == bad
    assert all(letter["reason"] for letter in letters)
    assert "Traceback" not in done.stderr
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"{len(bad):,} lines of p.jsonl could not be used")
    updates = [json.loads(line) for line in done.stdout.splitlines()]
    wanted = [each.to_dict() for each in Monitor(profile, Tumbling(count=5000)).update_many(taken)]
    assert len(updates) == len(wanted) == len(taken) // 5000
    for ours, theirs in zip(updates, wanted, strict=True):
        assert (ours["first"], ours["last"]) == (theirs["first"], theirs["last"])
        np.testing.assert_allclose(ours["prior"], theirs["prior"], atol=1e-12)
