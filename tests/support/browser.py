"""Headless Chromium of the system, through Playwright, for tests and for screenshots."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

PATIENCE_MS = 120_000
"""On a busy machine."""

_complaints: list[str] = []
"""What pages said in their consoles since `fresh_complaints` was asked."""


def fresh_complaints() -> list[str]:
    """What pages complained about since the last call, each once."""
    said = _complaints.copy()
    _complaints.clear()
    return said


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser for the length of a block."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        try:
            yield browser
        finally:
            browser.close()


class Seen:
    """A page, with what it asked for; what it complains about fails the test that is running."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.asked: list[str] = []
        page.on("console", lambda said: self._heard(said.type, f"{said.text} {said.location}"))
        page.on("pageerror", lambda error: _complaints.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))

    def _heard(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            _complaints.append(text)

    def open(self, url: str) -> Seen:
        """Open an address and wait until the page has drawn."""
        self.page.goto(url)
        self.page.wait_for_selector("#view > *")
        return self

    def drawn(self) -> Seen:
        """Wait until what the page was told before is drawn: it draws with the next frame."""
        self.page.evaluate("() => new Promise((done) => { requestAnimationFrame(done); })")
        return self

    def until(self, condition: str) -> None:
        """Wait until a condition in JavaScript holds, and is drawn."""
        self.page.wait_for_function(f"() => {condition}")
        self.drawn()

    def shows(self, *words: str) -> None:
        """Wait until all of these are to be read."""
        for each in words:
            self.until(f"document.body.innerText.includes({json.dumps(each)})")

    def text(self) -> str:
        """Everything that is to be read."""
        return self.drawn().page.inner_text("body")


@contextmanager
def seen(
    browser: Browser, *, width: int = 1280, dark: bool = False, offline: bool = False
) -> Iterator[Seen]:
    """A new page for the length of a block."""
    context: BrowserContext = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if dark else "light",
        offline=offline,
        reduced_motion="reduce",
        locale="en-US",
    )
    context.set_default_timeout(PATIENCE_MS)
    page = Seen(context.new_page())
    try:
        yield page
    finally:
        context.close()
