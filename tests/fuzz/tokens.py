"""API tokens of the analyst that is fuzzed."""

from __future__ import annotations

from typing import Final

from analyst_server.services import api_tokens
from protocol.tokens import Scope, TokenRequest, token_digest
from tests.harness.certificates import NOW, shared_member
from tests.harness.world import HOSPITAL, World, identity, role_of

TOKENS: Final = {name: "odct_" + name[0] * 43 for name in ("operator", "reader", "member", "guest")}
"""Two of the analyst's operator, to manage and to read; two of an institution, for all rounds and for one."""
_SCOPES: Final[dict[str, Scope]] = {"operator": "manage", "reader": "read"}


def make_tokens(world: World, one_round: str) -> None:
    """Register all of them; the guest's is for ``one_round``."""
    digests = {name: token_digest(token) for name, token in TOKENS.items()}
    for name, scope in _SCOPES.items():
        asked = TokenRequest(digest=digests[name], expires_at=NOW + 1000)
        api_tokens.create_for_operator(world.analyst, asked, scope)
    pem = shared_member(role_of(HOSPITAL), HOSPITAL).pem
    for name, only in (("member", None), ("guest", one_round)):
        asked = TokenRequest(digest=digests[name], expires_at=NOW + 1000, collaboration_id=only)
        api_tokens.create(world.analyst, identity(HOSPITAL), pem, asked)
