"""One consortium for all tests of the pages, and a browser for each file: both take seconds to start."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from analyst_server.services import api_tokens
from protocol.tokens import Scope, TokenRequest, new_token, token_digest
from tests.harness.browser import WINDOWS, chromium, running_browser
from tests.harness.consortium import Consortium, consortium
from tests.harness.page_coverage import seen_in
from tests.harness.pages_covered import COVERED

NAMES = ("lead-hospital", "hospital-b", "hospital-c")
HOUR_S = 3600


@pytest.fixture(autouse=True)
def covers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check after a test that it has seen every page, form and box which `COVERED` says it does."""
    WINDOWS.clear()
    yield
    if shutil.which("chromium") is None:  # the test was skipped
        return
    name = getattr(request.node, "originalname", request.node.name)
    missed = {line for line, test in COVERED.items() if test == name} - seen_in(WINDOWS)
    assert not missed, f"{name} has not seen {sorted(missed)}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # not for the session: while Playwright runs, nothing else in this process can call `asyncio.run`
    with running_browser() as found:
        yield found


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    """A running analyst that holds its rounds, and three institutions; not started without a browser."""
    chromium()
    directory: Path = tmp_path_factory.mktemp("consortium")
    with consortium(directory, *NAMES, ODC_ANALYST_HOLD_RELEASE="1") as found:
        yield found


def _token(made: Consortium, scope: Scope) -> str:
    token = new_token()
    with made.operator() as opened:
        asked = TokenRequest(digest=token_digest(token), label="pages", expires_at=opened.clock() + HOUR_S)
        api_tokens.create_for_operator(opened, asked, scope)
    return token


@pytest.fixture(scope="session")
def manage(made: Consortium) -> str:
    """A token of the operator that may take its steps."""
    return _token(made, "manage")


@pytest.fixture(scope="session")
def read(made: Consortium) -> str:
    """A token of the operator that reads."""
    return _token(made, "read")
