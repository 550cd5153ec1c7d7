"""Telling people over HTTP that a mix has changed: once, and never at the stream's expense."""

import logging
import queue
import threading
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from stream_leip import Update
from stream_leip_connectors.addresses import host_of

log = logging.getLogger(__name__)

Kind = Literal["warning", "raised", "settled", "check-flagged"]
NOTICE_SCHEMA = 1
_PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)
# Answers after which trying again may help.
_LATER = (408, 425, 429, 500, 502, 503, 504)


class Notices:
    """Finds what is worth telling in updates: what is so now, and was not before.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from stream_leip import Update
    >>> from stream_leip_connectors.notifying import Notices
    >>> calm = {"warning": False, "raised": False, "since": None, "classes": []}
    >>> update = Update(0, 0, 499, None, None, 500, ("cat", "dog"), "EM", "", alarm=calm)
    >>> loud = replace(update, alarm=calm | {"warning": True, "raised": True, "since": 450})
    >>> notices = Notices()
    >>> [notice["kind"] for notice in notices.of([update, loud, loud, update])]
    ['raised', 'settled']
    """

    def __init__(self) -> None:
        self._stand: dict[tuple[str | None, str], str] = {}

    def of(self, updates: Iterable[Update]) -> list[dict[str, Any]]:
        """The notices of these updates, in their order."""
        return [
            _notice(kind, update)
            for update in updates
            for kind in (self._alarm(update), self._check(update))
            if kind is not None
        ]

    def learn(self, updates: Iterable[Update]) -> None:
        """Know how things stand, without a word: what was told before need not be told again."""
        self.of(updates)

    def state(self) -> list[tuple[str | None, str, str]]:
        """Key, what, and how it stands, of all that has not settled."""
        return [(key, what, stands) for (key, what), stands in self._stand.items()]

    def restore(self, state: Iterable[Sequence[str | None]]) -> None:
        """Know how things stood: what was told before need not be told again."""
        self._stand |= {(key, str(what)): str(stands) for key, what, stands in state}

    @property
    def keys(self) -> set[str | None]:
        """Keys of which something was told that has not settled."""
        return {key for key, _ in self._stand}

    def forget(self, keys: Iterable[str | None]) -> None:
        """Forget keys that have expired, or went to another process."""
        for key in keys:
            self._stand.pop((key, "alarm"), None)
            self._stand.pop((key, "check"), None)

    def _alarm(self, update: Update) -> Kind | None:
        alarm = update.alarm
        if alarm is None:
            return None
        now: Kind = "raised" if alarm["raised"] else "warning" if alarm["warning"] else "settled"
        before = self._was((update.key, "alarm"), now, "settled")
        return None if now == before else now

    def _check(self, update: Update) -> Kind | None:
        if update.check is None:
            return None
        now = "flagged" if update.check["flagged"] else "fine"
        before = self._was((update.key, "check"), now, "fine")
        return "check-flagged" if now == "flagged" and before != "flagged" else None

    def _was(self, what: tuple[str | None, str], now: str, quiet: str) -> str:
        """How a thing stood; from here on, it stands as it does now. Quiet ones are not kept."""
        before = self._stand.pop(what, quiet)
        if now != quiet:
            self._stand[what] = now
        return before


class Notifier:
    """Posts notices as JSON, in a thread of its own.

    A post that fails is tried again for about a quarter of a minute, then dropped with a line in
    the log. When too many wait, new ones are dropped: the stream never waits.

    Parameters
    ----------
    url
        Where to. It may hold a secret, so only its host is ever shown.
    timeout
        Seconds that one try may take.
    pauses
        Seconds between one try and the next.
    most_waiting
        Notices that may wait.

    Attributes
    ----------
    posted, dropped
        How many were.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout: float = 5.0,
        pauses: Sequence[float] = _PAUSES,
        most_waiting: int = 1000,
    ) -> None:
        self._url = url
        self._host = host_of(url)
        self._timeout = timeout
        self._pauses = tuple(pauses)
        self._waiting: queue.Queue[bytes] = queue.Queue(most_waiting)
        self._stop = threading.Event()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="notify", daemon=True)
        self._thread.start()
        self.posted = 0
        self.dropped = 0

    def post(self, notices: Iterable[dict[str, Any]]) -> None:
        """Have notices posted, soon."""
        for notice in notices:
            try:
                self._waiting.put_nowait(msgspec.json.encode(notice))
            except queue.Full:
                self._drop("too many wait")

    def close(self, timeout: float = 5.0) -> None:
        """Post what waits, as far as there is time, and end."""
        self._ending.set()
        self._thread.join(timeout)
        self._stop.set()
        self._thread.join(self._timeout + 1.0)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                body = self._waiting.get(timeout=0.1)
            except queue.Empty:
                if self._ending.is_set():
                    return
                continue
            why = self._deliver(body)
            if why is None:
                self.posted += 1
            else:
                self._drop(why)

    def _deliver(self, body: bytes) -> str | None:
        """Post, if need be more than once; why not, if it cannot be done."""
        why: str | None = None
        for pause in (*self._pauses, None):
            why, later = self._try(body)
            if why is None or not later or pause is None or self._stop.wait(pause):
                break
        return why

    def _try(self, body: bytes) -> tuple[str | None, bool]:
        """Why a post failed, None if it did not; and whether it may go better later."""
        request = urllib.request.Request(
            self._url, body, {"Content-Type": "application/json", "User-Agent": "stream-leip"}
        )
        try:
            with urllib.request.urlopen(request, timeout=self._timeout):
                return None, False
        except urllib.error.HTTPError as error:
            with error:
                return f"the answer was {error.code} {error.reason}", error.code in _LATER
        except (OSError, ValueError) as error:
            return str(getattr(error, "reason", error)), True

    def _drop(self, why: str) -> None:
        self.dropped += 1
        log.warning("a notice to %s was dropped: %s", self._host, why)


def _notice(kind: Kind, update: Update) -> dict[str, Any]:
    alarm, check = update.alarm or {}, update.check or {}
    moved = [each["class"] if isinstance(each, dict) else each for each in alarm.get("classes", ())]
    # A receiver that gets it twice, after a crash say, knows it by its id.
    number = alarm.get("since") if kind in ("warning", "raised") else None
    number = update.last if number is None else number
    return {
        "schema": NOTICE_SCHEMA,
        "id": f"{kind}:{update.key or ''}:{number}",
        "kind": kind,
        "key": update.key,
        "text": _text(kind, update, number, moved, check.get("message")),
        "event": update.last,
        "time": update.end,
        "since": alarm.get("since"),
        "moved": moved,
        "prior": None
        if update.prior is None
        else dict(zip(update.classes, map(float, update.prior), strict=True)),
    }


def _text(
    kind: Kind, update: Update, number: int | None, moved: list[str], message: str | None
) -> str:
    """For people: chats that take JSON show the field `text`."""
    whose = "the class mix" if update.key is None else f"the class mix of {update.key}"
    if kind == "check-flagged":
        return f"More than {whose} has changed: {message or 'a new mix does not explain it'}"
    if kind == "settled":
        return f"Settled: {whose} is steady again, at event {number}."
    which = f": {', '.join(moved[:5])} moved" if moved else ""
    if kind == "raised":
        return f"Alarm: {whose} has changed, seen at event {number}{which}."
    return f"Warning: {whose} may have changed, seen at event {number}{which}."
