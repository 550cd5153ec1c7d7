"""Every error stream_leip raises on purpose.

StreamLeipError
├── InputError          what a caller passed: also a ValueError
│   └── BadRowsError    scores that are not scores, with the first bad row and how many there are
├── ProfileError        a profile file that is corrupt, foreign or newer
└── SnapshotError       bytes that are corrupt, foreign, newer or of another profile
"""


class StreamLeipError(Exception):
    """Base of all errors of the project."""


class InputError(StreamLeipError, ValueError):
    """An argument cannot be used; the message names it, its value and the remedy."""


class BadRowsError(InputError):
    """Some rows of scores cannot be used.

    Parameters
    ----------
    first
        Index of the first bad row.
    count
        How many rows are bad.
    total
        How many rows there were.
    reason
        What is wrong with the first one.
    """

    def __init__(self, first: int, count: int, total: int, reason: str) -> None:
        which = f"row {first}"
        if count > 1:
            which += f" (the first of {count} bad rows in {total})"
        super().__init__(f"scores: {which}: {reason}")
        self.first = first
        self.count = count
        self.total = total
        self.reason = reason


class ProfileError(StreamLeipError):
    """A profile file cannot be read; the message names the file, what is wrong and the remedy."""


class SnapshotError(StreamLeipError):
    """Bytes of a pane or snapshot cannot be used; the message says why and the remedy."""
