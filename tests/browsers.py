"""The browser of this machine, headless, and what a page in it has to say."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def browsing() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, NAMES)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def listen(page: Any) -> tuple[list[str], list[str]]:
    """Lists that fill with what a page says, each with its kind, and with what it asks for."""
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda each: said.append(f"{each.type}: {each.text}"))
    page.on("pageerror", lambda each: said.append(f"error: {each}"))
    page.on("dialog", lambda each: said.append(f"error: dialog {each.message}"))
    page.on("request", lambda each: asked.append(each.url))
    page.on("websocket", lambda each: asked.append(each.url))
    return said, asked


def loud(said: list[str]) -> list[str]:
    """Errors and warnings."""
    return [each for each in said if each.split(":")[0] in ("error", "warning")]
