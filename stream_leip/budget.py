"""How many rows each of many keys may keep within a budget of bytes."""

from bisect import bisect_right
from dataclasses import replace

from stream_leip._kernels.mixture import PANE
from stream_leip.errors import InputError
from stream_leip.tracker import longest_rung, most_bytes
from stream_leip.windows import Adaptive, Layout, Window

# What a key takes beside its window, measured: a monitor, its name in two dictionaries.
_BYTES_A_KEY = 2000
# Allocators leave gaps, about so much of all.
_GAPS = 0.06


def rows_within(
    budget: int, keys: int | None, window: Window, layout: Layout, *, alarm: bool
) -> int:
    """How many rows each key may keep so that all of them fit the budget."""
    if keys is None:
        raise InputError(f"max_bytes: {budget!r} needs max_keys, to know how many share it")

    tracked = alarm or isinstance(window, Adaptive)

    def bytes_with(rows: int) -> int:
        own = _BYTES_A_KEY + 12 * layout.m
        if tracked:
            own += most_bytes(layout.m, layout.top_k, rows)
        if not isinstance(window, Adaptive):
            takes = getattr(window.open(replace(layout, max_rows=rows)), "most_bytes", None)
            if takes is None:
                raise InputError(
                    f"max_bytes: {window!r} does not say what it takes; cap its rows with max_rows"
                )
            own += takes
        return int(keys * own * (1.0 + _GAPS))

    fewest = PANE if tracked else 1
    least = bytes_with(fewest)
    if budget < least:
        raise InputError(
            f"max_bytes: {budget!r} is too little for {keys} keys; use {least} or more"
        )
    most = 2**40 if layout.max_rows is None else layout.max_rows
    found = min(most, fewest - 1 + bisect_right(range(fewest, most + 1), budget, key=bytes_with))
    # Rows between two rungs would not be used.
    return longest_rung(found) if isinstance(window, Adaptive) else found
