"""Spoiling batches on a broker's disk, where no checksum stops one."""

import struct
from pathlib import Path
from typing import NamedTuple

import crc32c


class Batch(NamedTuple):
    """Where in the file, and of which offsets."""

    at: int
    size: int
    first: int
    last: int


def segment(folder: Path, topic: str) -> Path:
    return next((folder / "data" / f"{topic}-0").glob("*.log"))


def batches(data: bytes) -> list[Batch]:
    """By the header of record batches, version 2: docs of Kafka, message format."""
    found, at = [], 0
    while at < len(data):
        first, length = struct.unpack_from(">qi", data, at)
        (delta,) = struct.unpack_from(">i", data, at + 23)
        found.append(Batch(at, length + 12, first, first + delta))
        at += length + 12
    return found


def flip_a_byte(data: bytearray, batch: Batch) -> None:
    data[batch.at + batch.size - 3] ^= 0xFF


def name_codec(data: bytearray, batch: Batch, codec: int) -> None:
    """Say that a batch is compressed by another codec; its checksum is right."""
    data[batch.at + 22] = data[batch.at + 22] & ~7 | codec
    content = bytes(data[batch.at + 21 : batch.at + batch.size])
    struct.pack_into(">I", data, batch.at + 17, crc32c.crc32c(content))
