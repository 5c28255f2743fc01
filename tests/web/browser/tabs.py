# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A real browser, and pages that are open in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

PATIENCE = 60_000  # milliseconds, for a machine that is busy
expect.set_options(timeout=PATIENCE)


@contextmanager
def started(chromium: str) -> Iterator[Browser]:
    """As long as it runs, nobody else can have a loop of asyncio in this thread."""
    with sync_playwright() as playwright:
        # root has no sandbox
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


class Tabs:
    """Opens pages, each in a browser of its own that knows nothing yet, and hears what is wrong with them."""

    def __init__(self, browser: Browser, url: str) -> None:
        self._browser = browser
        self._url = url
        self._contexts: list[Any] = []
        self.complaints: list[str] = []
        self.expected: list[str] = []  # words of complaints that a test makes on purpose

    def __call__(self, **options: Any) -> Page:
        context = self._browser.new_context(base_url=self._url, **options)
        context.set_default_timeout(PATIENCE)
        self._contexts.append(context)
        page = context.new_page()
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(f"{page.url}: {error}"))
        return page

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.location.get('url')}: {message.text}")

    def close(self) -> None:
        for one in self._contexts:
            one.close()

    @property
    def unexpected(self) -> list[str]:
        return [one for one in self.complaints if not any(words in one for words in self.expected)]


@contextmanager
def opened(browser: Browser, url: str) -> Iterator[Tabs]:
    """Of the site at `url`; what the content security policy forbids is among what is heard."""
    tabs = Tabs(browser, url)
    try:
        yield tabs
    finally:
        tabs.close()
    assert tabs.unexpected == [], tabs.unexpected
