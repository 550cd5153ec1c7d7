"""Bytes for panes and snapshots: a versioned header, raw arrays, a checksum."""

import struct
import zlib
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_leip.errors import SnapshotError

_MAGIC = b"stream-leip\0"
_HEAD = struct.Struct("<12s8sHI")  # magic, kind, version, length of the header
_TAIL = struct.Struct("<I")  # CRC-32 of all that is before it

Arrays = dict[str, NDArray[Any]]


class _Header(msgspec.Struct):
    fields: dict[str, Any]
    arrays: list[tuple[str, str, tuple[int, ...]]]


def encode(kind: str, version: int, fields: dict[str, Any], arrays: Arrays) -> bytes:
    """Pack plain fields and arrays."""
    shapes = [(name, array.dtype.str, array.shape) for name, array in arrays.items()]
    header = msgspec.msgpack.encode(_Header(fields, shapes))
    parts = [_HEAD.pack(_MAGIC, kind.encode(), version, len(header)), header]
    parts += [np.ascontiguousarray(array).tobytes() for array in arrays.values()]
    body = b"".join(parts)
    return body + _TAIL.pack(zlib.crc32(body))


def decode(data: object, kind: str, version: int) -> tuple[dict[str, Any], Arrays]:
    """Unpack what `encode` packed; SnapshotError if it is anything else."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise SnapshotError(f"{kind}: a {type(data).__name__} is not bytes; pass what was stored")
    view = memoryview(data)
    if len(view) < _HEAD.size + _TAIL.size or bytes(view[: len(_MAGIC)]) != _MAGIC:
        raise SnapshotError(f"{kind}: these {len(view)} bytes are not of stream-leip, or cut short")
    body = view[: -_TAIL.size]
    if zlib.crc32(body) != _TAIL.unpack(view[-_TAIL.size :])[0]:
        raise SnapshotError(f"{kind}: corrupt: the bytes do not match their checksum")
    _, found_kind, found_version, length = _HEAD.unpack_from(body)
    named = found_kind.rstrip(b"\0").decode()
    if named != kind:
        raise SnapshotError(f"{kind}: these bytes are a {named}")
    if found_version != version:
        remedy = "upgrade stream-leip" if found_version > version else "start anew"
        raise SnapshotError(
            f"{kind}: version {found_version}, but this release reads {version}; {remedy}"
        )
    header = msgspec.msgpack.decode(body[_HEAD.size : _HEAD.size + length], type=_Header)
    place = _HEAD.size + length
    arrays: Arrays = {}
    for name, dtype, shape in header.arrays:
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        part = np.frombuffer(body[place : place + size], dtype).reshape(shape)
        arrays[name] = part.copy()
        place += size
    return header.fields, arrays
