from __future__ import annotations

import pytest

from protocol.errors import InputError, TokenRefusedError
from protocol.tokens import id_of, new_token, token_digest, token_id


def test_tokens_are_drawn_anew_and_can_be_told_from_other_secrets() -> None:
    drawn = {new_token() for _ in range(100)}
    assert len(drawn) == 100
    assert all(token.startswith("odct_") and len(token) == 48 for token in drawn)


def test_a_digest_is_of_the_whole_token() -> None:
    token = new_token()
    assert token_digest(token) != token_digest(new_token())
    assert token_id(token_digest(token)) == token_digest(token)[:32]


@pytest.mark.parametrize(
    "text", ["", "odct_", "ODCT_" + "a" * 43, "odct_" + "a" * 43 + "\n", "odct_" + "=" * 43]
)
def test_what_is_no_token_is_not_repeated(text: str) -> None:
    with pytest.raises(TokenRefusedError, match=r"^this is no API token$"):
        token_digest(text)


def test_a_person_may_name_a_token_by_itself() -> None:
    token = new_token()
    assert id_of(token) == id_of(token_id(token_digest(token)))
    for wrong in ("x", "../" * 10 + "ab", "A" * 32):
        with pytest.raises(InputError):
            id_of(wrong)
