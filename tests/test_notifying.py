"""Notices: which there are, and that they reach a real HTTP server, or are given up."""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream_leip_connectors.notifying import Notices, Notifier

from stream_leip import Adaptive, InputError, KeyedMonitor, Update
from tests.strategies import make_profile
from tests.test_schemas import validator

CALM: dict[str, Any] = {
    "value": 0.0,
    "warning": False,
    "raised": False,
    "since": None,
    "classes": [],
}
WARNED = CALM | {"warning": True}
RAISED = CALM | {"warning": True, "raised": True, "since": 50, "classes": [{"class": "dog"}]}
FINE: dict[str, Any] = {"p": 0.5, "flagged": False, "validation_share": 0.1, "message": None}
ODD = FINE | {"flagged": True, "message": "the rows do not fit any mix"}
PLAIN = Update(
    0, 0, 99, None, None, 100, ("cat", "dog"), "EM", "", np.array([0.25, 0.75]), alarm=CALM
)


def kinds(updates: list[Update]) -> list[str]:
    return [notice["kind"] for notice in Notices().of(updates)]


@pytest.mark.parametrize(
    ("alarms", "wanted"),
    [
        ([CALM, CALM], []),
        ([CALM, WARNED, WARNED, RAISED, RAISED, CALM, CALM], ["warning", "raised", "settled"]),
        ([CALM, RAISED], ["raised"]),
        ([CALM, WARNED, CALM], ["warning", "settled"]),
        ([RAISED, None, RAISED], ["raised"]),
    ],
)
def test_each_change_is_told_once(alarms: list[Any], wanted: list[str]) -> None:
    assert kinds([replace(PLAIN, alarm=alarm) for alarm in alarms]) == wanted


def test_a_warning_says_when_it_was_seen() -> None:
    (notice,) = Notices().of([replace(PLAIN, alarm=WARNED)])
    assert notice["text"] == "Warning: the class mix may have changed, seen at event 99."
    assert notice["id"] == "warning::99"


def test_a_check_is_told_when_it_is_flagged() -> None:
    checks = [FINE, ODD, ODD, FINE, None, ODD]
    updates = [replace(PLAIN, check=check) for check in checks]
    assert kinds(updates) == ["check-flagged", "check-flagged"]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([CALM, WARNED, RAISED]))))
def test_keys_do_not_touch_each_other(events: list[tuple[str, Any]]) -> None:
    updates = [replace(PLAIN, key=key, alarm=alarm) for key, alarm in events]
    together = [(notice["key"], notice["kind"]) for notice in Notices().of(updates)]
    for key in "ab":
        alone = kinds([update for update in updates if update.key == key])
        assert [kind for mine, kind in together if mine == key] == alone


def test_what_was_told_before_is_not_told_again() -> None:
    notices = Notices()
    raised = replace(PLAIN, key="a", alarm=RAISED)
    notices.learn([raised])
    assert notices.of([raised]) == []
    notices.forget(["a"])
    assert [notice["id"] for notice in notices.of([raised])] == ["raised:a:50"]


def test_notices_are_as_their_schema_says() -> None:
    schema = validator("notice")
    updates = [
        replace(PLAIN, alarm=alarm, check=check, key=key, prior=prior)
        for key in (None, "a")
        for prior in (None, PLAIN.prior)
        for alarm, check in ((WARNED, FINE), (RAISED, ODD), (CALM, FINE))
    ]
    notices = [notice for update in updates for notice in Notices().of([update])]
    notices += Notices().of(updates)
    assert {notice["kind"] for notice in notices} == {
        "warning",
        "raised",
        "settled",
        "check-flagged",
    }
    for notice in notices:
        schema.validate(json.loads(json.dumps(notice)))


def test_a_real_change() -> None:
    source = np.array([0.5, 0.3, 0.2])
    rng = np.random.default_rng(0)

    def rows(mix: list[float], n: int) -> Any:
        logits = 3 * np.eye(3)[rng.choice(3, n, p=mix)] + rng.normal(size=(n, 3)) + np.log(source)
        weights = np.exp(logits)
        return weights / weights.sum(axis=1, keepdims=True)

    keyed = KeyedMonitor(make_profile(source), Adaptive(every=500))
    stream = np.vstack([rows([0.5, 0.3, 0.2], 3000), rows([0.1, 0.3, 0.6], 4000)])
    told = Notices().of(keyed.update_many(["shop"] * len(stream), stream))
    assert [notice["kind"] for notice in told] == ["raised", "settled"]
    assert 3000 < told[0]["since"] < 3500
    assert told[0]["text"].startswith("Alarm: the class mix of shop has changed, seen at event 30")


class Receiver:
    """A server that answers with these statuses in turn, then with 200; None: it never answers."""

    def __init__(self, *statuses: int | None) -> None:
        self.bodies: list[Any] = []
        self.release = threading.Event()
        self._statuses = list(statuses)
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = receiver._statuses.pop(0) if receiver._statuses else 200
                if status is None:
                    receiver.release.wait(30)
                    return
                if status == 200:
                    assert self.headers["Content-Type"] == "application/json"
                    receiver.bodies.append(json.loads(body))
                self.send_response(status)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/hook?token=secret"


@contextmanager
def receiving(*statuses: int | None) -> Iterator[Receiver]:
    receiver = Receiver(*statuses)
    thread = threading.Thread(target=receiver.server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield receiver
    finally:
        receiver.release.set()
        receiver.server.shutdown()
        thread.join()
        receiver.server.server_close()


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_notices_arrive_in_order() -> None:
    notices = Notices().of([replace(PLAIN, alarm=alarm) for alarm in (WARNED, RAISED, CALM)])
    with receiving() as receiver:
        notifier = Notifier(receiver.url)
        notifier.post(notices)
        notifier.close()
        assert receiver.bodies == json.loads(json.dumps(notices))
    assert (notifier.posted, notifier.dropped) == (3, 0)


def test_a_server_that_is_not_well_is_tried_again() -> None:
    with receiving(503, 429, 500) as receiver:
        notifier = Notifier(receiver.url, pauses=[0.01] * 3)
        notifier.post([{"n": 1}, {"n": 2}])
        notifier.close()
        assert receiver.bodies == [{"n": 1}, {"n": 2}]


def test_what_nobody_takes_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    with receiving(404, 503, 503) as receiver:
        notifier = Notifier(receiver.url, pauses=[0.01])
        notifier.post([{"n": 1}, {"n": 2}, {"n": 3}])
        notifier.close()
        assert receiver.bodies == [{"n": 3}]
    assert (notifier.posted, notifier.dropped) == (1, 2)
    assert "a notice to 127.0.0.1 was dropped: the answer was 404 Not Found" in caplog.text
    assert "secret" not in caplog.text


def test_a_server_that_hangs_holds_nobody_up(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    with receiving(None) as receiver:
        notifier = Notifier(receiver.url, timeout=0.5, pauses=[0.01], most_waiting=10)
        begun = time.monotonic()
        notifier.post({"n": n} for n in range(500))
        assert time.monotonic() - begun < 0.4
        until(lambda: notifier.posted >= 10)
        notifier.close()
    assert notifier.posted + notifier.dropped == 500


def test_nobody_there() -> None:
    with receiving() as receiver:
        url = receiver.url
    notifier = Notifier(url, pauses=[0.01, 0.01])
    notifier.post([{"n": 1}])
    until(lambda: notifier.dropped)
    notifier.close()


def test_an_end_does_not_wait_for_long_pauses() -> None:
    with receiving(503) as receiver:
        notifier = Notifier(receiver.url, pauses=[60.0])
        notifier.post([{"n": 1}])
        begun = time.monotonic()
        notifier.close(0.5)
        assert time.monotonic() - begun < 5
    assert notifier.dropped == 1


@pytest.mark.parametrize("url", ["ftp://host/x", "host/x", "https:///secret", ""])
def test_no_address(url: str) -> None:
    with pytest.raises(InputError, match="notify_url: it is no address") as caught:
        Notifier(url)
    assert "secret" not in str(caught.value)
