"""Somebody with a browser at the hospital, and no script; the analyst is in the same process."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from html import unescape

import httpx

from tests.harness.in_process import Consortium
from tests.harness.visitor import SAME_ORIGIN, hidden
from user_client.ui.work import Desk

WAIT_S = 60


@dataclass
class Clicking:
    """A browser that was let in, and the round that it looks at."""

    client: httpx.Client
    desk: Desk
    consortium: Consortium

    @property
    def round(self) -> str:
        return f"/ui/rounds/{self.consortium.id}"

    def see(self, page: str = "") -> str:
        """Return a page of the round."""
        answer = self.client.get(f"{self.round}{page}")
        assert answer.status_code == 200, answer.text
        return answer.text

    def alert(self, page: str = "") -> str:
        """Return the error that a page of the round shows; empty if it shows none."""
        found = re.search(r'<div class="note bad" role="alert">(.*?)</div>', self.see(page), re.DOTALL)
        return unescape(found[1]) if found else ""

    def headings(self, page: str) -> list[str]:
        """Return the headings of a page of the round, without their marks."""
        return [re.sub("<[^>]+>", "", one) for one in re.findall(r"<h2>(.*?)</h2>", self.see(page))]

    def field(self, page: str, name: str) -> str:
        """Return what stands in a field of a page of the round."""
        found = re.search(
            rf'<input type="text" id="{name}" name="{name}"[^>]* value="([^"]*)"', self.see(page)
        )
        assert found is not None
        return unescape(found[1])

    def send(self, act: str, seen_on: str, **fields: str) -> httpx.Response:
        """Send a form as the page does that it stands on."""
        filled = {**hidden(self.see(seen_on)), **fields}
        return self.client.post(f"{self.round}/{act}", data=filled, headers=SAME_ORIGIN)

    def work(self, act: str, seen_on: str, **fields: str) -> None:
        """Send a form that begins work, and wait until that is over."""
        answer = self.send(act, seen_on, **fields)
        assert answer.headers.get("location") == f"{self.round}/work", answer.text
        deadline = time.monotonic() + WAIT_S
        while self.desk.is_busy:
            assert time.monotonic() < deadline
            time.sleep(0.02)
