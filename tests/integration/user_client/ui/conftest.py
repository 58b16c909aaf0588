from __future__ import annotations

from functools import partial

import httpx
import pytest

from tests.harness.app import ToApp
from tests.harness.clicking import Clicking
from tests.harness.in_process import Consortium
from user_client.sdk import Session
from user_client.ui import work
from user_client.ui.app import create_app
from user_client.ui.entry import Entry
from user_client.ui.work import Desk

HOST = "127.0.0.1:41000"


def let_in(consortium: Consortium, session: Session) -> Clicking:
    """Start the pages of an institution, and let a browser in."""
    entry, desk = Entry(HOST), Desk(session.home.path, lambda: "")
    client = httpx.Client(transport=ToApp(create_app(desk, entry)), base_url=f"http://{HOST}")
    client.get(entry.url)
    return Clicking(client, desk, consortium)


@pytest.fixture
def founded(consortium: Consortium, monkeypatch: pytest.MonkeyPatch) -> Consortium:
    """A consortium of two, with a clock that the pages have as well."""
    monkeypatch.setattr(work, "Session", partial(Session, clock=consortium.clock))
    return consortium.until_joined()


@pytest.fixture
def clicking(founded: Consortium) -> Clicking:
    """The browser of the hospital."""
    return let_in(founded, founded.hospital)


@pytest.fixture
def leading(founded: Consortium) -> Clicking:
    """The browser of the lead."""
    return let_in(founded, founded.lead)
