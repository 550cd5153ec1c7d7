"""What the alarm's promise rests on."""

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_leip import EM, fit_profile
from stream_leip._kernels import shares
from stream_leip._kernels.mixture import PANE
from stream_leip._kernels.wager import Wager, bet_on, fresh_wager
from stream_leip.alarm import Alarm
from stream_leip.tracker import Tracker
from tests.data import load, validation

SOURCE = np.array([0.5, 0.3, 0.15, 0.05])
ROWS = 400


def wager() -> Wager:
    """Against a null that 400 sure rows were the evidence of."""
    found = fresh_wager(np.arange(4), SOURCE)
    Alarm(0.05, found, SOURCE, (np.diag(SOURCE) - np.outer(SOURCE, SOURCE)) / ROWS, ROWS)
    return found


def test_a_bet_on_a_share_is_fair_at_the_end_of_what_is_open() -> None:
    bets = wager()
    ratio = 1.0 + bets.slope / bets.fixed
    np.testing.assert_allclose(np.log(ratio[0]), shares.ODDS[:, None] * np.ones(4))
    np.testing.assert_allclose(np.log(ratio[1]), -shares.ODDS[:, None] * np.ones(4))
    ends = (1.0 - bets.fixed) / bets.slope
    for side in ends:
        np.testing.assert_allclose(side, side[:1].repeat(3, axis=0))
    low, high = ends[1, 0], ends[0, 0]
    assert (low < SOURCE).all()
    assert (high > SOURCE).all()
    # The score interval: as many deviations off, by the variance at the end.
    for end in (low, high):
        rows = 1.0 / (1.0 / ROWS + 0.5 / ROWS**2 / (SOURCE * (1.0 - SOURCE)))
        deviations = np.abs(end - SOURCE) / np.sqrt(end * (1.0 - end) / rows)
        np.testing.assert_allclose(deviations, 2.807, atol=1e-3)  # 0.4 · 5 % over 8 ends


def test_bets_are_summed_over_a_start_at_each_pane() -> None:
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(20 * np.array([0.3, 0.4, 0.2, 0.1]), 8 * PANE)
    bets = wager()
    got = []
    for pane, part in enumerate(np.split(rows, 8)):
        bet_on(bets, part.astype(np.float32), SOURCE)
        got.append(shares.log_shares(bets, pane + 1))
    factors = bets.fixed + bets.slope * rows[:, None, None, :].astype(np.float32)
    by_pane = factors.reshape(8, PANE, *factors.shape[1:]).prod(axis=1)
    worth = -np.diff(1.0 / np.log2(np.arange(2, 11)))
    expected = [
        sum(worth[start] * by_pane[start:end].prod(axis=0) for start in range(end)).mean()
        for end in range(1, 9)
    ]
    np.testing.assert_allclose(np.exp(got), expected, rtol=1e-5)
    best = np.stack([by_pane[start:].prod(axis=0) for start in range(8)])
    np.testing.assert_allclose(bets.best, best.max(axis=0), rtol=1e-5)
    np.testing.assert_array_equal(bets.since, best.argmax(axis=0))


def drawn(prior: list[float], n: int, rng: np.random.Generator) -> NDArray[np.float32]:
    data = load("mnist_mlp")
    weight = np.array(prior)[data["test_labels"].astype(np.int64)]
    logits: NDArray[np.float32] = data["test_logits"][
        rng.choice(len(weight), n, p=weight / weight.sum())
    ]
    return logits


@pytest.mark.parametrize("top_k", [None, 4])
def test_a_null_after_a_change_is_made_anew_of_twice_the_rows(top_k: int | None) -> None:
    rng = np.random.default_rng(1)
    profile = fit_profile(*validation("mnist_mlp", 2000))
    rows = profile.rows(
        np.concatenate([drawn([0.1] * 10, 1000, rng), drawn([0.55] + [0.05] * 9, 6000, rng)])
    )
    whole = Tracker(profile, EM(), 0.05, top_k)
    whole.follow(rows)
    parts = Tracker(profile, EM(), 0.05, top_k)
    known = []
    for part in np.split(rows, np.sort(rng.integers(len(rows), size=60))):
        parts.follow(part)
        assert parts.alarm is not None
        known.append(parts.alarm.known)
    assert whole.alarm is not None
    assert parts.alarm is not None
    np.testing.assert_array_equal(whole.alarm.null, parts.alarm.null)
    assert not whole.alarm.raised
    assert whole.alarm.known == parts.alarm.known >= 3000
    assert set(known) == {2000, *(whole.alarm.known // 2**k for k in (1, 0))}
    assert whole.alarm.nulls == 3
    again = Tracker(profile, EM(), 0.05, top_k)
    again.restore(whole.snapshot())
    more = drawn([0.55] + [0.05] * 9, 5000, rng)
    for each in (whole, again):
        each.follow(profile.rows(more))
    assert again.alarm is not None
    assert again.alarm.nulls == whole.alarm.nulls == 4
    np.testing.assert_array_equal(again.alarm.null, whole.alarm.null)
