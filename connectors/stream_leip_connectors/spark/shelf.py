"""Snapshots in Spark's state, in pieces.

What a worker writes to a value or a map state is one message to Java, and Spark 4.0 takes as much
of it as has arrived for all of it: a large one is cut off, and the query fails. Lists that go to a
list state have another way, by Arrow, which is open to any size.
"""

from typing import Any

from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

# A message of so many bytes arrives at once.
PIECE = 16_000
KEY = StructType([StructField("key", StringType()), StructField("piece", IntegerType())])
VALUE = StructType([StructField("value", BinaryType()), StructField("pieces", IntegerType())])


class MapShelf:
    """Bytes by key, in a map state.

    Parameters
    ----------
    state
        With `KEY` and `VALUE`.
    """

    def __init__(self, state: Any) -> None:
        self._state = state
        self._pieces: dict[str, int] = {}  # of keys that were read

    def get(self, key: str) -> bytes | None:
        """What was put there; None if nothing was."""
        first = self._state.getValue((key, 0))
        self._pieces[key] = first[1] if first else 0
        if first is None:
            return None
        more = (self._state.getValue((key, number)) for number in range(1, first[1]))
        return b"".join(bytes(found[0]) for found in (first, *more))

    def put(self, key: str, data: bytes) -> None:
        """Keep it there, in place of what was, which was read before."""
        pieces = -(-len(data) // PIECE)
        for number in range(pieces):
            part = data[number * PIECE : (number + 1) * PIECE]
            self._state.updateValue((key, number), (part, pieces))
        for number in range(pieces, self._pieces.pop(key, 0)):
            self._state.removeKey((key, number))

    def remove(self, key: str) -> None:
        """Keep nothing there."""
        first = self._state.getValue((key, 0))
        for number in range(first[1] if first else 0):
            self._state.removeKey((key, number))
