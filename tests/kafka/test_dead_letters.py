from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream_leip_connectors.kafka.dead_letters import corrupt_letter, dead_letter

from tests.kafka.test_decoding import Given

binaries = st.none() | st.binary(max_size=40)


def ours(headers: Any) -> dict[str, str]:
    """What we say of a record; of a name that comes twice, the last."""
    prefix = "stream-leip."
    return {
        name.removeprefix(prefix): value.decode()
        for name, value in headers
        if name.startswith(prefix)
    }


@given(
    binaries,
    binaries,
    st.integers(-1, 2**42),
    st.lists(st.tuples(st.text(max_size=5), binaries), max_size=3),
    st.text(min_size=1, max_size=20),
)
def test_the_original_comes_as_it_was(
    value: bytes | None, key: bytes | None, time: int, headers: Any, reason: str
) -> None:
    record = Given(value, key, time, headers, "in", 3, 17)
    letter = dead_letter(record, reason)
    assert (letter.key, letter.value) == (key, value or b"")
    assert letter.headers[: len(headers)] == [(name, held or b"") for name, held in headers]
    said = ours(letter.headers[len(headers) :])
    wanted = {"schema": "1", "reason": reason, "topic": "in", "partition": "3", "offset": "17"}
    if value is None:
        wanted["null"] = "value"
    if time >= 0:
        assert float(said.pop("time")) == time / 1000
    assert said == wanted


def test_a_letter_of_a_letter_says_the_newest_last() -> None:
    first = dead_letter(Given(b"{", topic="predictions"), "not JSON")
    again = Given(b"{", headers=first.headers, topic="again", offset=5)
    letter = dead_letter(again, "still not JSON")
    assert ours(letter.headers)["topic"] == "again"
    assert ours(letter.headers)["reason"] == "still not JSON"
    assert len(letter.headers) == 2 * len(first.headers)


def test_what_no_broker_would_take_is_cut() -> None:
    letter = dead_letter(Given(b"x" * 5_000_000, headers=[("trace", b"1")]), "not JSON")
    assert letter.value is not None
    assert 890_000 < len(letter.value) < 900_000
    assert ours(letter.headers)["cut-from"] == "5000000"
    assert letter.headers[0] == ("trace", b"1")
    heavy = dead_letter(Given(b"{", b"k", headers=[("trace", b"1" * 2_000_000)]), "not JSON")
    assert (heavy.key, heavy.value) == (None, b"{")
    assert ours(heavy.headers)["left-out"] == "key and headers"


def test_a_reason_that_is_not_unicode() -> None:
    assert ours(dead_letter(Given(b"{"), "class '\ud800'").headers)["reason"] == r"class '\ud800'"


def test_records_that_cannot_be_read_at_all() -> None:
    letter = corrupt_letter("in", 2, 40, 49, "failed crc check")
    assert (letter.key, letter.value) == (None, b"")
    assert ours(letter.headers) == {
        "schema": "1",
        "reason": "failed crc check",
        "topic": "in",
        "partition": "2",
        "offset": "40",
        "last-offset": "49",
    }


@pytest.mark.needs_kafka
def test_a_letter_through_the_broker(bootstrap: str, new_topic: Any) -> None:
    from tests.kafka.topics import read, write

    topic, letters = new_topic(), new_topic()
    originals: list[dict[str, Any]] = [
        {"key": b"a", "value": b"{", "headers": [("trace", b"4f")]},
        {"key": b"b", "value": None},
        {"value": b"\x00" * 3_000_000},
    ]
    # Compressed it is small: a record may be larger than any that may be written plain.
    write(bootstrap, topic, originals, compression_type="gzip", max_request_size=5_000_000)
    records = read(bootstrap, topic)
    write(bootstrap, letters, [dead_letter(each, "why")._asdict() for each in records])
    small, tombstone, large = read(bootstrap, letters)
    assert (small.key, small.value) == (b"a", b"{")
    assert small.headers[0] == ("trace", b"4f")
    assert ours(small.headers)["offset"] == "0"
    assert float(ours(small.headers)["time"]) == records[0].timestamp / 1000
    assert (tombstone.key, tombstone.value) == (b"b", b"")
    assert ours(large.headers)["cut-from"] == "3000000"
