"""What the panes of a window take, at most, under a cap on rows."""

from stream_leip.open_pane import SMALLEST
from stream_leip.pane import bytes_of_counts
from stream_leip.windows.ledger import BYTES_A_PANE
from stream_leip.windows.retention import Retention
from stream_leip.windows.state import Layout

# Python objects, measured: of a window's state, of an open pane, and of what is sealed.
_STATE = 500
_OPEN = 600
_SEALED = 1300


def most_bytes(layout: Layout, retention: Retention, open_panes: int, longest: int) -> int:
    """Bytes of a state whose rows, open and sealed together, are at most `layout.max_rows`.

    Parameters
    ----------
    layout
        Of the window.
    retention
        Of the sealed panes.
    open_panes
        How many can be open at a time.
    longest
        How many rows one of them can hold.
    """
    assert layout.max_rows is not None
    cap = layout.max_rows
    entries = 4 * layout.m if layout.top_k is None else 6 * layout.top_k
    sealed_row = entries + 10 + retention.bytes_a_mark
    open_row = entries + 8
    least = open_panes * min(SMALLEST, longest) * open_row
    # An open pane has room for twice its rows at most, and none beyond the cap.
    room = min(open_panes * min(longest, cap + 1), 2 * cap)
    if retention.most_panes == open_panes == 1:
        rows = max(cap * sealed_row, room * open_row)  # one goes as the other begins
    else:
        rows = max(cap - room // 2, 0) * sealed_row + max(room * open_row, room // 2 * sealed_row)
    panes = retention.most_panes * (BYTES_A_PANE + BYTES_A_PANE // 4)
    counts = bytes_of_counts(cap, layout.m)
    return rows + least + panes + counts + _STATE + open_panes * _OPEN + _SEALED
