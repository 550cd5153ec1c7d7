"""Sources that go and come back, and the page that says so."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from stream_leip_connectors.dashboard.feeds import FileFeed, ReplayFeed, running
from stream_leip_connectors.dashboard.streams import Streams

from tests.dashboard.serving import Looking, serving
from tests.dashboard.updates import append, encode, update


def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


@contextmanager
def following(path: Path) -> Iterator[tuple[FileFeed, Streams]]:
    feed, streams = FileFeed(path), Streams()
    with running(feed, streams):
        yield feed, streams
    assert not any(thread.name == "feed" for thread in threading.enumerate())


def test_a_file_that_comes_goes_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "u.jsonl"
    with following(path) as (feed, streams):
        until(lambda: "No such file" in feed.health().text)
        assert feed.health().state == "waiting"
        append(path, update(0, key="a"))
        until(lambda: streams.counts().updates == 1)
        until(lambda: feed.health().state == "following")
        path.unlink()
        until(lambda: feed.health().state == "gone")
        append(path, update(0, key="b"))
        until(lambda: streams.counts().updates == 2)
        until(lambda: feed.health().state == "following")


def test_a_file_that_is_rotated_or_emptied_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "u.jsonl"
    append(path, *(update(k) for k in range(5)))
    with following(path) as (_, streams):
        until(lambda: streams.counts().updates == 5)
        path.rename(tmp_path / "u.jsonl.1")
        append(path, update(5))
        until(lambda: streams.counts().updates == 6)
        os.truncate(path, 0)
        time.sleep(0.3)
        append(path, update(6))
        until(lambda: streams.counts().updates == 7)


def test_lines_that_are_not_whole_wait_and_bad_ones_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "u.jsonl"
    line = encode(update(0))[0]
    path.write_bytes(b"nonsense\n\n" + line[:50])
    with following(path) as (_, streams):
        until(lambda: streams.counts().bad == 1)
        with path.open("ab") as file:
            file.write(line[50:] + b"\n\xff\n")
        until(lambda: streams.counts().updates == 1)
        until(lambda: streams.counts().bad == 2)


# Just at the beginning of a line, and inside of the line before it.
@pytest.mark.parametrize("more", [0, 10])
def test_of_a_long_file_the_newest_lines_are_read(tmp_path: Path, more: int) -> None:
    path = tmp_path / "u.jsonl"
    lines = encode(*(update(k) for k in range(9)))
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    kept = sum(len(line) + 1 for line in lines[5:])
    feed, streams = FileFeed(path, tail_bytes=kept + more), Streams()
    with running(feed, streams):
        until(lambda: streams.counts().updates == 4)
        until(lambda: "without its first 0.0 MB" in feed.health().text)
        os.truncate(path, 0)
        time.sleep(0.3)
        append(path, update(9))
        until(lambda: streams.counts().updates == 5)
        until(lambda: feed.health().text == f"following {path}")
    assert streams.counts().bad == 0


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with following(tmp_path) as (feed, _):
        until(lambda: "directory" in feed.health().text)


def test_a_replay_that_is_stopped_ends_at_once() -> None:
    done: list[int] = []

    def begin(on_update: Any, progress: Any) -> None:
        for number in range(1_000_000):
            done.append(number)
            progress(number, 1_000_000)

    feed = ReplayFeed("a drift", begin, 100.0, {})
    with running(feed, Streams()):
        until(lambda: len(done) > 5)
        assert "event" in feed.health().text
    assert len(done) < 10_000


@pytest.mark.needs_browser
def test_the_page_tells_of_its_source(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "u.jsonl"
    with serving(path) as url, Looking(browser, url, ready=False) as page:
        page.until("#health", "waiting for it")
        assert page.text("#name") == "no update yet"
        append(path, update(0))
        page.until("#mix-now", "cat: 50.0 %")
        page.until("#health", f"following {path}")
        with path.open("ab") as file:
            file.write(b'{"classes": ["<b>", "</div><i>"], "prior": [2]}\n')
        page.until("#notes", "1 line is no update; the last: prior: 1 entries for 2 classes.")
        path.unlink()
        page.until("#health", "waiting for it to come back")
        assert page.page.locator("#health").get_attribute("data-state") == "gone"
        assert page.text("#mix-now").startswith("cat: 50.0 %")
        append(path, update(1, (0.1, 0.1, 0.8)))
        page.until("#mix-now", "fox: 80.0 %")
        assert page.page.locator("#health").get_attribute("data-state") == "following"


@pytest.mark.slow
@pytest.mark.needs_browser
def test_the_page_tells_that_the_server_is_gone_and_finds_it_again(
    browser: Any, tmp_path: Path
) -> None:
    from urllib.parse import urlsplit

    path = tmp_path / "u.jsonl"
    append(path, update(0))
    with serving(path) as url:
        page = Looking(browser, url)
    page.until("#health", "does not answer")
    page.said.clear()  # the browser names the lost connection, rightly
    with serving(path, port=int(urlsplit(url).port or 0)):
        page.until("#health", f"following {path}", timeout=30_000)
        page.until("#mix-now", "cat: 50.0 %")
    page.page.close()


@pytest.mark.needs_browser
def test_with_nothing_at_hand_a_replay_is_shown(browser: Any) -> None:
    with (
        serving("--pace", "20000", "--events", "30000") as url,
        Looking(browser, url) as page,
    ):
        page.until("#health", "replay of a drift (tour)")
        page.until("#settings", "Adaptive(every=1000)")
        names = page.page.locator("#keys option").all_inner_texts()
        assert {name.split(" (")[0].lstrip("▲△ ") for name in names} == {
            "adaptive",
            "tumbling LEIP",
            "tumbling EM",
        }
        page.until("#health", "is over", timeout=60_000)
        true = [name for name in page.drawn("mix") if name.endswith(", true")]
        assert len(true) == 6
