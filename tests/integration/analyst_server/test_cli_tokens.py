"""`odc-analyst token`: what the operator types and reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from analyst_server.services import api_tokens
from protocol.errors import InputError, NotFoundError, TokenRefusedError
from tests.harness.world import World

Run = Callable[..., Any]


def test_the_operators_token_is_made_listed_and_revoked(run: Run, world: World) -> None:
    world.publish()
    made = json.loads(
        run("token", "create", "--scope", "manage", "--collaboration", world.id[:6], "--json").output
    )
    grant = api_tokens.check(world.analyst, made["token"])
    assert (grant.holder, grant.scope, grant.only) == (None, "manage", world.id)
    listed = run("token", "list").output
    assert made["token_id"] in listed
    assert made["token"] not in listed
    assert run("token", "revoke", made["token"]).output == "revoked\n"
    assert "revoked" in run("token", "list").output
    with pytest.raises(TokenRefusedError):
        api_tokens.check(world.analyst, made["token"])


@pytest.mark.parametrize("words", [("--label", "x" * 201), ("--label", "a\x1b[31mb")])
def test_a_label_that_cannot_be_is_the_fault_of_who_gave_it(run: Run, words: tuple[str, ...]) -> None:
    error = run("token", "create", *words).exception
    assert isinstance(error, InputError)
    assert "label" in error.detail
    assert "correct it" in error.hint


def test_a_token_of_no_collaboration_is_refused(run: Run) -> None:
    assert isinstance(run("token", "create", "--collaboration", "ffff").exception, NotFoundError)


def test_who_revokes_an_unknown_token_is_told_where_they_are_listed(run: Run) -> None:
    error = run("token", "revoke", "f" * 32).exception
    assert isinstance(error, NotFoundError)
    assert "token list" in error.hint


def test_a_person_is_shown_the_token_once(run: Run) -> None:
    assert run("token", "list").output == "no tokens\n"
    shown = run("token", "create", "--label", "scheduler").output
    assert shown.startswith("odct_")
    assert "scheduler" in shown


@pytest.mark.parametrize("words", [("--scope", "all"), ("--days", "0"), ("--days", "400")])
def test_a_token_that_cannot_be_is_refused(run: Run, words: tuple[str, ...]) -> None:
    assert isinstance(run("token", "create", *words).exception, InputError)
