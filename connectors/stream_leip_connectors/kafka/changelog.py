"""The changelog: a task's state as records of a compacted topic, a partition for each task.

A record's key says what it holds: the head, the profile, a key's small state, or a chunk of a key's
rows. Its value is a part of bytes that have a version and a checksum of their own; None takes it
back.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import msgspec

from stream_leip import SnapshotError, SourceProfile, binary
from stream_leip.chunk import Chunk
from stream_leip_connectors.kafka.client import MOST_BYTES
from stream_leip_connectors.kafka.errors import StateError
from stream_leip_connectors.kafka.records import Message, Records

VERSION = 1
# Of a value; its key, and what the client puts around both, come on top.
PART = MOST_BYTES * 3 // 4
_FRAME = struct.Struct("<HH")  # which part this is, of how many


class Place(NamedTuple):
    """What a record holds.

    Parameters
    ----------
    kind
        "head", "profile", "note", "told", "key" (small state) or "rows" (a chunk).
    key, holder, first
        Whose: the stream's key, or of head and profile the model's name, where there are several;
        of a chunk, who holds its rows, and its first event number.
    """

    kind: str
    key: str = ""
    holder: str = ""
    first: int = 0


@dataclass(frozen=True)
class Head:
    """Where a task stands, and whose it is.

    Parameters
    ----------
    offset
        The input offset that the records up to this one bring the task to.
    application, topic, partitions
        The consumer group, the input topic, and how many partitions that has.
    profile
        The fingerprint.
    settings
        Of the monitors, as plain values.
    turn
        Counts the times that keys were written: keys in the order of their turns are in order of
        their last event.
    counts
        What came so far: events, bad, late, updates, lost, expired.
    time
        The latest time of an event; None before the first.
    advanced
        The time that all keys were advanced to; None if they never were.
    records
        How many records the state has, this one included; None if that was not counted.
    """

    offset: int
    application: str
    topic: str
    partitions: int
    profile: str
    settings: dict[str, Any]
    turn: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    time: float | None = None
    advanced: float | None = None
    records: int | None = None


@dataclass(frozen=True)
class KeyState:
    """A key's monitor without its rows, and its turn."""

    turn: int
    events: int
    small: bytes


def head_bytes(head: Head) -> bytes:
    """A head, to be written."""
    return binary.encode("head", VERSION, asdict(head), {})


def key_bytes(state: KeyState) -> bytes:
    """A key's small state, to be written."""
    return binary.encode("key", VERSION, asdict(state), {})


def profile_bytes(profile: SourceProfile) -> bytes:
    """A profile, to be written: who adopts another one closes the panes of this one."""
    packed = zlib.compress(profile.to_json())
    return binary.encode("profile", VERSION, {"json": packed}, {})


def note_bytes(fields: dict[str, Any]) -> bytes:
    """What a task notes for itself, to be written."""
    return binary.encode("note", VERSION, fields, {})


class Log:
    """What is to be written to a changelog, and what is in it.

    Parameters
    ----------
    parts
        How many records each place has.
    repairs
        Records to write again, or to take back, whatever else happens.
    """

    def __init__(
        self,
        parts: Mapping[Place, int] | None = None,
        repairs: Mapping[bytes, bytes | None] | None = None,
    ) -> None:
        self._parts = dict(parts or {})
        self._pending = dict(repairs or {})

    def __len__(self) -> int:
        """How many records are in it, once all is written."""
        return sum(self._parts.values())

    def __contains__(self, place: object) -> bool:
        return place in self._parts

    def put(self, place: Place, data: bytes) -> None:
        """Write bytes to a place, in as many records as it takes."""
        parts = -(-len(data) // PART) or 1
        for part in range(parts):
            framed = _FRAME.pack(part, parts) + data[part * PART : (part + 1) * PART]
            key = _record_key(place, part)
            self._pending.pop(key, None)  # what is put last is written last: the head
            self._pending[key] = framed
        for part in range(parts, self._parts.get(place, 0)):
            self._pending[_record_key(place, part)] = None
        self._parts[place] = parts

    def take_back(self, place: Place) -> None:
        """Leave nothing at a place."""
        for part in range(self._parts.pop(place, 0)):
            self._pending[_record_key(place, part)] = None

    def take_back_all(self) -> None:
        """Leave nothing at all."""
        for place in list(self._parts):
            self.take_back(place)

    def drain(self) -> Iterator[Message]:
        """What is to be written since the last time."""
        pending, self._pending = self._pending, {}
        for key, value in pending.items():
            yield Message(key, value, [])


class Held:
    """What a changelog's partition holds, as it is read.

    Parameters
    ----------
    torn
        Whether a commit may be there in part, as without transactions. The head is its last record:
        what comes after the last head counts for nothing, and is to be written over.
    """

    def __init__(self, *, torn: bool = False) -> None:
        self._values: dict[bytes, bytes] = {}
        self._torn = torn
        self._open: dict[bytes, bytes | None] = {}
        self.records = 0
        self.bytes = 0

    def take(self, records: Records) -> None:
        """Take records in their order."""
        self.records += len(records)
        for offset, key, value in zip(records.offsets, records.keys, records.values, strict=True):
            if key is None:
                raise StateError(
                    f"{records.topic}, partition {records.partition}, offset {offset}: a "
                    "record without a key is none of stream-leip; name another changelog topic"
                )
            self.bytes += len(value or b"")
            if self._torn:
                self._open[key] = value
                if key == _HEAD:
                    for each, held in self._open.items():
                        self._put(each, held)
                    self._open.clear()
            else:
                self._put(key, value)

    def _put(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value

    def contents(self) -> "Contents":
        """All places with their bytes; SnapshotError if some are not whole."""
        found: dict[Place, dict[int, bytes]] = {}
        for key, value in self._values.items():
            place, part = _read_key(key)
            found.setdefault(place, {})[part] = value
        for key in self._open:
            _read_key(key)  # of something else, it must not be written over
        whole = {place: _whole(place, parts) for place, parts in found.items()}
        repairs = {key: self._values.get(key) for key in self._open}
        return Contents(whole, repairs, len(self._values) if self._torn else None)


class Contents:
    """A changelog's places, and their bytes.

    Parameters
    ----------
    data
        By place.
    repairs
        Records that a commit in part wrote over, as they should be.
    records
        How many there are, if that is to be what the head says.
    """

    def __init__(
        self,
        data: dict[Place, bytes],
        repairs: Mapping[bytes, bytes | None] | None = None,
        records: int | None = None,
    ) -> None:
        self._data = data
        self.repairs = repairs or {}
        self._records = records

    def __len__(self) -> int:
        return len(self._data)

    def log(self) -> Log:
        """To write on from here."""
        parts = {place: -(-len(data) // PART) or 1 for place, data in self._data.items()}
        return Log(parts, self.repairs)

    def of(self, model: str) -> "Contents":
        """What is of one model, where there are several."""
        return Contents(
            {
                place: data
                for place, data in self._data.items()
                if place.key == model or place.key.startswith(f"{model}:")
            }
        )

    def head(self, model: str = "") -> Head | None:
        """The head; None where nothing was written yet."""
        data = self._data.get(Place("head", model))
        if data is None:
            return None
        head = Head(**binary.decode(data, "head", VERSION)[0])
        there = self._records
        if there is not None and head.records is not None and there != head.records:
            why = (
                "a commit in part wrote over some, and they were compacted"
                if there < head.records
                else "another process, taken for dead, wrote too"
            )
            raise SnapshotError(f"changelog: {there} records, but {head.records} written: {why}")
        return head

    def profile(self, model: str = "") -> SourceProfile:
        """The profile that the state is of."""
        data = self._data.get(Place("profile", model))
        if data is None:
            raise SnapshotError("changelog: the profile of the state is missing")
        packed = binary.decode(data, "profile", VERSION)[0]["json"]
        return SourceProfile.from_json(zlib.decompress(packed), "changelog")

    def note(self) -> dict[str, Any] | None:
        """What a task noted for itself."""
        data = self._data.get(Place("note"))
        return None if data is None else binary.decode(data, "note", VERSION)[0]

    def told(self, model: str = "") -> list[Any]:
        """What people were told of the keys, and has not settled."""
        data = self._data.get(Place("told", model))
        if data is None:
            return []
        return [tuple(each) for each in binary.decode(data, "note", VERSION)[0]["told"]]

    def states(self) -> list[tuple[str, KeyState]]:
        """All keys, the one longest without an event first."""
        found = [
            (place.key, KeyState(**binary.decode(data, "key", VERSION)[0]))
            for place, data in self._data.items()
            if place.kind == "key"
        ]
        return sorted(found, key=lambda each: each[1].turn)

    def chunks(self) -> dict[str, dict[str, list[Chunk]]]:
        """By key and holder, in order of events."""
        found: dict[str, dict[str, list[Chunk]]] = {}
        for place in sorted(place for place in self._data if place.kind == "rows"):
            chunk = Chunk.from_bytes(self._data[place])
            found.setdefault(place.key, {}).setdefault(place.holder, []).append(chunk)
        return found


def _record_key(place: Place, part: int) -> bytes:
    return msgspec.msgpack.encode((*place, part))


def _read_key(key: bytes) -> tuple[Place, int]:
    try:
        kind, of, holder, first, part = msgspec.msgpack.decode(key, type=_KeyType)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SnapshotError(f"changelog: {key!r} is no key of stream-leip") from error
    return Place(kind, of, holder, first), part


_KeyType = tuple[str, str, str, int, int]
_HEAD = _record_key(Place("head"), 0)


def _whole(place: Place, parts: dict[int, bytes]) -> bytes:
    counts = {_FRAME.unpack_from(value)[1] for value in parts.values()}
    if len(counts) != 1 or sorted(parts) != list(range(counts.pop())):
        raise SnapshotError(f"changelog: {place} has parts {sorted(parts)} only")
    return b"".join(parts[part][_FRAME.size :] for part in sorted(parts))
