"""The class mix as one of River's running statistics."""

from collections.abc import Iterator
from typing import Any

from river import stats

from stream_leip import Estimator, SourceProfile
from stream_leip._kernels.mixture import PANE
from stream_leip.windows import Window
from stream_leip_connectors.river.choosing import check_profile, example_profile
from stream_leip_connectors.river.memory import open_memory
from stream_leip_connectors.river.reading import Inlet

# Nobody asks for the mix at every pane, and several at once are cheaper than one by one: so many
# bytes of scores wait, or one pane.
_WAITING = 1 << 18


class PriorTracker(stats.base.Statistic[dict[str, float]]):
    """The class mix of a stream of posteriors: `update`, then `get`.

    Parameters
    ----------
    profile
        The source, from `fit_profile`.
    window
        `Adaptive()`, which None stands for, looks back as far as the past still tells about the
        present, and has a new mix every 50 events. `Tumbling`, `Sliding` and `Fading` by count
        have the mix of what is in the window now. "all" has that of all that was updated and not
        reverted: with it there is `revert`, and `river.utils.Rolling` says how much is held.
    estimator
        "auto", "LEIP", "EM", or an estimator.

    Examples
    --------
    >>> import numpy as np
    >>> from river import utils
    >>> from stream_leip import fit_profile
    >>> from stream_leip_connectors.river import PriorTracker
    >>> rng = np.random.default_rng(0)
    >>> def draw(labels):
    ...     odds = np.exp(4.0 * np.eye(2)[labels] + rng.normal(size=(len(labels), 2)))
    ...     return odds / odds.sum(axis=1, keepdims=True)
    >>> known = rng.integers(2, size=500)
    >>> profile = fit_profile(draw(known), known, ["no", "yes"], kind="probabilities")
    >>> shifted = draw((rng.random(2000) < 0.9).astype(int))
    >>> tracker = PriorTracker(profile)
    >>> for no, yes in shifted:
    ...     tracker.update({"no": no, "yes": yes})
    >>> tracker
    PriorTracker: yes 0.900, no 0.100

    Over the last 500 events:

    >>> last = utils.Rolling(PriorTracker, window_size=500, profile=profile, window="all")
    >>> for row in shifted:
    ...     last.update(row)
    >>> round(last.get()["yes"], 2)
    0.91
    """

    def __init__(
        self,
        profile: SourceProfile,
        window: Window | str | None = None,
        estimator: str | Estimator = "auto",
    ) -> None:
        check_profile(profile)
        self.profile = profile
        self.window = window
        self.estimator = estimator
        self._inlet = Inlet(profile, max(1, _WAITING // (8 * PANE * len(profile.classes))))
        self._memory = open_memory(profile, window, estimator)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"profile": example_profile()}

    @property
    def name(self) -> str:
        """The name that River shows."""
        return "priortracker"

    def update(self, x: Any) -> None:
        """Take a posterior: a dict by class, or a score for each class, of the profile's kind."""
        rows = self._inlet.take(x)
        if rows is not None:
            self._memory.take(rows)

    def update_many(self, X: Any) -> None:
        """Take many: an array or lists with a line for each, or a data frame."""
        self._memory.take(self._inlet.take_many(X))

    def revert(self, x: Any) -> None:
        """Forget a posterior that was updated before; for `window="all"`.

        Raises
        ------
        InputError
            If the window forgets on its own, or the posterior was never updated.
        """
        row = self._inlet.row(x)
        self._tell()
        self._memory.revert(row)

    def get(self) -> dict[str, float]:
        """The share of each class; the source's before the first pane."""
        self._tell()
        return dict(zip(self.profile.classes, self._memory.prior().tolist(), strict=True))

    def _tell(self) -> None:
        """Tell the memory what it needs to know before it is asked."""
        inlet = self._inlet
        rows = inlet.drain_panes() if self._memory.by_pane else inlet.drain()
        if len(rows):
            self._memory.take(rows)

    def __repr__(self) -> str:
        shares = sorted(self.get().items(), key=lambda each: -each[1])
        more = ", …" if len(shares) > 5 else ""
        mix = ", ".join(f"{name} {share:.3f}" for name, share in shares[:5])
        return f"{type(self).__name__}: {mix}{more}"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_memory": self._memory.snapshot()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._memory = open_memory(self.profile, self.window, self.estimator)
        self._memory.restore(state["_memory"])
