"""Lines of CSV: a block gives what its lines give alone, and those what Python's float says."""

import csv
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_leip_connectors.csv_lines import CsvDecoder
from stream_leip_connectors.events import Fields

HEADER = ["b", "time", "a", "key", "c"]
CLASSES = ("a", "b", "c")
FIELDS = Fields(None, "time", "key")

cells = st.one_of(
    st.floats(-9, 9).map(str),
    st.sampled_from(["1", "nan", "inf", "", " 2", "1e3", "x", '"3"', '"4', 'a"b', "é", "1_0"]),
)
times = st.sampled_from(["1.7e9", "2026-01-05T08:00:00Z", "2026-01-05T08:00:00", "1e12", "", "x"])
keys = st.sampled_from(["k", "", '"a,b"', "ü", "None", '"q""q"'])
records = st.tuples(cells, times, cells, keys, cells).map(lambda each: ",".join(each).encode())
good = st.tuples(st.floats(-9, 9), st.floats(1e9, 2e9), st.floats(), st.just("k"), st.floats(-9, 9))
lines = st.one_of(
    good.map(lambda each: ",".join(map(str, each)).encode()),
    records,
    records.map(lambda line: line + b"\r"),
    st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"")),
)


def one(line: bytes) -> tuple[list[float], str] | None:
    """Scores and key of a line; None if it surely is none."""
    try:
        (record,) = csv.reader([line.decode()], strict=True)
        scores = [float(record[HEADER.index(name)]) for name in CLASSES]
    except (ValueError, csv.Error, IndexError):
        return None
    return (scores, record[3]) if len(record) == len(HEADER) and record[3] else None


@settings(max_examples=300)
@given(st.lists(lines))
def test_a_block_is_its_lines(block: list[bytes]) -> None:
    decoder = CsvDecoder(HEADER, CLASSES, FIELDS)
    events, numbers = decoder.decode_lines(b"\n".join(block))
    filled = [i for i, line in enumerate(block) if line and not line.isspace()]
    assert numbers.tolist() == filled
    bad = dict(events.bad)
    for place, number in enumerate(filled):
        alone, _ = decoder.decode_lines(block[number])
        np.testing.assert_array_equal(events.scores[place], alone.scores[0])
        assert (place in bad) == bool(alone.bad)
        assert events.times is not None
        assert alone.times is not None
        assert events.times[place] == alone.times[0]
        assert events.keys is not None
        assert alone.keys is not None
        assert events.keys[place] == alone.keys[0]
        wanted = one(block[number])
        if wanted is None:
            assert place in bad
        elif place not in bad:
            np.testing.assert_array_equal(events.scores[place], wanted[0])
            assert events.keys[place] == wanted[1]
            assert math.isfinite(events.times[place])
