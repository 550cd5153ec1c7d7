"""What every task is made with, and whose a task is."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stream_leip import KeyedMonitor, Monitor, SourceProfile
from stream_leip.settings import from_plain
from stream_leip.windows import Window

_ROWS = 100  # two panes


@dataclass(frozen=True)
class Blueprint:
    """What the monitors of every task are made with.

    Parameters
    ----------
    profile, window, estimator
        As for `KeyedMonitor`.
    options
        Other arguments of `KeyedMonitor`.
    """

    profile: SourceProfile
    window: Window
    estimator: Any = "auto"
    options: dict[str, Any] = field(default_factory=dict)

    def make(self, **callbacks: Any) -> KeyedMonitor:
        """Monitors for a task."""
        return KeyedMonitor(
            self.profile, self.window, self.estimator, on_bad="skip", **self.options, **callbacks
        )

    def warm_up(self) -> None:
        """Load the compiled kernels: that takes seconds, in which a member answers nobody."""
        rows = np.random.default_rng(0).dirichlet(np.ones(len(self.profile.classes)), _ROWS)
        scores = np.log(rows) if self.profile.kind == "logits" else rows
        keyed = self.make()
        keyed.update_many([""] * _ROWS, scores, np.arange(float(_ROWS)))
        keyed.estimate("")

    def settings(self) -> dict[str, Any]:
        """What it was made with, as plain values."""
        return {
            **Monitor(self.profile, self.window, self.estimator, **self._of_one).settings(),
            "on_bad": "skip",
            "max_keys": self.options.get("max_keys"),
        }

    @property
    def _of_one(self) -> dict[str, Any]:
        return {name: value for name, value in self.options.items() if name != "max_keys"}

    @classmethod
    def of(cls, profile: SourceProfile, settings: dict[str, Any]) -> "Blueprint":
        """The blueprint that gave these settings."""
        options = {name: value for name, value in settings.items() if name != "on_bad"}
        window = from_plain("window", options.pop("window"))
        return cls(profile, window, from_plain("estimator", options.pop("estimator")), options)


@dataclass(frozen=True)
class Identity:
    """Whose a task is: the group, the input topic with its partitions, and which one this is.

    Where a topic has several models, `model` is the one whose events it takes.
    """

    application: str
    topic: str
    partitions: int
    partition: int
    model: str = ""
