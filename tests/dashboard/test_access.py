"""Who may look at the page."""

import asyncio
import http.client
import re
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError
from stream_leip_connectors.addresses import Address

from tests.commands import run
from tests.dashboard.serving import Looking, serving
from tests.dashboard.updates import append, update

TOKEN = "correct-horse-battery-staple"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("guarded") / "updates.jsonl"
    append(path, update(0))
    with serving(path, "--address", "0.0.0.0", STREAM_LEIP_DASHBOARD_TOKEN=TOKEN) as url:
        yield f"http://127.0.0.1:{urllib.parse.urlsplit(url).port}/"


def get(url: str, path: str = "/", **headers: str) -> http.client.HTTPResponse:
    return fetch(url, path, **headers)[0]


def fetch(url: str, path: str, **headers: str) -> tuple[http.client.HTTPResponse, str]:
    place = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=20)
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response, body


def opens(url: str, session: str, **headers: str) -> int:
    """The status with which a websocket is answered: 101 is yes."""
    from tornado.httpclient import HTTPClientError, HTTPRequest
    from tornado.websocket import websocket_connect

    async def attempt() -> int:
        request = HTTPRequest(url.replace("http", "ws", 1) + "ws", headers=headers)
        try:
            connection = await websocket_connect(request, subprotocols=["bokeh", session])
        except HTTPClientError as error:
            return int(error.code)
        connection.close()
        return 101

    return asyncio.run(attempt())


def test_without_the_token_nothing_is_told(guarded: str) -> None:
    for path in ("/", "/?token=", "/?token=wrong"):
        answer = get(guarded, path)
        assert answer.status == 302, path
        assert str(answer.getheader("Location")).startswith("/login")
    assert get(guarded, "/", Cookie="stream-leip=guess").status == 302
    assert get(guarded, "/metadata").status == 302
    assert get(guarded, "/autoload.js?bokeh-autoload-element=1").status == 404


def test_the_token_lets_in_and_a_cookie_keeps(guarded: str) -> None:
    answer, body = fetch(guarded, f"/?token={TOKEN}&key=a%26b")
    # The token stays neither in the address nor in the page.
    assert (answer.status, answer.getheader("Location")) == (302, "/?key=a%26b")
    cookie = str(answer.getheader("Set-Cookie"))
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert TOKEN not in cookie + body
    assert get(guarded, "/", Cookie=cookie.partition(";")[0]).status == 200


def test_a_websocket_needs_the_cookie_and_a_known_origin(guarded: str) -> None:
    home = guarded.rstrip("/")
    cookie = str(get(guarded, f"/?token={TOKEN}").getheader("Set-Cookie")).partition(";")[0]
    _, body = fetch(guarded, "/", Cookie=cookie)
    session = re.findall(r'"token":"([^"]+)"', body)[0]
    assert opens(guarded, session, Origin="http://evil.example", Cookie=cookie) == 403
    assert opens(guarded, session, Origin="null", Cookie=cookie) == 403
    assert opens(guarded, session, Origin=home, Cookie="stream-leip=guess") == 403
    assert opens(guarded, session, Origin=home) == 403
    assert opens(guarded, session, Origin=home, Cookie=cookie) == 101


def test_another_name_for_this_machine_is_refused(guarded: str) -> None:
    answer = get(guarded, f"/?token={TOKEN}", Host="evil.example")
    assert (answer.status, answer.getheader("Set-Cookie")) == (302, None)
    assert get(guarded, "/login", Host="evil.example").status == 403


def test_responses_stand_in_no_other_page(guarded: str) -> None:
    for path in (f"/?token={TOKEN}", "/login"):
        answer = get(guarded, path)
        policy = str(answer.getheader("Content-Security-Policy"))
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.getheader("Cache-Control") == "no-store"
        assert answer.getheader("Referrer-Policy") == "no-referrer"


@pytest.mark.needs_browser
def test_the_form_refuses_and_lets_in(browser: Any, guarded: str) -> None:
    with Looking(browser, guarded, ready=False) as page:
        page.page.locator("#token").fill("wrong")
        page.page.keyboard.press("Enter")
        page.until("[role=alert]", "That is not the token.")
        page.said.clear()  # the browser names the refusal, rightly
        page.page.locator("#token").fill(TOKEN)
        page.page.keyboard.press("Enter")
        page.page.wait_for_selector("html[data-ready=yes]")
        page.until("#mix-now", "cat: 50.0 %")
    with Looking(browser, f"{guarded}?token={TOKEN}") as page:
        assert TOKEN not in page.page.url


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"address": "0.0.0.0"}, "can be reached from other machines, so a token is needed"),
        ({"address": "::"}, "a token is needed"),
        ({"address": "192.168.1.5"}, "a token is needed"),
        ({"address": "dash.example.com"}, "a token is needed"),
        ({"token": "short"}, "shorter than 16 characters"),
        ({"address": "0.0.0.0", "token": "short"}, "shorter than 16 characters"),
        ({"port": 70_000}, "port"),
    ],
)
def test_settings_that_would_leave_the_door_open(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Address(**settings)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "localhost", "127.8.8.8"])
def test_loopback_needs_no_token(address: str) -> None:
    assert Address(address=address).loopback


def test_names_that_are_answered_to() -> None:
    secret = SecretStr(TOKEN)
    found = Address(address="10.0.0.7", token=secret, origin="dash.example.com, b:8443").hosts(99)
    assert {"10.0.0.7:99", "localhost:99", "dash.example.com:80", "b:8443"} <= set(found)
    assert "127.8.8.8:99" in Address(address="127.8.8.8").hosts(99)
    assert Address(address="::1").url(99) == "http://[::1]:99/"
    assert "[::]:99" in Address(address="::", token=secret).hosts(99)


def test_wrong_usage_has_exit_code_2(tmp_path: Path) -> None:
    done = run("dashboard", "x.jsonl", "--address", "0.0.0.0", cwd=tmp_path)
    assert (done.returncode, "a token is needed" in done.stderr) == (2, True)
    done = run("dashboard", "x.jsonl", "--kafka", cwd=tmp_path)
    assert done.returncode == 2
    assert "FILE and --kafka: there is one source at a time" in done.stderr
    done = run("dashboard", "x.jsonl", "--token", "short", cwd=tmp_path)
    assert done.returncode == 2
    assert "short'" not in done.stderr


def test_a_port_that_is_taken_is_said_in_a_line(guarded: str, tmp_path: Path) -> None:
    port = str(urllib.parse.urlsplit(guarded).port)
    done = run("dashboard", "x.jsonl", "--port", port, cwd=tmp_path)
    assert done.returncode == 1
    assert "choose another with --port" in done.stderr


def test_every_setting_is_an_option(tmp_path: Path) -> None:
    done = run("dashboard", "--help", cwd=tmp_path)
    for name in Address.model_fields:
        assert f"--{name} " in done.stdout


def test_a_missing_bokeh_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bokeh", None)
    done = run("dashboard", "x.jsonl", cwd=tmp_path)
    assert done.returncode == 1
    assert "pip install 'stream-leip[dashboard]'" in done.stderr
