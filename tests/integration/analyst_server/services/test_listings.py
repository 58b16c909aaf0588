"""A list of many collaborations takes no more questions than one of few, and says what each alone says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from analyst_server import cli_options
from analyst_server.services import end, exclusion, retention, rounds, views
from analyst_server.services.stored import read_stored
from analyst_server.store import Wanted
from protocol.errors import MalformedMessageError
from tests.harness.app import Api, slug
from tests.harness.computing import OWNER, claim, finish
from tests.harness.statements import statements
from tests.harness.world import HOSPITAL, LEAD, World, identity, make_terms, make_uplink

FEW, MANY = 3, 24


def number_of_questions(ask: Callable[[], object]) -> int:
    with statements() as found:
        ask()
    return len(found)


def published(world: World, count: int, first: int = 0, **changed: Any) -> list[str]:
    ids = [f"{number:04x}{28 * 'e'}" for number in range(first, first + count)]
    for one in ids:
        world.publish(make_terms(collaboration_id=one, **changed))
        world.clock.forward(1)
    return ids


def of_every_kind(world: World) -> None:
    """Let there be rounds that are waited for, that arrive, failed, are held, released and over."""

    def sealed(number: int, **changed: Any) -> str:
        world.until_sealed(make_terms(collaboration_id=f"{number:032x}", **changed))
        world.clock.forward(1)
        return world.id

    published(world, 1)
    world.until_anchored(make_terms(collaboration_id=f"{1:032x}", retention_days=30))
    world.send(make_uplink(world.terms, LEAD))
    world.begin(make_uplink(world.terms, HOSPITAL))
    failed = sealed(2)
    claim(world)
    rounds.fail(world.analyst, failed, OWNER, "a reason")
    exclusion.exclude(world.analyst, failed, HOSPITAL)
    sealed(3)
    claim(world)
    finish(world, hold=True)
    sealed(4, retention_days=10)
    claim(world)
    finish(world)
    end.cancel(world.analyst, published(world, 1, 9)[0])


def test_a_list_says_of_each_what_it_says_alone(world: World) -> None:
    of_every_kind(world)
    for viewer in (None, identity(HOSPITAL)):
        listed = views.listing(world.analyst, viewer)
        assert len(listed) == 6
        assert len({one["state"] for one in listed}) == 6
        assert [views.status(world.analyst, viewer, one["collaboration_id"]) for one in listed] == listed


def test_who_is_suspected_stands_in_a_list(world: World) -> None:
    world.until_sealed()
    with world.records.begin(write=True) as unit:
        row = unit.collaboration(world.id)
        assert row is not None
        told = {"party": HOSPITAL, "assumption": "full-rank", "evidence": "columns that are zero"}
        row.results = {"alignment": {"suspicions": [told], "left_out": [HOSPITAL]}}
    (status,) = views.listing(world.analyst, None)
    suspected, other = status["members"]
    assert suspected["suspected"] == {"assumption": "full-rank", "evidence": "columns that are zero"}
    assert suspected["left_out"]
    assert "suspected" not in other


@pytest.mark.parametrize("viewer", [None, identity(HOSPITAL)], ids=["operator", "member"])
def test_many_are_listed_by_as_many_questions_as_few(world: World, viewer: Any) -> None:
    published(world, FEW, retention_days=30)
    few = number_of_questions(lambda: views.listing(world.analyst, viewer))
    published(world, MANY, FEW, retention_days=30)
    assert len(views.listing(world.analyst, viewer)) == FEW + MANY
    assert number_of_questions(lambda: views.listing(world.analyst, viewer)) == few


def test_held_rounds_are_listed_by_as_many_questions_as_one(world: World) -> None:
    def held(number: int) -> None:
        world.until_sealed(make_terms(collaboration_id=f"{number:032x}"))
        with world.records.begin(write=True) as unit:
            row = unit.collaboration(world.id)
            assert row is not None
            row.state, row.results = "training", {}

    held(1)
    one = number_of_questions(lambda: views.listing(world.analyst, None))
    for number in range(2, 6):
        held(number)
    assert all(status["held"] for status in views.listing(world.analyst, None))
    assert number_of_questions(lambda: views.listing(world.analyst, None)) == one


def test_what_is_kept_for_a_time_is_found_by_as_many_questions(world: World) -> None:
    def kept(number: int) -> None:
        world.until_anchored(make_terms(collaboration_id=f"{number:032x}", retention_days=30))
        world.send(make_uplink(world.terms, LEAD))

    kept(1)
    one = number_of_questions(lambda: retention.kept(world.analyst))
    for number in range(2, 8):
        kept(number)
    assert len(retention.kept(world.analyst)) == 7
    assert number_of_questions(lambda: retention.kept(world.analyst)) == one


def test_terms_are_read_once_however_often_they_are_listed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(world, 40)
    views.listing(world.analyst, None)
    read: list[object] = []

    def noted(*given: Any) -> Any:
        read.append(given)
        return read_stored(*given)

    monkeypatch.setattr("analyst_server.services.analyst.read_stored", noted)
    views.listing(world.analyst, None)
    assert read == []


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [(Wanted(only=f"0005{28 * 'e'}"), 1), (Wanted(begins="0005"), 1), (Wanted(begins="00"), MANY)],
)
def test_only_the_rows_that_are_wanted_are_read(world: World, wanted: Wanted, expected: int) -> None:
    published(world, MANY)
    with world.records.begin() as unit:
        assert len(unit.collaborations(None, wanted)) == expected
        assert len(unit.collaborations(HOSPITAL, wanted)) == expected


@pytest.mark.parametrize("begins", ["0", "00", "0005", f"0005{28 * 'e'}", "f", "ff"])
def test_how_an_id_begins_means_what_its_text_says(world: World, begins: str) -> None:
    ids = [*published(world, 17), "f" * 32, "0f" + 30 * "0"]
    for one in ids[17:]:
        world.publish(make_terms(collaboration_id=one))
    found = [one["collaboration_id"] for one in views.listing(world.analyst, None, begins=begins)]
    assert sorted(found) == sorted(one for one in ids if one.startswith(begins))


def test_a_short_id_is_found_among_many_by_as_many_questions(world: World) -> None:
    (one,) = published(world, 1)
    few = number_of_questions(lambda: cli_options.whole_id(world.analyst, one[:6]))
    published(world, MANY, 1)
    assert cli_options.whole_id(world.analyst, one[:6]) == one
    assert number_of_questions(lambda: cli_options.whole_id(world.analyst, one[:6])) == few


# pages


@pytest.fixture
def api(world: World) -> Api:
    return Api(world)


def pages(api: Api, query: str = "", most: int = 9) -> list[list[str]]:
    """Read a list page by page."""
    found, after = [], ""
    for _ in range(most):
        answer = api.as_party(HOSPITAL).get(f"/v1/collaborations?after={after}{query}").json()
        found.append([one["collaboration_id"] for one in answer["collaborations"]])
        if "next" not in answer:
            break
        after = answer["next"]
    return found


def test_a_page_leads_to_the_next_until_all_are_read(
    world: World, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "MOST_LISTED", 2)
    ids = published(world, 5)
    world.publish(make_terms(collaboration_id=31 * "d" + "0", parties=(LEAD,)))  # none of the hospital's
    assert pages(api) == [ids[:2], ids[2:4], ids[4:]]
    assert pages(api, "&begins=0003") == [ids[3:4]]
    assert len(api.as_party(HOSPITAL).get("/v1/collaborations").json()["collaborations"]) == 5


def test_two_of_the_same_second_are_on_one_page_each(
    world: World, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "MOST_LISTED", 1)
    for number in (3, 1, 2):
        world.publish(make_terms(collaboration_id=f"{number:032x}"))
    assert pages(api) == [[f"{number:032x}"] for number in (1, 2, 3)]


@pytest.mark.parametrize(
    "query", ["after=x", f"after={31 * 'd'}0", f"after={32 * 'c'}", "begins=X", f"begins={33 * '0'}"]
)
def test_a_page_after_nothing_of_ours_is_refused(world: World, api: Api, query: str) -> None:
    world.publish(make_terms(collaboration_id=31 * "d" + "0", parties=(LEAD,)))
    answer = api.as_party(HOSPITAL).get(f"/v1/collaborations?{query}")
    assert (answer.status_code, slug(answer)) == (400, "malformed-message")
    if query.startswith("after=d"):  # as for one that does not exist
        with pytest.raises(MalformedMessageError, match="is no collaboration of the caller"):
            views.page(world.analyst, identity(HOSPITAL), None, 31 * "d" + "0")
