"""Who may look at the page: under which name it was asked for, and whether the token is known."""

import asyncio
import hmac
import html
import secrets
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from bokeh.server.auth_provider import AuthProvider
from bokeh.server.views.autoload_js_handler import AutoloadJsHandler
from tornado.web import HTTPError, RequestHandler
from tornado.websocket import WebSocketHandler

LOGIN = "/login"
_COOKIE = "stream-leip"
# Seconds that a wrong token costs.
_PENALTY = 0.5
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src data: blob:; font-src data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Access(AuthProvider):
    """Lets in whoever asks for a known host and, where there is a token, knows it.

    A page of another name that resolves to this machine is refused by its host, and its websocket
    by its origin. The token is compared in constant time; a browser that knew it once has a cookie.

    Parameters
    ----------
    hosts
        Names with ports that the page may be asked for.
    token
        What people must know; None for nothing.
    """

    def __init__(self, hosts: tuple[str, ...], token: str | None) -> None:
        self._hosts = frozenset(hosts)
        self._token = None if token is None else token.encode()
        self._pass = secrets.token_urlsafe(32)
        super().__init__()

    @property
    def get_user_async(self) -> Callable[[Any], Any]:
        """Decides on a request, before anything is answered."""
        return self._user

    @property
    def login_url(self) -> str:
        """Where to enter the token."""
        return LOGIN

    @property
    def login_handler(self) -> type[RequestHandler]:
        """The page that asks for it."""
        access = self

        class Login(_Login):
            def initialize(self) -> None:
                self.access = access

        return Login

    def known_host(self, handler: RequestHandler) -> bool:
        """Whether a request names this server as people may."""
        host = (handler.request.host or "").lower()
        return (host if ":" in host.rpartition("]")[2] else f"{host}:80") in self._hosts

    def knows(self, told: str) -> bool:
        """Whether this is the token."""
        return self._token is not None and hmac.compare_digest(told.encode(), self._token)

    def let_in(self, handler: RequestHandler) -> None:
        """Give the browser a cookie."""
        handler.set_cookie(_COOKIE, self._pass, httponly=True, samesite="Lax", path="/")

    async def _user(self, handler: RequestHandler) -> str | None:
        if isinstance(handler, WebSocketHandler):
            if not (self.known_host(handler) and self._has_pass(handler)):
                raise HTTPError(403)
            return "somebody"
        if isinstance(handler, AutoloadJsHandler):
            raise HTTPError(404)  # the page stands in no other
        harden(handler)
        if not self.known_host(handler):
            return None
        if self._has_pass(handler):
            return "somebody"
        if self.knows(handler.get_query_argument("token", "")):
            self.let_in(handler)
            # Bokeh would write the address into the page, and the browser into its history.
            key = handler.get_query_argument("key", None)
            handler.redirect("/" if key is None else f"/?{urlencode({'key': key})}")
        return None

    def _has_pass(self, handler: RequestHandler) -> bool:
        held = handler.get_cookie(_COOKIE) or ""
        return self._token is None or hmac.compare_digest(held.encode(), self._pass.encode())


def harden(handler: RequestHandler) -> None:
    """Let a response load nothing from elsewhere, and stand in no other page."""
    for name, value in _HEADERS.items():
        handler.set_header(name, value)


class _Login(RequestHandler):
    """Asks for the token."""

    access: Access

    def get(self) -> None:
        self._show("")

    async def post(self) -> None:
        if self.access.known_host(self) and self.access.knows(self.get_body_argument("token", "")):
            self.access.let_in(self)
            self.redirect("/")
            return
        await asyncio.sleep(_PENALTY)
        self.set_status(403)
        self._show("That is not the token.")

    def _show(self, wrong: str) -> None:
        harden(self)
        if not self.access.known_host(self):
            self.set_status(403)
            host = self.request.host or ""
            self.finish(
                _SHELL.format(
                    body=f"<p>This dashboard does not answer to the name {html.escape(host)}. "
                    "Start it with --origin and that name if it should.</p>"
                )
            )
            return
        self.finish(_SHELL.format(body=_FORM.format(wrong=html.escape(wrong))))


_SHELL = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">
<title>stream-leip dashboard</title>
<style>body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 30em; margin: 15vh auto; \
padding: 0 16px; }} input, button {{ font: inherit; padding: 8px 12px; }}</style></head>
<body><h1>stream-leip dashboard</h1>{body}</body></html>"""
_FORM = """<form method="post" action="/login"><p><label for="token">Token</label><br>
<input id="token" name="token" type="password" autocomplete="current-password" autofocus required>
<button>Enter</button></p><p role="alert">{wrong}</p></form>"""
