"""The audit trail: what happened and who did it, whichever way they took."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any

import pytest

from analyst_server.services import audit, end, rounds
from analyst_server.services.acts import Actor, act_as
from protocol.errors import OutOfOrderError
from protocol.tokens import new_token, token_digest, token_id
from tests.harness.app import Api
from tests.harness.visitor import operator_token, send, sign_in
from tests.harness.world import LEAD, World, make_terms

ON_THE_HOST = Actor("host", "alice", is_operator=True)


def as_actor(actor: Actor, act: Callable[[], object]) -> None:
    """Do something as somebody, and be nobody afterwards."""

    def acting() -> None:
        act_as(actor)
        act()

    contextvars.copy_context().run(acting)


def acts(world: World, since: int = 0) -> list[dict[str, Any]]:
    return [line for line in audit.trail(world.analyst, since) if line["kind"] == "act"]


def test_a_step_of_the_operator_says_who_took_it(world: World) -> None:
    world.publish()
    as_actor(ON_THE_HOST, lambda: end.cancel(world.analyst, world.id))
    (found,) = acts(world)
    assert (found["event"], found["actor_kind"], found["actor"]) == ("cancel", "host", "alice")
    assert found["collaboration_id"] == world.id


def test_a_step_that_is_refused_is_no_act(world: World) -> None:
    world.publish()
    with pytest.raises(OutOfOrderError):
        as_actor(ON_THE_HOST, lambda: rounds.seal(world.analyst, world.id))
    assert acts(world) == []


def test_what_the_analyst_does_by_itself_and_what_members_do_stands_in_the_ledger_alone(world: World) -> None:
    world.until_sealed()
    assert acts(world) == []
    events = [line["event"] for line in audit.trail(world.analyst)]
    assert events[0] == "publish terms"
    assert "seal" in events


def test_a_token_is_named_by_its_id_over_rest_and_in_a_browser(api: Api) -> None:
    token = operator_token(api)
    api.world.publish()
    by_rest = api.anonymous
    by_rest.headers["authorization"] = f"Bearer {token}"
    assert by_rest.post(f"/v1/collaborations/{api.world.id}/cancel").status_code == 200
    api.world.publish(make_terms(collaboration_id="d1" * 16))
    browser = api.anonymous
    sign_in(browser, token)
    page = f"/pages/collaborations/{'d1' * 16}/cancel"
    assert send(browser, page, page, confirmed="yes").status_code == 303
    first, second = [line for line in acts(api.world) if line["event"] == "cancel"]
    assert first["actor_kind"] == second["actor_kind"] == "token"
    assert first["actor"] == second["actor"]
    assert token not in str(first)


def test_tokens_are_made_and_revoked_by_somebody(api: Api) -> None:
    made, drawn = api.as_party(LEAD), new_token()
    asked = {"digest": token_digest(drawn), "label": "x", "expires_at": api.world.clock() + 9}
    assert made.post("/v1/tokens", json=asked).status_code == 201
    name = token_id(token_digest(drawn))
    assert made.delete(f"/v1/tokens/{name}").status_code == 204
    assert made.delete(f"/v1/tokens/{name}").status_code == 204  # which changes nothing
    found = [(line["event"], line["actor"], line["subject"]) for line in acts(api.world)]
    assert found == [("create token", LEAD, name), ("revoke token", LEAD, name)]
    assert drawn not in str(acts(api.world))


def test_the_trail_is_in_the_order_of_time_from_a_time_on_and_each_line_has_an_id(world: World) -> None:
    world.until_sealed()
    as_actor(ON_THE_HOST, lambda: end.cancel(world.analyst, world.id))
    lines = list(audit.trail(world.analyst))
    assert [line["time"] for line in lines] == sorted(line["time"] for line in lines)
    assert len({line["id"] for line in lines}) == len(lines)
    assert list(audit.trail(world.analyst, world.analyst.clock() + 1)) == []
