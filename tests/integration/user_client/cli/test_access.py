from __future__ import annotations

import httpx
import pytest

from protocol.errors import MalformedMessageError
from protocol.tokens import new_token, token_digest, token_id
from tests.harness.app import InProcess, WithCertificate
from tests.harness.in_process import HOSPITAL
from tests.harness.odc import Odc
from user_client.sdk import list_tokens
from user_client.transport import AnalystConnection, Answer


def ask(odc: Odc, token: str) -> httpx.Response:
    """Another system, which has no certificate."""
    transport = InProcess(WithCertificate(odc.consortium.app, None))
    with httpx.Client(transport=transport, base_url="https://analyst") as client:
        return client.get("/v1/collaborations", headers={"authorization": f"Bearer {token}"})


def test_a_token_is_shown_once_and_opens_our_view(odc: Odc) -> None:
    odc.consortium.until_joined().publish()
    collaboration = odc.consortium.id
    made = odc("token", "create", "--label", "monitor", "--days", "7", "-c", collaboration[:6], "--json")
    assert made.json["collaboration_id"] == collaboration
    token = made.json["token"]
    (row,) = ask(odc, token).json()["collaborations"]
    assert row["you"] == {"party": HOSPITAL, "role": "institution"}
    listed = odc("token", "list")
    assert "monitor" in listed.out
    assert token not in listed.out
    home = odc.consortium.hospital.home.path
    assert not any(token.encode() in path.read_bytes() for path in home.rglob("*") if path.is_file())


@pytest.mark.parametrize("by", ["id", "token"])
def test_a_token_is_revoked_by_its_id_or_itself(odc: Odc, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    odc.consortium.until_joined()
    made = odc("token", "create", "--json").json
    sent, plain = [], AnalystConnection.request

    def noted(connection: AnalystConnection, method: str, path: str, **options: object) -> Answer:
        sent.append(path)
        return plain(connection, method, path, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(AnalystConnection, "request", noted)
    assert odc("token", "revoke", made["token_id"] if by == "id" else made["token"]).code == 0
    assert ask(odc, made["token"]).status_code == 401
    assert "revoked" in odc("token", "list").out
    assert not any("odct_" in path for path in sent)


def test_a_person_is_told_that_it_is_not_shown_again(odc: Odc) -> None:
    odc.consortium.until_joined()
    made = odc("token", "create")
    assert made.out.startswith("odct_")
    assert "not shown again" in made.out


@pytest.mark.parametrize(
    ("words", "exit_code", "says"),
    [
        (("create", "--days", "0"), 3, "between 1 and 366"),
        (("create", "--days", "367"), 3, "between 1 and 366"),
        (("create", "--collaboration", "f" * 32), 6, "no such collaboration"),
        (("create", "--label", "x" * 201), 3, "label: string should have at most 200"),
        (("revoke", "../x"), 3, "32 hexadecimal digits"),
        (("revoke", "odct_x"), 5, "no API token"),
        (("revoke", "f" * 32), 6, "no such API token"),
    ],
)
def test_what_cannot_be_is_an_error_with_a_hint_and_an_exit_code(
    odc: Odc, words: tuple[str, ...], exit_code: int, says: str
) -> None:
    odc.consortium.until_joined()
    result = odc("token", *words)
    error, hint, *rest = result.err.splitlines()
    assert result.code == exit_code
    assert error.startswith("odc: error: ")
    assert says in error
    assert hint.startswith("odc: hint: ")
    is_answer = exit_code == 6
    assert [line[:13] for line in rest] == ["odc: request:"] * is_answer


def test_a_list_that_is_none_is_not_believed(odc: Odc, monkeypatch: pytest.MonkeyPatch) -> None:
    odc.consortium.until_joined()
    good = {
        "token_id": token_id(token_digest(new_token())),
        "label": "\x1b[2J",
        "scope": "read",
        "collaboration_id": None,
        "created_at": 1,
        "expires_at": 2,
        "last_used_at": None,
        "revoked": False,
    }
    for answer in ({}, {"tokens": 1}, {"tokens": [1]}, {"tokens": [good]}):
        monkeypatch.setattr(AnalystConnection, "ask_json", lambda *_, answer=answer: answer)
        with pytest.raises(MalformedMessageError):
            list_tokens(odc.consortium.hospital)


def test_another_analyst_is_believed_when_a_person_says_so(odc: Odc) -> None:
    assert "none yet" in odc("trust-analyst").out
    assert odc("trust-analyst", "12 34").code == 3
    fingerprint = " ".join(["00C1", "22d3"] * 8)
    said = odc("trust-analyst", fingerprint)
    assert fingerprint.lower() in said.out
    assert odc("trust-analyst", "--json").json == {"analyst_key": "00c122d3" * 8}
