"""Dead letters as records: what could not be used, as it came, and headers that say why."""

from stream_leip_connectors.events import DEAD_LETTER_SCHEMA
from stream_leip_connectors.kafka.records import Message, Record

PREFIX = "stream-leip."
# Brokers take 1 MiB unless told otherwise; a letter that none takes would stop the stream.
MOST_BYTES = 900_000


def dead_letter(record: Record, reason: str, *, most_bytes: int = MOST_BYTES) -> Message:
    """A record that could not be used: its key, value and headers, and headers of ours.

    A tombstone's letter has an empty value and the header `null`, so that it deletes nothing; null
    headers, which clients refuse to write, are empty. A value that would make the letter larger
    than `most_bytes` is cut, and the header `cut-from` says how many bytes it had; headers and a
    key that large are `left-out`.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from stream_leip_connectors.kafka.dead_letters import dead_letter
    >>> record = SimpleNamespace(
    ...     topic="predictions", partition=3, offset=17, timestamp=1767600000500,
    ...     key=b"shop-7", value=b"{", headers=[("trace", b"4f1c")],
    ... )
    >>> letter = dead_letter(record, "not JSON: Input data was truncated")
    >>> letter.key, letter.value
    (b'shop-7', b'{')
    >>> for name, value in letter.headers:
    ...     print(name, value.decode())
    trace 4f1c
    stream-leip.schema 1
    stream-leip.reason not JSON: Input data was truncated
    stream-leip.topic predictions
    stream-leip.partition 3
    stream-leip.offset 17
    stream-leip.time 1767600000.500
    """
    ours = {"schema": str(DEAD_LETTER_SCHEMA), "reason": reason, **_where(record)}
    key, value = record.key, record.value
    theirs = [(name, held or b"") for name, held in record.headers]
    around = _size(theirs) + len(key or b"")
    if around > most_bytes // 2:
        key, theirs, around = None, [], 0
        ours["left-out"] = "key and headers"
    room = most_bytes - around - _size(_headers(ours)) - 1000
    if value is None:
        ours["null"] = "value"
        value = b""
    elif len(value) > room:
        ours["cut-from"] = str(len(value))
        value = value[: max(room, 0)]
    return Message(key, value, [*theirs, *_headers(ours)])


def corrupt_letter(topic: str, partition: int, first: int, last: int, reason: str) -> Message:
    """Records that no client can read, from one offset to another: there is no value to keep."""
    ours = {
        "schema": str(DEAD_LETTER_SCHEMA),
        "reason": reason,
        "topic": topic,
        "partition": str(partition),
        "offset": str(first),
        "last-offset": str(last),
    }
    return Message(None, b"", _headers(ours))


def _where(record: Record) -> dict[str, str]:
    where = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
    }
    if record.timestamp >= 0:
        seconds, milliseconds = divmod(record.timestamp, 1000)
        where["time"] = f"{seconds}.{milliseconds:03d}"
    return where


def _headers(ours: dict[str, str]) -> list[tuple[str, bytes]]:
    return [
        (PREFIX + name, value.encode(errors="backslashreplace")) for name, value in ours.items()
    ]


def _size(headers: list[tuple[str, bytes]]) -> int:
    return sum(len(name.encode()) + len(value) + 10 for name, value in headers)
