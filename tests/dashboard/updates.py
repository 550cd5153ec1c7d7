"""Updates to show, as monitors write them, and files that they are written to."""

from pathlib import Path
from typing import Any

import msgspec

CLASSES = ("cat", "dog", "fox")
NASTY_KEY = "<script>document.title='owned'</script>"
NASTY_CLASS = "<img src=x onerror=alert(1)>"


def update(
    number: int,
    prior: tuple[float, ...] = (0.5, 0.3, 0.2),
    key: str | None = None,
    classes: tuple[str, ...] = CLASSES,
    raised: bool = False,
    **more: Any,
) -> dict[str, Any]:
    """An update after so many thousand events, from a source with equal shares."""
    m = len(classes)
    moved = [{"class": classes[0], "direction": "up", "deviations": 4.0}]
    return {
        "schema": 1,
        "sequence": number,
        "first": 0,
        "last": 1000 * (number + 1) - 1,
        "start": None,
        "end": None,
        "n": 1000,
        "classes": list(classes),
        "estimator": "EM",
        "reason": "it did best",
        "prior": list(prior),
        "low": [max(0.0, each - 0.02) for each in prior],
        "high": [min(1.0, each + 0.02) for each in prior],
        "weights": [m * each for each in prior],
        "threshold": 0.7,
        "confident": [900.0 * each for each in prior],
        "buffered": 100,
        "bad": 7,
        "late": 3,
        "thinned": 0,
        "key": key,
        "memory": 4321.0,
        "changed_at": 500 if raised else None,
        "alarm": {
            "value": 9.0 if raised else 1.0,
            "threshold": 4.4,
            "warning": raised,
            "raised": raised,
            "since": 500 if raised else None,
            "classes": moved if raised else [],
        },
        "check": {"p": 0.4, "flagged": False, "validation_share": 0.1, "message": "nothing odd"},
        **more,
    }


def encode(*updates: dict[str, Any]) -> list[bytes]:
    return [msgspec.json.encode(each) for each in updates]


def append(path: Path, *updates: dict[str, Any]) -> None:
    with path.open("ab") as file:
        file.write(b"".join(line + b"\n" for line in encode(*updates)))
