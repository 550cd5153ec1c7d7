import contextlib
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream_leip_connectors.window_text import parse_window, write_window

from stream_leip import Adaptive, Fading, InputError, Sliding, Tumbling


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("tumbling 1000", Tumbling(count=1000)),
        ("1000", Tumbling(count=1000)),
        ("60s", Tumbling(seconds=60.0)),
        ("TUMBLING 1.5 h", Tumbling(seconds=5400.0)),
        ("tumbling 60s lateness 500ms", Tumbling(seconds=60.0, lateness=0.5)),
        ("sliding 2000 every 500", Sliding(count=2000, every=500)),
        ("sliding 2000", Sliding(count=2000)),
        ("sliding 10m every 1min", Sliding(seconds=600.0, every=60.0)),
        ("sliding 10 m every 1 m lateness 2 s", Sliding(seconds=600, every=60, lateness=2)),
        ("fading 5000", Fading(5000)),
        ("fading 5000 every 100", Fading(5000, 100)),
        ("fading 1h every 5m", Fading(timedelta(hours=1), timedelta(minutes=5))),
        ("fading 1d lateness 1m", Fading(timedelta(days=1), lateness=60.0)),
    ],
)
def test_windows_read_as_written(text: str, window: Any) -> None:
    assert parse_window(text) == window
    assert parse_window(write_window(window)) == window


def test_a_window_without_a_text_is_shown_as_it_is() -> None:
    assert write_window(Adaptive()) == "adaptive every 1000"
    odd = Tumbling(seconds=60.0, emit_empty=True)
    assert write_window(odd) == str(odd)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "its length is missing"),
        ("sliding", "its length is missing"),
        ("tumbling often", "length: 'often'; write events, as 1000, or time"),
        ("tumbling 5 weeks", "length: '5 weeks'"),
        ("tumbling 1.5", "'1.5' is not a whole number of events"),
        ("tumbling 0", "count: 0; use a whole number"),
        ("tumbling 0s", "seconds: 0.0; use more than zero"),
        ("tumbling 100 every 10", 'write "sliding …"'),
        ("sliding 60s every 10", "not of one kind"),
        ("sliding 100 every 30", "does not divide"),
        ("sliding 100 every", "every: ''"),
        ("tumbling 100 lateness 5s", "only windows by time"),
        ("tumbling 60s lateness 5", "lateness: 5 has no unit; write 5s"),
        ("tumbling 99999999999999d", "'99999999999999d' is too long"),
        ("tumbling 60s lateness 5s lateness 6s", "lateness: '5s lateness 6s'"),
    ],
)
def test_other_texts_are_refused_with_examples(text: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_window(text)
    assert says in str(caught.value)
    assert f"window: {text!r}" in str(caught.value)
    assert '"sliding 2000 every 500"' in str(caught.value)


@given(st.text(alphabet="tumblingsdefaverylt 0123456789.smhd²٣", max_size=40))
def test_any_text_is_a_window_or_an_input_error(text: str) -> None:
    with contextlib.suppress(InputError):
        parse_window(text)
