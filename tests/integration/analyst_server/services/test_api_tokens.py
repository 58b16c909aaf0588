from __future__ import annotations

import logging
from typing import Any

import pytest

from analyst_server.services import api_tokens
from analyst_server.services.api_tokens import Grant
from protocol.errors import (
    AlreadyExistsError,
    CertificateRefusedError,
    CertificateRevokedError,
    LimitExceededError,
    MalformedMessageError,
    NotFoundError,
    NotPermittedError,
    TokenRefusedError,
)
from protocol.limits import MAX_TOKEN_S
from protocol.tokens import TokenRequest, new_token, token_digest, token_id
from tests.harness import certificates as fakes
from tests.harness.certificates import NOT_AFTER, NOW
from tests.harness.world import HOSPITAL, LEAD, World, identity, role_of


def asked(token: str, **changed: Any) -> TokenRequest:
    return TokenRequest(**{"digest": token_digest(token), "expires_at": NOW + 1000, **changed})


def made(world: World, party: str = HOSPITAL, **changed: Any) -> str:
    token = new_token()
    pem = fakes.shared_member(role_of(party), party).pem
    api_tokens.create(world.analyst, identity(party), pem, asked(token, **changed))
    return token


def test_a_token_sees_with_the_eyes_of_who_made_it(world: World) -> None:
    assert api_tokens.check(world.analyst, made(world)) == Grant(identity(HOSPITAL))


def test_a_token_may_be_for_one_round(world: World) -> None:
    world.publish()
    grant = api_tokens.check(world.analyst, made(world, collaboration_id=world.id))
    grant.require("read", world.id)
    grant.require("read", None)
    with pytest.raises(NotPermittedError, match="for another collaboration"):
        grant.require("read", "f" * 32)


def test_a_token_of_an_institution_never_manages(world: World) -> None:
    """Not even if a row were made to say so."""
    token = made(world)
    with world.records.begin(write=True) as unit:
        row = unit.token(token_id(token_digest(token)))
        assert row is not None
        row.scope = "manage"
    with pytest.raises(NotPermittedError, match="scope manage"):
        api_tokens.check(world.analyst, token).require("manage", None)


def test_the_operators_token_is_nobodys_but_the_operators(world: World) -> None:
    token = new_token()
    api_tokens.create_for_operator(world.analyst, asked(token), "manage")
    assert api_tokens.check(world.analyst, token) == Grant(None, "manage")
    assert api_tokens.listing(world.analyst, identity(HOSPITAL)) == []
    assert len(api_tokens.listing(world.analyst, None)) == 1


@pytest.mark.parametrize(
    "token", ["", "odct_", "odct_" + "a" * 42, "odct_" + "a" * 44, "ghp_" + "a" * 43, "ü"]
)
def test_what_is_no_token_is_refused_unasked(world: World, token: str) -> None:
    world.records.dispose()
    with pytest.raises(TokenRefusedError):
        api_tokens.check(world.analyst, token)


def test_a_token_that_differs_in_one_character_is_unknown(world: World) -> None:
    token = made(world)
    other = token[:-1] + ("A" if token[-1] != "A" else "B")
    with pytest.raises(TokenRefusedError, match="unknown"):
        api_tokens.check(world.analyst, other)


def test_the_id_alone_opens_nothing(world: World) -> None:
    """A second token with the same id, and another digest, is not the first."""
    token = made(world)
    with world.records.begin(write=True) as unit:
        row = unit.token(token_id(token_digest(token)))
        assert row is not None
        row.digest = row.digest[:32] + "0" * 32
    with pytest.raises(TokenRefusedError, match="unknown"):
        api_tokens.check(world.analyst, token)


def test_a_token_ends_at_its_second(world: World) -> None:
    token = made(world, expires_at=NOW + 10)
    world.clock.forward(9)
    api_tokens.check(world.analyst, token)
    world.clock.forward(1)
    with pytest.raises(TokenRefusedError, match="has ended"):
        api_tokens.check(world.analyst, token)


def test_a_token_ends_with_its_certificate(world: World) -> None:
    token = made(world, expires_at=NOW + MAX_TOKEN_S)
    (row,) = api_tokens.listing(world.analyst, identity(HOSPITAL))
    assert row.expires_at == min(NOW + MAX_TOKEN_S, NOT_AFTER)
    with world.records.begin(write=True) as unit:
        stored = unit.token(row.token_id)
        assert stored is not None
        stored.expires_at = NOT_AFTER + 100
    world.clock.now = NOT_AFTER + 10
    with pytest.raises(CertificateRefusedError):
        api_tokens.check(world.analyst, token)


def test_a_token_is_revoked_with_its_certificate(world: World) -> None:
    token = made(world)
    held = world.analyst.root.revocations
    try:
        gone = fakes.shared_member("institution", HOSPITAL).certificate
        world.analyst.root.adopt(fakes.revoke(fakes.shared_root(), gone, number=9))
        with pytest.raises(CertificateRevokedError):
            api_tokens.check(world.analyst, token)
    finally:
        world.analyst.root.revocations = held


def test_a_revoked_token_is_refused_from_then_on(world: World) -> None:
    token = made(world)
    for _ in range(2):  # its answer may have been lost
        api_tokens.revoke(world.analyst, identity(HOSPITAL), token_id(token_digest(token)))
    with pytest.raises(TokenRefusedError, match="was revoked"):
        api_tokens.check(world.analyst, token)
    (row,) = api_tokens.listing(world.analyst, identity(HOSPITAL))
    assert row.revoked


@pytest.mark.parametrize("owner", [LEAD, None])
def test_nobody_else_revokes_it(world: World, owner: str | None) -> None:
    token = made(world)
    with pytest.raises(NotFoundError):
        api_tokens.revoke(world.analyst, identity(owner) if owner else None, token_id(token_digest(token)))


def test_the_last_use_is_known_to_the_minute(world: World) -> None:
    token = made(world)

    def last_used() -> int | None:
        return api_tokens.listing(world.analyst, identity(HOSPITAL))[0].last_used_at

    assert last_used() is None
    for forward, expected in ((0, NOW), (59, NOW), (1, NOW + 60)):
        world.clock.forward(forward)
        api_tokens.check(world.analyst, token)
        assert last_used() == expected


def test_the_same_again_is_acknowledged_and_anything_else_is_not(world: World) -> None:
    token, pem = new_token(), fakes.shared_member("institution", HOSPITAL).pem
    one, created = api_tokens.create(world.analyst, identity(HOSPITAL), pem, asked(token))
    again, created_again = api_tokens.create(world.analyst, identity(HOSPITAL), pem, asked(token))
    assert (one, created, created_again) == (again, True, False)
    with pytest.raises(AlreadyExistsError):
        api_tokens.create(world.analyst, identity(HOSPITAL), pem, asked(token, label="other"))
    with pytest.raises(AlreadyExistsError):
        api_tokens.create(world.analyst, identity(LEAD), pem, asked(token))


def test_a_token_is_for_rounds_of_its_maker(world: World) -> None:
    world.publish()
    with pytest.raises(NotFoundError):
        made(world, "hospital-z", collaboration_id=world.id)
    with pytest.raises(NotFoundError):
        api_tokens.create_for_operator(world.analyst, asked(new_token(), collaboration_id="f" * 32), "read")


@pytest.mark.parametrize("seconds", [-1, 0, MAX_TOKEN_S + 1])
def test_a_token_holds_for_a_time_and_not_too_long(world: World, seconds: int) -> None:
    with pytest.raises(MalformedMessageError, match="must end within 366 days"):
        api_tokens.create_for_operator(world.analyst, asked(new_token(), expires_at=NOW + seconds), "read")


def test_the_analyst_makes_its_tokens_at_home(world: World) -> None:
    with pytest.raises(NotPermittedError, match="odc-analyst token create"):
        made(world, "analyst")


def test_there_are_only_so_many_and_those_that_ended_make_room(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_tokens, "MAX_TOKENS_OF_A_PARTY", 2)
    for _ in range(2):
        made(world, expires_at=NOW + 10)
    with pytest.raises(LimitExceededError):
        made(world)
    made(world, LEAD)
    world.clock.forward(10)
    made(world)
    assert len(api_tokens.listing(world.analyst, identity(HOSPITAL))) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"digest": "x", "expires_at": 1}',
        b'{"digest": "%s", "expires_at": "1"}' % (b"0" * 64),
    ],
)
def test_a_request_that_is_none_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedMessageError, match="token request"):
        TokenRequest.from_json(body)


def test_no_token_is_in_the_records_or_the_log(in_a_file: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    token = made(in_a_file)
    api_tokens.check(in_a_file.analyst, token)
    api_tokens.revoke(in_a_file.analyst, identity(HOSPITAL), token_id(token_digest(token)))
    in_a_file.records.dispose()
    secret = token.removeprefix("odct_").encode()
    files = [path for path in in_a_file.directory.rglob("*") if path.is_file()]
    assert files
    assert not any(secret in path.read_bytes() for path in files)
    assert secret.decode() not in caplog.text
    assert token_id(token_digest(token))[:8] in caplog.text
