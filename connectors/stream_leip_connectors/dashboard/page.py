"""The page around the figures, and the server that it comes from."""

import logging
import secrets
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import bokeh
from bokeh.application import Application
from bokeh.application.handlers.function import FunctionHandler
from bokeh.document import Document
from bokeh.protocol.exceptions import ProtocolError
from bokeh.server.server import BaseServer
from bokeh.server.tornado import BokehTornado
from bokeh.settings import settings as bokeh_settings
from jinja2 import Environment
from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.netutil import bind_sockets

from stream_leip import InputError
from stream_leip_connectors.addresses import Address
from stream_leip_connectors.dashboard.access import Access
from stream_leip_connectors.dashboard.feeds import Feed
from stream_leip_connectors.dashboard.streams import Streams
from stream_leip_connectors.dashboard.view import View
from stream_leip_connectors.figures.drawing import COLOURS, LEGEND
from stream_leip_connectors.figures.embedding import as_json


class Page:
    """Makes the document of each browser that comes."""

    def __init__(self, streams: Streams, feed: Feed, known: Mapping[str, str]) -> None:
        ours, shared = (
            files(f"stream_leip_connectors.{name}") for name in ("dashboard", "figures")
        )
        self._streams = streams
        self._feed = feed
        self._known = known
        # Bokeh gives a template the macro `embed` through its own environment only.
        text = ours.joinpath("page.html").read_text(encoding="utf-8")
        self._template = Environment(autoescape=False).from_string(_EMBED + text)
        self._variables = {
            "css": "".join(each.joinpath("page.css").read_text("utf-8") for each in (shared, ours)),
            "js": shared.joinpath("paint.js").read_text("utf-8")
            + ours.joinpath("page.js").read_text("utf-8"),
            "version": bokeh.__version__,
        }

    def __call__(self, document: Document) -> None:
        """Fill a document."""
        view = View(self._streams, self._feed, self._known, _wanted(document))
        view.attach(document)
        document.title = "stream-leip dashboard"
        document.template = self._template
        document.template_variables.update(self._variables, ids=as_json(_ids(view)))


def _wanted(document: Document) -> str | None:
    """The stream that the page's address names."""
    context: Any = document.session_context
    named = None if context is None else context.request.arguments.get("key")
    return named[0].decode("utf-8", "replace") if named else None


def _ids(view: View) -> dict[str, Any]:
    """What the page's own script needs to find."""
    painted: dict[str, list[str]] = {}
    for plot in view.plots.values():
        for name, found in plot.painted().items():
            painted.setdefault(name, []).extend(found)
    return {
        "board": view.board.id,
        "range": view.x_range.id,
        "figures": [plot.figure.id for plot in view.plots.values()],
        "painted": painted,
        "legend": LEGEND,
        "colours": COLOURS,
    }


class Dashboard:
    """The server of the page.

    Parameters
    ----------
    streams, feed
        What there is to see.
    address
        Where to listen, and who may look.
    known
        More settings of the monitor to show.
    """

    def __init__(
        self,
        streams: Streams,
        feed: Feed,
        address: Address,
        known: Mapping[str, str] | None = None,
    ) -> None:
        # Whatever the environment says to Bokeh: nothing from elsewhere, and our origins only.
        bokeh_settings.resources = "server"
        bokeh_settings.allowed_ws_origin = []
        for name in ("tornado.application", "bokeh.server.views.ws"):
            logging.getLogger(name).addFilter(_worth_telling)
        try:
            sockets = bind_sockets(address.port, address.address)
        except OSError as error:
            raise InputError(
                f"port: {address.address}:{address.port} cannot be listened at: "
                f"{error.strerror or error}; choose another with --port"
            ) from error
        port = sockets[0].getsockname()[1]
        hosts = address.hosts(port)
        token = None if address.token is None else address.token.get_secret_value()
        page = Page(streams, feed, known or {})
        application = BokehTornado(
            {"/": Application(FunctionHandler(page))},
            extra_websocket_origins=hosts,
            auth_provider=Access(hosts, token),
            secret_key=secrets.token_bytes(32),
            sign_sessions=True,
            include_headers=[],
            include_cookies=[],
        )
        http = HTTPServer(application)
        http.add_sockets(sockets)
        self._server = BaseServer(IOLoop.current(), application, http)
        self._server.start()
        self.url = address.url(port)

    def run(self) -> None:
        """Serve until `stop`."""
        try:
            self._server.io_loop.start()
        finally:
            self._server.stop()

    def stop(self) -> None:
        """End; may be called from a signal handler."""
        loop = self._server.io_loop
        loop.add_callback_from_signal(loop.stop)


def _worth_telling(record: logging.LogRecord) -> bool:
    """Not that a page was closed, nor that one of a server before this knocked: it loads anew."""
    error = record.exc_info[1] if record.exc_info else None
    usual = ("Token for session", "Failed sending message")
    return not (isinstance(error, ProtocolError) or str(record.msg).startswith(usual))


_EMBED = """{%- macro embed(root) -%}
<div id="{{ root.elementid }}" data-root-id="{{ root.id }}" style="display: contents;"></div>
{%- endmacro -%}
"""
