"""What is read from a topic, and what is written to one, whichever client does it."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


class Record(Protocol):
    """A record of a topic, as kafka-python has it."""

    @property
    def topic(self) -> str:
        """Where it was read."""

    @property
    def partition(self) -> int:
        """Of the topic."""

    @property
    def offset(self) -> int:
        """In the partition."""

    @property
    def timestamp(self) -> int:
        """Epoch milliseconds; below zero if it has none."""

    @property
    def key(self) -> bytes | None:
        """As it came."""

    @property
    def value(self) -> bytes | None:
        """As it came; None for a tombstone."""

    @property
    def headers(self) -> Headers:
        """Names may come twice; the last one counts."""


class Message(NamedTuple):
    """What is written to a topic: the arguments of a producer's send()."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]


def last_header(headers: Headers, name: str) -> bytes | None:
    """The value of a header; of the last, if there are several."""
    for each, value in reversed(headers):
        if each == name:
            return value
    return None
