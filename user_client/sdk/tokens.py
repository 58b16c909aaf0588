"""API tokens for other systems of this institution: drawn here, let in by the analyst, revoked."""

from __future__ import annotations

from dataclasses import dataclass, field

from protocol.errors import MalformedMessageError
from protocol.operations import CREATE_TOKEN, LIST_TOKENS, REVOKE_TOKEN
from protocol.tokens import TokenRequest, TokenRow, id_of, new_token, token_digest
from user_client.sdk.session import Session


@dataclass(frozen=True)
class NewToken:
    """A token, which is kept nowhere, and what it is for."""

    token: str = field(repr=False)
    row: TokenRow


def create_token(
    session: Session, *, lifetime_s: int, label: str = "", collaboration_id: str | None = None
) -> NewToken:
    """Draw a token that reads status, report and ledger of our rounds, or of one of them.

    It holds as long as the certificate of ours that lets it in, and ends with it at the latest.
    """
    token = new_token()
    asked = TokenRequest(
        digest=token_digest(token),
        label=label,
        collaboration_id=collaboration_id,
        expires_at=session.clock() + lifetime_s,
    )
    answer = session.connection.ask_json(CREATE_TOKEN, asked.model_dump_json().encode())
    return NewToken(token, TokenRow.from_answer(answer))


def list_tokens(session: Session) -> list[TokenRow]:
    """Return what the analyst keeps of our tokens: never a token itself."""
    rows = session.connection.ask_json(LIST_TOKENS).get("tokens")
    if not isinstance(rows, list):
        raise MalformedMessageError("answer", "lists no tokens; is this an ODC analyst?")
    return [TokenRow.from_answer(row) for row in rows]


def revoke_token(session: Session, token: str) -> None:
    """Take a token back, by its id or itself, which then does not leave this machine."""
    session.connection.ask(REVOKE_TOKEN, token_id=id_of(token))
