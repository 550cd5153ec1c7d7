"""Record batches of Kafka, format 2: where the parts of each record are."""

import numpy as np
from numba import njit

# Columns of what `locate` finds. Of a key or a value that is null, the stop is -1.
TIME, OFFSET, KEY, KEY_STOP, VALUE, VALUE_STOP, HEADERS, HEADERS_STOP = range(8)


@njit(cache=True, error_model="numpy", fastmath=False, inline="always")
def _varint(data, place, stop):
    """A whole number of variable length, and the place after it; -1 if there is none."""
    found = np.uint64(0)
    shift = np.uint64(0)
    while place < stop and shift < 64:
        byte = np.uint64(data[place])
        place += 1
        found |= (byte & np.uint64(0x7F)) << shift
        if byte < 0x80:
            half = np.int64(found >> np.uint64(1))
            return (half if found & np.uint64(1) == 0 else ~half), place
        shift += np.uint64(7)
    return np.int64(0), np.int64(-1)


@njit(cache=True, error_model="numpy", fastmath=False)
def locate(data, found):
    """Find the parts of as many records as `found` has lines; False if the bytes are not those.

    Times and offsets are relative to those of the batch. Headers are between their two places, the
    count of them first.
    """
    size = np.int64(len(data))
    place = np.int64(0)
    for i in range(len(found)):
        length, place = _varint(data, place, size)
        if place < 0 or length < 1 or length > size - place:
            return False
        stop = place + length
        if data[place] != 0:  # attributes, of which there are none yet
            return False
        place += 1
        for column in (TIME, OFFSET):
            found[i, column], place = _varint(data, place, stop)
            if place < 0:
                return False
        if found[i, OFFSET] <= (found[i - 1, OFFSET] if i else -1):
            return False
        for column in (KEY, VALUE):
            length, place = _varint(data, place, stop)
            if place < 0 or length > stop - place:
                return False
            found[i, column] = place
            found[i, column + 1] = place + length if length >= 0 else -1
            place += max(length, 0)
        found[i, HEADERS] = place
        found[i, HEADERS_STOP] = stop
        count, place = _varint(data, place, stop)
        if place < 0 or count < 0:
            return False
        for _ in range(count):
            for nullable in (False, True):
                length, place = _varint(data, place, stop)
                if place < 0 or length > stop - place or (length < 0 and not nullable):
                    return False
                place += max(length, 0)
        if place != stop:
            return False
    return place == size
