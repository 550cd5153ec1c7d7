"""Log lines in both formats have the same content."""

import logging
from collections.abc import Iterator

import msgspec
import pytest
from stream_leip_connectors import logs


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.handlers, root.level = before, level


def test_people_read_fields_behind_the_message(capsys: pytest.CaptureFixture[str]) -> None:
    logs.log_to_stderr("human")
    log = logging.getLogger("stream_leip.kafka")
    log.warning("%d events", 3, extra={"partition": 2, "key": "shop 7"})
    log.info("plain")
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith(" 3 events partition=2 key=shop 7")
    assert second.endswith(" plain")
    assert not logs.in_json()


def test_programs_read_an_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.log_to_stderr("human")
    logs.log_to_stderr("json")  # the newest counts
    log = logging.getLogger("stream_leip.kafka")
    log.warning("%d\nevents", 3, extra={"partition": 2, "offsets": {2: 17}})
    try:
        raise ValueError("what went wrong")
    except ValueError:
        log.exception("it failed", extra={"reason": ValueError("odd")})
    first, second = map(msgspec.json.decode, capsys.readouterr().err.splitlines())
    at = first.pop("time")
    assert at.endswith("Z")
    assert first == {
        "level": "warning",
        "logger": "stream_leip.kafka",
        "message": "3\nevents",
        "partition": 2,
        "offsets": {"2": 17},
    }
    assert "what went wrong" in second["trace"]
    assert second["reason"] == "odd"
    assert logs.in_json()
