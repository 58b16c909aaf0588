"""A browser without a window: it keeps cookies, sends forms as our pages do, and runs no script."""

from __future__ import annotations

import re
from html import unescape

import httpx

from analyst_server.services import api_tokens
from protocol.tokens import Scope, TokenRequest, new_token, token_digest
from tests.harness.app import Api

SAME_ORIGIN = {"sec-fetch-site": "same-origin"}
HOUR_S = 3600


def operator_token(api: Api, scope: Scope = "manage", only: str | None = None, hours: int = 24) -> str:
    """Return a token of the analyst's operator."""
    token, ends = new_token(), api.world.clock() + hours * HOUR_S
    asked = TokenRequest(digest=token_digest(token), collaboration_id=only, expires_at=ends)
    api_tokens.create_for_operator(api.world.analyst, asked, scope)
    return token


def hidden(page: str) -> dict[str, str]:
    """Return the hidden fields of a page's forms."""
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', page)
    return {name: unescape(value) for name, value in found}


def send(client: httpx.Client, path: str, seen_on: str, **fields: str) -> httpx.Response:
    """Send a form as a page of ours does that was looked at before."""
    filled = {**hidden(client.get(seen_on).text), **fields}
    return client.post(path, data=filled, headers=SAME_ORIGIN)


def sign_in(client: httpx.Client, token: str) -> httpx.Response:
    """Type a token into the sign-in page."""
    return send(client, "/pages/sign-in", "/pages/sign-in", token=token)
