"""A tracker's panes, one after another: judge the experts, renew the rungs, ask the alarm.

All of a pane is in one kernel, and as many panes in one call as nobody has to be told about:
handing a tracker's arrays over takes as long as some of the work.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from stream_leip._kernels.alarm import add_start, log_values
from stream_leip._kernels.joint import take_sparse
from stream_leip._kernels.labels import INDEX, rank, rank_sparse
from stream_leip._kernels.ladder import renew
from stream_leip._kernels.mixture import PANE, end_pane, take
from stream_leip._kernels.shares import log_shares


class Limits(NamedTuple):
    """What the alarm's wager may win before somebody has to look.

    Parameters
    ----------
    origin
        After how many events the wager began.
    spread, radii
        See `log_values`.
    warning, threshold
        Of the warning and of the alarm, as logarithms.
    """

    origin: int
    spread: Any
    radii: Any
    warning: float
    threshold: float


@njit(cache=True, error_model="numpy", fastmath=False)
def follow(
    mixture, ladder, wager, starts, limits, rows, bits, classes, keys, labels, first, size, panes,
    reach, how, source,
):  # fmt: skip
    """Take panes of `size` rows each, the last of `rows`; the first row here is event `first`.

    `bits` is `rows` seen as int32. `starts` have no room where the alarm is not asked. Returns how
    many panes were taken and what `log_values` gave for the last; if that is worth a look, the
    alarm has the pane still to take.
    """
    values = np.empty((2, 0))
    proven = likely = -np.inf
    for pane in range(panes):
        end = rows.shape[0] - size * (panes - 1 - pane)
        part = slice(end - size, end)
        if classes.size > 0:
            take_sparse(mixture, wager, rows[part], classes[part], source)
        else:
            take(mixture, wager, rows[part], source)
        if classes.size > 0:
            rank_sparse(rows[part], classes[part], keys[part], labels[part])
        else:
            rank(rows[part], bits[part], keys[part], labels[part])
        for i in range(end - size, end):
            keys[i] &= ~INDEX
        renew(ladder, rows[:end], classes[:end], keys[:end], labels[:end], first, reach, how)
        end_pane(mixture, ladder.priors, ladder.sizes, source)
        if starts.panes.size > 0:
            age = (first + end - limits.origin) // PANE
            values, proven, likely = log_values(
                starts, age, PANE, wager, limits.spread, limits.radii, limits.warning
            )
            proven = np.logaddexp(proven, log_shares(wager, age)) - np.log(2.0)
            if likely >= limits.warning or proven >= limits.threshold:
                return pane + 1, values, proven, likely
            add_start(starts, age, wager.won, wager.hits)
    return panes, values, proven, likely
