"""One port for operators: /metrics, /health and /ready."""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from stream_leip import InputError

Answer = Callable[[], str | None]


class StatusServer:
    """Answers over HTTP, in threads of its own.

    Parameters
    ----------
    metrics
        The metrics, and `content_type`, theirs.
    health, ready
        None if all is well, or what is not: then the answer is 503 and says it.
    host, port
        Where it listens: on loopback, unless told otherwise, for nobody is asked who they are.
        Port 0 takes a free one.

    Examples
    --------
    >>> from urllib.request import urlopen
    >>> from stream_leip_connectors.status import StatusServer
    >>> with StatusServer(lambda: b"", "text/plain", lambda: None, lambda: None) as server:
    ...     urlopen(server.url + "/health").read().decode().strip()
    'ok'
    """

    def __init__(
        self,
        metrics: Callable[[], bytes],
        content_type: str,
        health: Answer,
        ready: Answer,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        answers = {"/health": health, "/ready": ready}

        class Handler(BaseHTTPRequestHandler):
            timeout = 10.0

            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                try:
                    self._answer(path)
                except BrokenPipeError:
                    pass  # whoever asked has gone
                except Exception as error:
                    self._send(500, f"{type(error).__name__}: {error}\n".encode())

            def _answer(self, path: str) -> None:
                if path == "/metrics":
                    self._send(200, metrics(), content_type)
                elif path in answers:
                    wrong = answers[path]()
                    self._send(200 if wrong is None else 503, f"{wrong or 'ok'}\n".encode())
                else:
                    self._send(404, b"there are /metrics, /health and /ready\n")

            def _send(self, status: int, body: bytes, kind: str = "text/plain") -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing: a probe comes every few seconds."""

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            raise InputError(
                f"metrics: cannot listen on {host}:{port}: {error.strerror}; choose another port"
            ) from error
        self._server.daemon_threads = True
        self.host, self.port = host, self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="status", daemon=True
        )

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://{self.host}:{self.port}"

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """Answer no longer, and let go of the port."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> "StatusServer":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
