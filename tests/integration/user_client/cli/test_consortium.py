"""Who belongs to a consortium, by the command line; what each command does is tested in sdk/."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from cryptography import x509

from protocol.codec import encode
from protocol.errors import InputError, InvitationError
from protocol.identity import load_certificate
from protocol.invitation import Invitation
from runtime.terminal import exit_code
from tests.harness.in_process import HOSPITAL, LEAD, PASSPHRASE, URL
from tests.harness.odc import Odc
from user_client.cli import options
from user_client.cli.options import Options
from user_client.errors import ConnectionFailedError, PassphraseError, PassphraseNeededError
from user_client.sdk import invite, join, revoke
from user_client.transport import AnalystConnection


def test_a_consortium_is_founded_with_an_invitation_for_the_analyst(odc: Odc) -> None:
    result = odc("consortium", "create", "Lungs", "--analyst", URL, "--party", "lead-b", "--json", home="b")
    assert result.code == 0
    assert Path(result.json["analyst_invitation"]).exists()
    assert len(result.json["consortium_id"]) == 32


def test_an_invitation_is_written_over_another_only_if_that_is_said(odc: Odc) -> None:
    found = ("consortium", "create", "Lungs", "--analyst", URL, "--party", "lead-b")
    assert odc(*found, home="b").code == 0
    before = Path("analyst.invitation.json").read_bytes()
    refused = odc(*found, home="c")
    assert (refused.code, "--analyst-invitation, or overwrite it with --force" in refused.err) == (3, True)
    Path(f"{HOSPITAL}.invitation.json").write_bytes(before)
    assert odc("consortium", "invite", HOSPITAL, home=LEAD).code == 3
    assert before == Path("analyst.invitation.json").read_bytes()
    assert before == Path(f"{HOSPITAL}.invitation.json").read_bytes()
    assert odc(*found, "--force", home="c").code == 0
    assert odc("consortium", "invite", HOSPITAL, "--force", home=LEAD).code == 0
    assert odc("consortium", "invite", HOSPITAL, "--replace", home=LEAD).code == 0


def test_the_founder_is_told_what_comes_next(odc: Odc) -> None:
    result = odc("consortium", "create", "Lungs", "--analyst", URL, "--party", "lead-b", home="b")
    assert "next: give analyst.invitation.json to the analyst" in result.out


def analyst_request(odc: Odc) -> str:
    """Return the file in which another analyst asks for the place of the one that has it."""
    revoke(odc.consortium.lead, "analyst", PASSPHRASE)
    invitation = invite(odc.consortium.lead, "analyst", role="analyst", replace_earlier=True)
    key = odc.consortium.session("other").home.make_key()
    Path("request.odc").write_bytes(encode(invitation.answer(key)))
    return "request.odc"


def test_an_institution_is_invited_by_a_file(odc: Odc) -> None:
    result = odc("consortium", "invite", HOSPITAL, home=LEAD)
    assert result.code == 0
    assert (odc.consortium.directory / f"{HOSPITAL}.invitation.json").exists()
    assert "by telephone" in result.out


def test_joining_takes_an_approval(odc: Odc) -> None:
    odc("consortium", "invite", HOSPITAL, "--out", "invitation.json", home=LEAD)
    waiting = odc("join", "invitation.json")
    assert waiting.code == 6
    assert "odc consortium approve" in waiting.err
    approved = odc("consortium", "approve", "--yes", "--json", home=LEAD)
    assert approved.json["approved"] == [{"party": HOSPITAL, "role": "institution"}]
    assert odc("join", "--json").json["party"] == HOSPITAL


def test_a_rejected_institution_is_told_why(odc: Odc) -> None:
    odc("consortium", "invite", HOSPITAL, "--out", "invitation.json", home=LEAD)
    odc("join", "invitation.json")
    rejected = odc("consortium", "reject", HOSPITAL, "--reason", "not before May", "--json", home=LEAD)
    assert rejected.json == {"party": HOSPITAL, "rejected": 1}
    told = odc("join")
    assert told.code == 5
    assert "not before May" in told.err


def test_joining_shows_the_root_to_compare(odc: Odc) -> None:
    invitation = odc("consortium", "invite", HOSPITAL, "--out", "i.json", "--json", home=LEAD)
    assert invitation.json["root_fingerprint"] in odc("join", "i.json").err


def test_a_watch_says_for_whom_it_has_signed(odc: Odc) -> None:
    odc("consortium", "invite", HOSPITAL, "--out", "i.json", home=LEAD)
    join(odc.consortium.hospital, Invitation.from_json(Path("i.json").read_text()))
    watched = odc("consortium", "approve", "--watch", "3600", "--json", home=LEAD)
    assert watched.json["approved"] == [{"party": HOSPITAL, "role": "institution"}]
    assert f"signed for {HOSPITAL} as institution" in watched.err


def test_a_watch_that_never_reached_the_analyst_says_so(odc: Odc, monkeypatch: pytest.MonkeyPatch) -> None:
    odc("consortium", "invite", HOSPITAL, home=LEAD)

    def refuse(*_args: object, **_named: object) -> None:
        raise ConnectionFailedError("analyst does not answer")

    monkeypatch.setattr(AnalystConnection, "request", refuse)
    watched = odc("consortium", "approve", "--watch", "1", home=LEAD)
    assert watched.code == exit_code(ConnectionFailedError)
    assert watched.err.count("analyst does not answer; still watching") == 1


def test_a_watch_with_a_wrong_passphrase_ends_before_it_begins(
    odc: Odc, monkeypatch: pytest.MonkeyPatch
) -> None:
    odc("consortium", "invite", HOSPITAL, home=LEAD)
    Path("wrong").write_text("not the passphrase of this root")
    monkeypatch.setattr(AnalystConnection, "request", lambda *_: pytest.fail("it watches"))
    watched = odc("consortium", "approve", "--watch", "3600", "--passphrase-file", "wrong", home=LEAD)
    assert watched.code == exit_code(PassphraseError)
    assert "passphrase is wrong" in watched.err


def test_one_sitting_signs_for_the_analyst_and_for_those_who_join(
    odc: Odc, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = analyst_request(odc)
    odc("consortium", "invite", HOSPITAL, "--out", "i.json", home=LEAD)
    join(odc.consortium.hospital, Invitation.from_json(Path("i.json").read_text()))
    asked: list[str] = []

    def read(options: Options, file: Path | None) -> str:
        asked.append(PASSPHRASE)
        return PASSPHRASE

    monkeypatch.setattr(Options, "passphrase", read)
    words = ("consortium", "approve", "--request", request, "--out", "a.pem", "--yes", "--watch", "60")
    signed = odc(*words, "--json", home=LEAD)
    assert [row["party"] for row in signed.json["approved"]] == ["analyst", HOSPITAL]
    assert Path("a.pem").exists()
    assert asked == [PASSPHRASE]


def test_the_lead_adds_a_name_to_the_analysts_certificate(odc: Odc) -> None:
    request = analyst_request(odc)
    words = ("consortium", "approve", "--request", request, "--out", "a.pem", "--host", "localhost", "--yes")
    assert odc(*words, home=LEAD).code == 0
    names = load_certificate(Path("a.pem").read_bytes()).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert names.value.get_values_for_type(x509.DNSName) == ["analyst", "localhost"]


def test_the_lead_lists_who_holds_what(odc: Odc) -> None:
    odc.consortium.until_joined()
    odc("consortium", "invite", "hospital-b", home=LEAD)
    lines = odc("consortium", "list", home=LEAD).out.splitlines()
    assert [line.split()[:3] for line in lines] == [
        ["analyst", "analyst", "valid"],
        [HOSPITAL, "institution", "valid"],
        [LEAD, "lead", "valid"],
        ["hospital-b", "institution", "invited"],
    ]


def test_institutions_are_invited_by_a_list_of_names(odc: Odc) -> None:
    Path("names.txt").write_text("# the clinics\nclinic-a\n\n  clinic-b\n")
    for _ in range(2):
        said = odc("consortium", "invite", "--from", "names.txt", "--out", "sent", "--json", home=LEAD)
        assert [one["party"] for one in said.json["invitations"]] == ["clinic-a", "clinic-b"]
    files = [Path(one["invitation"]) for one in said.json["invitations"]]
    assert files == [Path("sent/clinic-a.invitation.json"), Path("sent/clinic-b.invitation.json")]
    assert [Invitation.from_json(file.read_text()).party for file in files] == ["clinic-a", "clinic-b"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "name the institution"),
        (("--from", "empty.txt"), "has no name in it"),
        (("clinic-a", "--from", "empty.txt"), "omit all others"),
    ],
)
def test_what_an_invitation_lacks_is_named(odc: Odc, words: tuple[str, ...], says: str) -> None:
    Path("empty.txt").write_text("\n# nobody yet\n")
    result = odc("consortium", "invite", *words, home=LEAD)
    assert result.code == exit_code(InputError)
    assert says in result.err


def test_a_revoked_member_is_told_to_ask_for_an_invitation(odc: Odc) -> None:
    odc.consortium.until_joined()
    result = odc("consortium", "revoke", HOSPITAL, home=LEAD)
    assert f"1 certificates of {HOSPITAL} are revoked" in result.out
    refused = odc("status")
    assert refused.code == 5
    assert "new invitation" in refused.err
    assert "--replace" in odc("consortium", "invite", HOSPITAL, home=LEAD).err
    assert odc("consortium", "invite", HOSPITAL, "--replace", home=LEAD).code == 0


def test_a_revoked_invitation_is_withdrawn(odc: Odc) -> None:
    odc("consortium", "invite", HOSPITAL, "--out", "i.json", home=LEAD)
    odc("join", "i.json")
    result = odc("consortium", "revoke", HOSPITAL, "--json", home=LEAD)
    assert (result.json["revoked"], result.json["invitations_withdrawn"], result.json["list"]) == (0, 1, None)
    refused = odc("consortium", "approve", "--yes", home=LEAD)
    assert (refused.code, refused.out) == (exit_code(InvitationError), "no requests wait\n")
    assert "was used or withdrawn" in refused.err


def test_who_signs_sees_for_whom_and_is_asked(odc: Odc, monkeypatch: pytest.MonkeyPatch) -> None:
    odc("consortium", "invite", HOSPITAL, "--out", "i.json", home=LEAD)
    key = re.search("our key: (.*)", odc("join", "i.json").err)
    assert key is not None
    unasked = odc("consortium", "approve", home=LEAD)
    assert unasked.code == exit_code(InputError)
    for said in (f"{HOSPITAL} as institution, by invitation", "since 2030-06-01", key[1], "--yes"):
        assert said in unasked.err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    answers = iter([False, True])
    monkeypatch.setattr(click, "confirm", lambda *_text, **_options: next(answers))
    declined = odc("consortium", "approve", home=LEAD).err
    assert "nothing was signed" in declined
    assert "answered no" in declined
    assert odc("consortium", "approve", home=LEAD).out == f"approved {HOSPITAL} as institution\nnext: odc\n"


def test_the_lead_signs_for_those_it_names(odc: Odc) -> None:
    for name in (HOSPITAL, "hospital-b"):
        odc("consortium", "invite", name, "--out", f"{name}.json", home=LEAD)
        odc("join", f"{name}.json", home=name)
    words = ("consortium", "approve", "--yes", "--json", "--party")
    for name in ("hospital-b", HOSPITAL):
        assert odc(*words, name, home=LEAD).json["approved"] == [{"party": name, "role": "institution"}]
        assert odc(*words, name, home=LEAD).json["approved"] == []


def test_the_names_of_a_server_are_shown_before_they_are_signed(odc: Odc) -> None:
    revoke(odc.consortium.lead, "analyst", PASSPHRASE)
    invitation = invite(odc.consortium.lead, "analyst", role="analyst", replace_earlier=True)
    Path("request.odc").write_bytes(
        encode(invitation.answer(odc.consortium.session("other").home.make_key()))
    )
    words = ("consortium", "approve", "--request", "request.odc", "--host", "localhost")
    refused = odc(*words, home=LEAD)
    assert refused.code == exit_code(InputError)
    assert "server names analyst, localhost" in refused.err
    assert not Path("analyst-certificate.pem").exists()


def test_a_renewal_takes_an_approval(odc: Odc) -> None:
    odc.consortium.until_joined()
    waiting = odc("renew")
    assert waiting.code == 6
    assert "odc consortium approve" in waiting.err
    odc("consortium", "approve", "--yes", home=LEAD)
    assert odc("renew", "--json").json["ends"].startswith("20")


def test_the_lead_renews_with_its_passphrase_alone(odc: Odc) -> None:
    assert odc("renew", home=LEAD).code == 0


def test_the_last_month_renews_by_itself_with_any_command(odc: Odc) -> None:
    odc.consortium.until_joined()
    odc.consortium.clock.forward(340 * 86400)
    before = odc.consortium.hospital.home.certificate_path.read_bytes()
    assert odc("status").code == 0
    odc("consortium", "approve", "--yes", home=LEAD)
    assert odc("status").code == 0
    assert odc.consortium.hospital.home.certificate_path.read_bytes() != before


def test_revocations_come_from_the_analyst_or_from_a_file(odc: Odc) -> None:
    odc.consortium.until_joined()
    assert odc("revocations").out == "0 certificates of this consortium are revoked\n"
    revoked = odc("consortium", "revoke", "analyst", "--json", home=LEAD)
    assert odc("revocations", "--json").json["revoked"] == 1
    assert odc("revocations", revoked.json["list"], "--json").json["revoked"] == 1


def test_without_requests_the_lead_is_told_so(odc: Odc) -> None:
    assert odc("consortium", "approve", "--yes", home=LEAD).out == "no requests wait\n"


def test_a_file_that_is_no_invitation_is_refused(odc: Odc) -> None:
    odc.passphrase.with_name("x.json").write_text("{}")
    result = odc("join", "x.json")
    assert (result.code, result.err.splitlines()[0]) == (
        5,
        "odc: error: the file is not an ODC invitation",
    )


def test_a_wrong_passphrase_is_an_input_error(odc: Odc) -> None:
    odc("consortium", "invite", HOSPITAL, "--out", "i.json", home=LEAD)
    odc("join", "i.json")
    odc.passphrase.write_text("another one")
    assert odc("consortium", "approve", "--yes", home=LEAD).code == exit_code(PassphraseError)


def test_a_passphrase_is_asked_for_when_no_file_has_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("ODC_PASSPHRASE_FILE", raising=False)
    asked: list[dict[str, object]] = []

    def prompt(_text: str, **given: object) -> str:
        asked.append(given)
        return "typed"

    monkeypatch.setattr(click, "prompt", prompt)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    assert options.Options(tmp_path).passphrase(is_new=True) == "typed"
    assert asked == [{"hide_input": True, "confirmation_prompt": True, "err": True}]
    file = tmp_path / "p"
    file.write_text(" from the file\n")
    assert options.Options(tmp_path, file).passphrase() == "from the file"


def test_where_nobody_can_be_asked_a_file_has_to_name_the_passphrase(
    odc: Odc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ODC_PASSPHRASE_FILE")
    result = odc("consortium", "create", "Lungs", "--analyst", URL, "--party", "lead-b", home="b")
    assert result.code == exit_code(PassphraseNeededError)
    assert "ODC_PASSPHRASE_FILE" in result.err
