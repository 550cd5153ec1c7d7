"""The alarm's wager: what betting against "no change" wins, event by event."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from stream_leip._kernels.fast import FAST
from stream_leip._kernels.likelihood import rest_rate
from stream_leip._kernels.shares import ODDS, SIDES, bet_on_shares


class Wager(NamedTuple):
    """What betting against "no change" has won; kernels change it in place. Empty for no alarm.

    The bet is what the mixture predicts without the source expert; beside it there are bets on the
    share of each group (see `shares`). Classes may be grouped; a group is bet on as one, with the
    source's proportions inside.

    Parameters
    ----------
    groups
        The group of each class.
    source
        The source prior of each group.
    null
        The mix that "no change" means, by group.
    won
        The sum over events of log x·bet / x·null.
    hits
        The sum of bet ∘ x / x·bet.
    fixed, slope
        What a bet on a share is worth if an event gives the group nothing, and what a share of one
        adds; sides × odds × groups, as all that follow.
    pane
        What these have won since the last pane's end, as a factor.
    values
        What they have won up to it, over all starts, each by its worth.
    best, since
        What they have won since the start that is best, and when it was, in panes.
    """

    groups: Any
    source: Any
    null: Any
    won: Any
    hits: Any
    fixed: Any
    slope: Any
    pane: Any
    values: Any
    best: Any
    since: Any


def fresh_wager(groups: Any, source: Any) -> Wager:
    """A wager of which the null is still to be said."""
    shape = SIDES, len(ODDS), len(source)
    fixed, slope, pane, values, best = np.ones((5, *shape))
    return Wager(
        groups, source, source.copy(), np.zeros(1), np.zeros(len(source)), fixed, slope, pane,
        values, best, np.zeros(shape, np.int64),
    )  # fmt: skip


def no_wager() -> Wager:
    """For streams without an alarm."""
    return fresh_wager(np.empty(0, np.int64), np.empty(0))


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def bet_on(wager, rows, bet):
    """Bet on rows against the null."""
    groups = wager.null.size
    if groups == 0:
        return
    n, m = rows.shape
    staked = np.zeros(groups)
    for j in range(m):
        staked[wager.groups[j]] += bet[j]
    hit = np.empty(groups)
    share = np.empty(groups)
    for e in range(n):
        hit[:] = 0.0
        for j in range(m):
            hit[wager.groups[j]] += rows[e, j]
        by_bet = 0.0
        by_null = 0.0
        for g in range(groups):
            x = hit[g] / wager.source[g]
            share[g] = x * wager.null[g]
            by_null += share[g]
            hit[g] = x * staked[g]
            by_bet += hit[g]
        wager.won[0] += np.log(by_bet / by_null)
        scale = 1.0 / by_bet
        for g in range(groups):
            wager.hits[g] += hit[g] * scale
        share /= by_null
        bet_on_shares(wager, share)


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def bet_on_entries(wager, rows, classes, source, bet):
    """The same for rows that keep their largest entries only."""
    groups = wager.null.size
    if groups == 0:
        return
    staked = np.zeros(groups)
    for j in range(source.size):
        staked[wager.groups[j]] += bet[j]
    hit = np.empty(groups)
    share = np.empty(groups)
    for e in range(rows.shape[0]):
        rate = rest_rate(rows, classes, source, e)
        for g in range(groups):
            hit[g] = rate
        for h in range(rows.shape[1]):
            c = classes[e, h]
            g = wager.groups[c]
            hit[g] += (rows[e, h] - rate * source[c]) / wager.source[g]
        by_bet = 0.0
        by_null = 0.0
        for g in range(groups):
            share[g] = hit[g] * wager.null[g]
            by_null += share[g]
            hit[g] *= staked[g]
            by_bet += hit[g]
        wager.won[0] += np.log(by_bet / by_null)
        for g in range(groups):
            wager.hits[g] += hit[g] / by_bet
        share /= by_null
        bet_on_shares(wager, share)
