"""A real browser: the system's Chromium, driven by Playwright, and what every page in it has to keep.

Playwright brings no browser here. Where Debian's package `chromium` is not installed the tests are skipped;
with ``ODC_REQUIRE_CHROMIUM`` set, as CI does, they fail.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import pytest
import tomli_w
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, Response, sync_playwright

from tests.harness.consortium import terms
from tests.harness.tree import REPOSITORY

SCREENSHOTS: Final = REPOSITORY / "build" / "browser"
MOST_PIXELS: Final = 6_000
"""Of the height of a page in a picture; the longest of the manual take seconds to draw."""
RULES_OF_COLOURS: Final = ["color-contrast", "link-in-text-block"]
"""The rules of axe whose answers another choice of colours can change."""
MOST_BYTES: Final = 300_000
"""Of a page with all that it loads."""
_SECONDS: Final = """() => {
  const [page] = performance.getEntriesByType('navigation');
  return (page.loadEventEnd - page.startTime) / 1000;
}"""
"""From the click, or from typing the address, until the page and what it loads is there."""
WINDOWS: Final[list[Watched]] = []
"""Every window of a server's pages that was opened, for who wants to know what was seen in them."""
_FLAGS: Final = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> str:
    """Return where Chromium is; skip the test, or fail it, where there is none."""
    found = shutil.which("chromium")
    if found is None:
        why = "Debian's package chromium is not installed"
        if os.environ.get("ODC_REQUIRE_CHROMIUM"):
            pytest.fail(why)
        pytest.skip(why)
    return found


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Start Chromium, with a directory of its own that is removed at the end."""
    path = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=_FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@dataclass(frozen=True)
class Asked:
    """One answer that a page has got: what was asked for, with which fields of a form, and the status."""

    method: str
    path: str
    status: int
    fields: frozenset[str]


@dataclass
class Watched:
    """A page of a browser, and everything that it must not do."""

    page: Page
    origin: str
    complaints: list[str] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    expected: tuple[int, ...] = ()
    """Statuses that a test provokes, of which the console complains."""
    is_folder: bool = False
    """Whether the pages are files, which have no header fields, and so no policy."""
    asked: list[Asked] = field(default_factory=list)
    looked: set[str] = field(default_factory=set)
    """The templates of the pages that were looked at, such as ``tokens``."""

    def __post_init__(self) -> None:
        self.page.on("console", self._note_console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"script: {error}"))
        self.page.on("request", self._note_request)
        self.page.on("response", self._note_response)

    @property
    def side(self) -> str:
        """Whose pages these are: the analyst's have TLS, an institution's own are on the loopback without."""
        return "analyst" if self.origin.startswith("https:") else "own"

    def _note_console(self, message: Any) -> None:
        is_expected = any(f"status of {status}" in message.text for status in self.expected)
        if message.type in ("error", "warning") and not is_expected:
            self.complaints.append(f"console: {message.text}")

    def _note_request(self, request: Any) -> None:
        if not request.url.startswith((f"{self.origin}/", "data:")):
            self.complaints.append(f"left the origin: {request.url}")

    def _note_response(self, response: Response) -> None:
        request = response.request
        if request.url.startswith(f"{self.origin}/") and not self.is_folder:
            form = dict(parse_qsl(request.post_data or ""))
            path = urlsplit(request.url).path
            self.asked.append(Asked(request.method, path, response.status, frozenset(form)))
        if response.request.resource_type == "document" and response.ok and not self.is_folder:
            policy = response.headers.get("content-security-policy", "")
            if "default-src 'none'" not in policy or "unsafe" in policy:
                self.complaints.append(f"policy: {policy!r} of {response.url}")

    def open(self, path: str) -> None:
        """Go to a page by its address."""
        self.page.goto(f"{self.origin}{path}")

    def click(self, words: str, role: Any = "link", *, is_exact: bool = True) -> None:
        """Click what has these words, and wait for the page it leads to."""
        self.page.get_by_role(role, name=words, exact=is_exact).first.click()
        self.page.wait_for_load_state()

    def shot(self, name: str) -> None:
        """Do as `look` does, and raise if the page and what it loads is too heavy; note how quick it was."""
        self.look(name)
        self.check_weight()
        self.looked.add(self.page.evaluate("() => document.body.dataset.page"))
        with (SCREENSHOTS / "seconds.tsv").open(
            "a"
        ) as table:  # how long it took on a machine that others use too
            table.write(f"{name}\t{self.page.evaluate(_SECONDS):.3f}\n")

    def look(self, name: str) -> None:
        """Keep a picture of the page, and look for what shuts people out, in light and in dark."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        width, height = self.page.evaluate("() => [innerWidth, document.documentElement.scrollHeight]")
        for scheme in ("light", "dark"):
            self.page.emulate_media(color_scheme=scheme)
            self.page.screenshot(
                path=str(SCREENSHOTS / f"{name}-{scheme}.png"),
                full_page=True,
                clip={"x": 0, "y": 0, "width": width, "height": min(height, MOST_PIXELS)},
            )
            self.check_access(f"{name}, {scheme}", colours_alone=scheme == "dark")
        self.page.emulate_media(color_scheme="light")
        assert self.page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")

    def check_access(self, where: str, *, colours_alone: bool = False) -> None:
        """Raise if axe finds anything that shuts people out; on request by its rules of colours alone."""
        # axe is put into the page past its policy, as an extension of the browser would be
        options: dict[str, Any] = {"resultTypes": ["violations"]}
        options["preload"] = not self.is_folder  # files cannot be fetched
        if colours_alone:
            options["runOnly"] = {"type": "rule", "values": RULES_OF_COLOURS}
        found = Axe().run(self.page, options=options).response["violations"]
        said = [
            f"{one['id']}: {node['html'][:160]} {node.get('failureSummary', '')[:300]}"
            for one in found
            for node in one["nodes"][:3]
        ]
        assert not said, f"{where}: {said}"

    def check_weight(self) -> None:
        """Raise if the page and what it loads is too heavy."""
        script = (
            "() => performance.getEntriesByType('resource')"
            ".concat(performance.getEntriesByType('navigation'))"
            ".reduce((sum, one) => sum + one.decodedBodySize, 0)"
        )
        assert self.page.evaluate(script) < MOST_BYTES

    def check(self) -> None:
        """Raise if the page did anything that it must not."""
        assert not self.complaints, "; ".join(self.complaints)


@contextmanager
def visiting(browser: Browser, origin: str, **options: Any) -> Iterator[Watched]:
    """Open a page in a window of its own; look at the end whether it kept the rules."""
    with _context(browser, **options) as context:
        watched = Watched(context.new_page(), origin)
        WINDOWS.append(watched)
        yield watched
        watched.check()


@contextmanager
def reading(browser: Browser, folder: Path, **options: Any) -> Iterator[Watched]:
    """Open pages that are files of a folder; look at the end whether they kept the rules."""
    with _context(browser, **options) as context:
        watched = Watched(context.new_page(), folder.as_uri(), is_folder=True)
        yield watched
        watched.check()


@contextmanager
def _context(browser: Browser, **options: Any) -> Iterator[BrowserContext]:
    # the root of a consortium is not one that browsers know
    context = browser.new_context(ignore_https_errors=True, **options)
    context.set_default_timeout(20_000)
    try:
        yield context
    finally:
        context.close()


def sign_in(watched: Watched, token: str) -> None:
    """Type a token into the sign-in page that is shown."""
    watched.page.get_by_label("API token").fill(token)
    watched.click("Sign in", "button")


def pem_files(directory: Path) -> dict[str, str]:
    """Return where an institution keeps its certificate and its key, in Playwright's words."""
    return {"certPath": str(directory / "certificate.pem"), "keyPath": str(directory / "key.pem")}


def draft_in_toml(names: Sequence[str], **changed: Any) -> str:
    """Return a draft of terms as the lead institution sends it."""
    return tomli_w.dumps(terms(names, **changed))


@contextmanager
def own_pages(home: Path, *options: str) -> Iterator[str]:
    """Start `odc ui` of an institution as a process of its own, and yield the address that opens once."""
    words = ["--home", str(home), "ui", "--no-browser", *options]
    process = subprocess.Popen(
        [sys.executable, "-m", "user_client", *words], stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert "http://127.0.0.1:" in line, line
        yield line.rpartition(" ")[2].strip()
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
        process.stdout.close()


def origin_of(address: str) -> str:
    """Return the origin of an address."""
    return "/".join(address.split("/")[:3])


def press_until(page: Page, name: str) -> None:
    """Press Tab until something with this name has the focus, as somebody without a mouse does."""
    for _ in range(60):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            "() => (document.activeElement.labels?.[0] ?? document.activeElement).textContent.trim()"
        )
        if focused.startswith(name):
            return
    raise AssertionError(f"no way to {name} by the keyboard")


def enter(page: Page) -> None:
    """Press Enter on what leads to another page, and wait for that."""
    with page.expect_navigation():
        page.keyboard.press("Enter")
