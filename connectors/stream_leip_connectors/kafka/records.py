"""What is read from a topic, and what is written to one, whichever client does it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
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


class OneRecord(NamedTuple):
    """A record."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True)
class Records:
    """Records of one partition in their order, one or more, as columns.

    An object for each record would cost more than all that is done with it.

    Parameters
    ----------
    topic, partition
        Where they were read.
    offsets, timestamps, keys, values
        As in `Record`, one for each.
    headers
        One tuple for each, too; None if no record has any.
    """

    topic: str
    partition: int
    offsets: list[int]
    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[tuple[tuple[str, bytes | None], ...]] | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    def __getitem__(self, place: int) -> OneRecord:
        """One of them."""
        return OneRecord(
            self.topic,
            self.partition,
            self.offsets[place],
            self.timestamps[place],
            self.keys[place],
            self.values[place],
            () if self.headers is None else self.headers[place],
        )

    def __iter__(self) -> Iterator[OneRecord]:
        return map(self.__getitem__, range(len(self)))

    def some(self, places: Sequence[int]) -> "Records":
        """Those at some places."""
        headers = self.headers
        return Records(
            self.topic,
            self.partition,
            [self.offsets[place] for place in places],
            [self.timestamps[place] for place in places],
            [self.keys[place] for place in places],
            [self.values[place] for place in places],
            None if headers is None else [headers[place] for place in places],
        )

    @classmethod
    def of(cls, records: Sequence[Record]) -> "Records":
        """Columns of records that are objects."""
        # Each column in one go, for a client's record may be slow to touch.
        headers = [each.headers for each in records]
        return cls(
            records[0].topic,
            records[0].partition,
            [each.offset for each in records],
            [each.timestamp for each in records],
            [each.key for each in records],
            [each.value for each in records],
            list(map(tuple, headers)) if any(headers) else None,
        )

    @classmethod
    def join(cls, parts: Sequence["Records"]) -> "Records":
        """All records of some, one after the other."""
        if len(parts) == 1:
            return parts[0]
        headers = None
        if any(part.headers is not None for part in parts):
            headers = [
                each
                for part in parts
                for each in ([()] * len(part) if part.headers is None else part.headers)
            ]
        return cls(
            parts[0].topic,
            parts[0].partition,
            list(chain.from_iterable(part.offsets for part in parts)),
            list(chain.from_iterable(part.timestamps for part in parts)),
            list(chain.from_iterable(part.keys for part in parts)),
            list(chain.from_iterable(part.values for part in parts)),
            headers,
        )


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
