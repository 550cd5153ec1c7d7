"""Lines for people, and for the programs that gather them: the same ones, in two formats.

A line's fields (partition, offset, key, …) are the `extra` of its log call.
"""

import logging
import sys
from datetime import UTC, datetime
from typing import Any

import msgspec

_PLAIN = frozenset(vars(logging.makeLogRecord({})))
_OWN = _PLAIN | {"message", "asctime", "taskName"}


class Human(logging.Formatter):
    """Time, message, and the fields behind it as name=value.

    Examples
    --------
    >>> import logging
    >>> from stream_leip_connectors.logs import Human
    >>> record = logging.makeLogRecord({"msg": "restored", "partition": 3, "created": 0.0})
    >>> Human().format(record)[-20:]
    'restored partition=3'
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line; a trace comes after it."""
        fields = [f"{name}={value}" for name, value in _fields(record).items()]
        return " ".join([super().formatMessage(record), *fields])


class JsonLines(logging.Formatter):
    """An object a line: time (RFC 3339, UTC), level, logger, message, and the fields.

    Examples
    --------
    >>> import logging
    >>> from stream_leip_connectors.logs import JsonLines
    >>> record = logging.makeLogRecord(
    ...     {"msg": "restored", "name": "kafka", "levelname": "INFO", "created": 0.5, "offset": 3}
    ... )
    >>> print(JsonLines().format(record))
    {"time":"1970-01-01T00:00:00.500Z","level":"info","logger":"kafka","message":"restored","offset":3}
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


def log_to_stderr(format: str) -> None:
    """Our lines to stderr, "human" or "json"; a client's own would say the same, many times."""
    root = logging.getLogger()
    for each in [each for each in root.handlers if isinstance(each.formatter, Human | JsonLines)]:
        root.removeHandler(each)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if format == "json" else Human())
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    for client in ("kafka", "confluent_kafka"):
        logging.getLogger(client).setLevel(logging.CRITICAL)


def in_json() -> bool:
    """Whether lines on stderr are for programs now."""
    return any(isinstance(each.formatter, JsonLines) for each in logging.getLogger().handlers)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _OWN}
