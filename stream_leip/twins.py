"""Objects made as others: with many of them it matters how near to each other their fields lie."""

from typing import TypeVar

Made = TypeVar("Made")


def alike(made: Made) -> Made:
    """A shallow copy with its fields in one piece; `copy.copy` gives it a dictionary of its own."""
    other = object.__new__(type(made))
    for name, value in vars(made).items():
        setattr(other, name, value)
    return other
