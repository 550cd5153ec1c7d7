"""Bets on the share of one group at a time: that it is above, or below, all that the null allows.

A row gives a group the posterior q under the null. Where the mean of q is at most c, the product
of (1 - a·c) + a·q, a > 0, is a supermartingale; a < 0 does for means of at least c. c is an end of
the interval that the null leaves open, so that no mix has to be sought that explains the winnings.
"""

from typing import Any

import numpy as np
from numba import njit

from stream_leip._kernels.fast import FAST

SIDES = 2
# Logarithms of the odds by which a group is bet to be beyond the end of its interval.
ODDS = np.array([0.4, 0.8, 1.6])
_MOST = 1e100


def place(wager: Any, low: Any, high: Any) -> None:
    """Set what is bet, up from the upper ends and down from the lower."""
    for side, (end, sign) in enumerate(((high, 1.0), (low, -1.0))):
        ratio = np.exp(sign * ODDS)[:, None]
        wager.fixed[side] = 1.0 / (1.0 - end + end * ratio)
        wager.slope[side] = wager.fixed[side] * (ratio - 1.0)


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def bet_on_shares(wager, share):
    """Multiply by what an event is worth to each bet; `share` is its posterior under the null."""
    for side in range(SIDES):
        for k in range(ODDS.size):
            for g in range(share.size):
                wager.pane[side, k, g] *= (
                    wager.fixed[side, k, g] + wager.slope[side, k, g] * share[g]
                )


@njit(cache=True, error_model="numpy", fastmath=False)
def log_shares(wager, panes):
    """End a pane, the so-manieth; log of the mean of all bets, over all starts.

    There is a start at each pane's beginning. Its worth is what 1 / log2 falls by from one to the
    next, so that all together have a worth of one.
    """
    worth = 1.0 / np.log2(panes + 1.0) - 1.0 / np.log2(panes + 2.0)
    total = 0.0
    for side in range(SIDES):
        for k in range(ODDS.size):
            for g in range(wager.pane.shape[2]):
                won = wager.pane[side, k, g]
                wager.pane[side, k, g] = 1.0
                value = min((wager.values[side, k, g] + worth) * won, _MOST)
                wager.values[side, k, g] = value
                total += value
                if wager.best[side, k, g] < 1.0:
                    wager.best[side, k, g] = 1.0
                    wager.since[side, k, g] = panes - 1
                wager.best[side, k, g] = min(wager.best[side, k, g] * won, _MOST)
    return np.log(total / wager.pane.size)
