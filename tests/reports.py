"""Replays whose updates carry every field, and their reports."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from stream_leip_connectors.report import History, write_report

from stream_leip import (
    Monitor,
    Sliding,
    Tumbling,
    Update,
)
from stream_leip.replay import Constant, Jumps, Pool, ReplayResult, Sudden, replay
from tests.strategies import make_profile

NASTY = [
    "<script>alert(1)</script>",
    "</script><b>bold</b>",
    "$$x^2$$",
    "@y {{ &amp; \"'",
    "naïve · 类",
]


class Dressed(Monitor):
    """A monitor whose updates carry every field that an update may have."""

    def update_many(self, scores: Any, times: Any = None) -> list[Update]:
        return [dress(update) for update in super().update_many(scores, times)]


def dress(update: Update) -> Update:
    assert update.prior is not None
    spread = 2.0 * np.sqrt(update.prior * (1.0 - update.prior) / update.n)
    value = float(np.exp(40.0 * (update.prior.max() - 1.0 / len(update.prior)) ** 2))
    return replace(
        update,
        low=np.maximum(0.0, update.prior - spread),
        high=np.minimum(1.0, update.prior + spread),
        memory=float(update.n),
        alarm={"value": value, "threshold": 5.0, "raised": value > 5, "warning": value > 3},
        check={
            "p": 0.4,
            "flagged": False,
            "validation_share": 0.1,
            "message": "<i>All is well.</i>",
        },
    )


def simulate(m: int, names: list[str] | None = None, n: int = 8000) -> ReplayResult:
    rng = np.random.default_rng(m)
    labels = np.concatenate([np.arange(m).repeat(4), rng.integers(m, size=600)])
    odds = np.exp(5.0 * np.eye(m)[labels] + rng.normal(size=(len(labels), m)))
    scores = odds / odds.sum(axis=1, keepdims=True)
    profile = make_profile(np.full(m, 1.0 / m))
    if names is not None:
        profile = replace(profile, classes=tuple(names))
    monitors = {
        "dressed": Dressed(profile, Sliding(count=1000, every=200), "EM"),
        "<b>plain</b>": Monitor(profile, Tumbling(count=1000), "EM", level=None, check=False),
    }
    schedule = Constant().then(Sudden(to={0: 0.6}, at=0)).then(Jumps(pieces=2))
    return replay(monitors, Pool(scores, labels), schedule, n)


def written(history: History, folder: Path, name: str = "report.html") -> Path:
    path = folder / name
    write_report(history, path)
    return path


def lines_of(result: ReplayResult, *dropped: str) -> list[bytes]:
    return [
        msgspec.json.encode({k: v for k, v in each.items() if k not in dropped})
        for each in result.records()
    ]
