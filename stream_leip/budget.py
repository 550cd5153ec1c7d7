"""How many rows each of many keys may keep within a budget of bytes."""

from bisect import bisect_right
from dataclasses import replace

from stream_leip.errors import InputError
from stream_leip.windows import Layout, Window

# What a key takes beside its window, measured: a monitor, its name in two dictionaries.
_BYTES_A_KEY = 2000
# Allocators leave gaps, about so much of all.
_GAPS = 0.06


def rows_within(budget: int, keys: int | None, window: Window, layout: Layout) -> int:
    """How many rows each key may keep so that all of them fit the budget."""
    if keys is None:
        raise InputError(f"max_bytes: {budget!r} needs max_keys, to know how many share it")

    def bytes_with(rows: int) -> int:
        state = window.open(replace(layout, max_rows=rows))
        if not hasattr(state, "most_bytes"):
            raise InputError(
                f"max_bytes: {window!r} does not say what it takes; cap its rows with max_rows"
            )
        own = _BYTES_A_KEY + 12 * layout.m
        return int(keys * (own + state.most_bytes) * (1.0 + _GAPS))

    least = bytes_with(1)
    if budget < least:
        raise InputError(
            f"max_bytes: {budget!r} is too little for {keys} keys; use {least} or more"
        )
    most = 2**40 if layout.max_rows is None else layout.max_rows
    return bisect_right(range(1, most + 1), budget, key=bytes_with)
