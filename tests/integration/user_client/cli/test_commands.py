"""One round by its commands; what each step does is tested in sdk/."""

from __future__ import annotations

import csv
import re
import sys
import tomllib
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from cryptography import x509

from analyst_server.services import prepare, report
from protocol.codec import encode
from protocol.errors import InputError, InvitationError
from protocol.identity import load_certificate
from protocol.invitation import Invitation
from protocol.messages import PrivacyRecord
from runtime.terminal import exit_code
from tests.harness.in_process import HOSPITAL, LEAD, PASSPHRASE, URL
from tests.harness.odc import Odc
from user_client.cli import main as main_module
from user_client.cli import options
from user_client.cli.options import Options
from user_client.custody import passphrase as passphrase_module
from user_client.custody import vault
from user_client.custody.home import is_encrypted
from user_client.errors import (
    ConnectionFailedError,
    NotJoinedError,
    PassphraseError,
    PassphraseNeededError,
)
from user_client.sdk import (
    PrivacyOptions,
    invite,
    join,
    revoke,
)
from user_client.transport import AnalystConnection


def joined(odc: Odc) -> Odc:
    odc.consortium.until_joined()
    return odc


# consortium and join


def test_a_consortium_is_founded_with_an_invitation_for_the_analyst(odc: Odc) -> None:
    result = odc("consortium", "create", "Lungs", "--analyst", URL, "--party", "lead-b", "--json", home="b")
    assert result.code == 0
    assert Path(result.json["analyst_invitation"]).exists()
    assert len(result.json["consortium_id"]) == 32


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
    monkeypatch.setattr(typer, "confirm", lambda *_text, **_options: next(answers))
    assert "nothing was signed" in odc("consortium", "approve", home=LEAD).err
    assert odc("consortium", "approve", home=LEAD).out == f"approved {HOSPITAL} as institution\n"


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

    monkeypatch.setattr(typer, "prompt", prompt)
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


# protect


@pytest.fixture
def quick_scrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        vault, "lock", lambda data, passphrase: passphrase_module.lock(data, passphrase, log2_n=4)
    )


@pytest.mark.usefixtures("quick_scrypt")
def test_a_directory_is_protected_from_the_start_and_says_what_it_needs(
    odc: Odc, monkeypatch: pytest.MonkeyPatch
) -> None:
    odc("consortium", "invite", HOSPITAL, "--out", "i.json", home=LEAD)
    assert odc("join", "i.json", "--passphrase-file", odc.passphrase).code == 6
    odc("consortium", "approve", "--yes", home=LEAD)
    assert odc("--passphrase-file", odc.passphrase, "join").code == 0
    home = odc.consortium.hospital.home
    assert is_encrypted(home.key_path.read_bytes())
    assert odc("status").code == 0  # by the variable
    monkeypatch.delenv("ODC_PASSPHRASE_FILE")
    without = odc("status")
    assert without.code == exit_code(PassphraseNeededError)
    assert "odc --passphrase-file FILE" in without.err
    odc.passphrase.write_text("not this one")
    wrong = odc("--passphrase-file", odc.passphrase, "status")
    assert (wrong.code, len(wrong.err.splitlines())) == (exit_code(PassphraseError), 2)


@pytest.mark.usefixtures("quick_scrypt")
def test_a_command_derives_a_key_from_the_passphrase_once_or_not_at_all(
    odc: Odc, monkeypatch: pytest.MonkeyPatch
) -> None:
    derived: list[int] = []
    derive = passphrase_module._key

    def counted(passphrase: str, salt: bytes, log2_n: int) -> bytes:
        derived.append(log2_n)
        return derive(passphrase, salt, log2_n)

    def derivations(*words: str, home: str = HOSPITAL) -> int:
        derived.clear()
        assert odc(*words, home=home).code == 0
        return len(derived)

    odc.consortium.until_accepted()
    monkeypatch.setattr(passphrase_module, "_key", counted)
    assert derivations("status") == 0
    for home in (HOSPITAL, LEAD):
        odc("protect", home=home)
        odc.consortium.session(home)
        assert derivations("status", home=home) == 1
    assert derivations("renew", home=LEAD) == 1  # of the directory and of the root key
    assert derivations("anchor", "create", home=LEAD) == 1
    assert derivations("prepare", str(odc.consortium.table(1))) == 1


@pytest.mark.usefixtures("quick_scrypt")
def test_a_lead_protects_its_directory_before_there_is_anything_in_it(odc: Odc) -> None:
    words = ("consortium", "create", "Lungs", "--analyst", URL, "--party", "lead-b", "--protect")
    assert odc(*words, home="b").code == 0
    home = odc.consortium.session("b").home
    assert is_encrypted(home.key_path.read_bytes())
    assert all(vault.is_sealed(path.read_bytes()) for path in home.secrets() if path != home.key_path)
    assert odc("consortium", "invite", HOSPITAL, home="b").code == 0
    assert odc("renew", home="b").code == 0


@pytest.mark.usefixtures("quick_scrypt")
def test_a_directory_is_protected_afterwards_and_the_passphrase_changed_and_taken_away(odc: Odc) -> None:
    odc.consortium.until_joined()
    plain = odc.consortium.hospital.home.key_path.read_bytes()
    assert odc("protect", "--json").json["protected"] is True
    assert odc("protect").code == 0  # again is no harm
    new = odc.passphrase.with_name("new")
    new.write_text("another passphrase")
    assert "old passphrase still opens copies" in odc("protect", "--change", "--new-passphrase-file", new).out
    assert odc("status").code == exit_code(PassphraseError)
    assert odc("protect", "--remove", "--passphrase-file", new, "--json").json["protected"] is False
    assert odc.consortium.hospital.home.key_path.read_bytes() == plain
    assert odc("status").code == 0


@pytest.mark.parametrize("words", [("--remove",), ("--change",), ("--remove", "--change")])
def test_what_is_not_protected_cannot_be_changed(odc: Odc, words: tuple[str, ...]) -> None:
    odc.consortium.until_joined()
    assert odc("protect", *words).code == exit_code(InputError)


def test_nothing_is_protected_before_joining(odc: Odc) -> None:
    assert odc("protect").code == exit_code(NotJoinedError)


# terms


def test_a_draft_becomes_terms(odc: Odc) -> None:
    table = odc.consortium.table(1)
    result = odc("terms", "draft", table, "--label", "y", "--party", LEAD, "--party", HOSPITAL, "--json")
    assert result.json == {"terms": "terms.toml", "features": 3, "latent_dim": 1}
    content = tomllib.loads((odc.consortium.directory / "terms.toml").read_text())
    terms = prepare.complete_terms(odc.consortium.analyst, content)
    assert (terms.lead, terms.parties) == (LEAD, (LEAD, HOSPITAL))


def test_a_draft_for_forgetting_becomes_terms(odc: Odc) -> None:
    table = odc.consortium.table(1)
    odc("terms", "draft", table, "--label", "y", "--party", LEAD, "--party", HOSPITAL, "--nri")
    content = tomllib.loads((odc.consortium.directory / "terms.toml").read_text())
    terms = prepare.complete_terms(odc.consortium.analyst, content)
    assert terms.returns_anchor_predictions
    assert (terms.anchor.kind, terms.anchor.rows) == ("gaussian", 60)


@pytest.mark.parametrize(
    "wrong",
    [
        ("--latent-dim", "0"),
        ("--latent-dim", "4"),
        ("--out-of-range", "ignore"),
        ("--label", "nothing"),
        ("--rep-dtype", "i4"),
    ],
    ids=" ".join,
)
def test_a_draft_with_a_wrong_option_is_refused(odc: Odc, wrong: tuple[str, str]) -> None:
    given = {"--label": "y", "--party": LEAD, wrong[0]: wrong[1]}
    flat = [part for pair in given.items() for part in pair]
    result = odc("terms", "draft", odc.consortium.table(1), *flat)
    assert result.code == 3
    assert result.err.startswith("odc: error: ")


def test_a_draft_can_leave_a_column_out_and_clip_and_round(odc: Odc) -> None:
    table = odc.consortium.table(1)
    odc(
        "terms", "draft", table, "--label", "y", "--party", LEAD, "--exclude", "x0", "--latent-dim", "2",
        "--out-of-range", "clip", "--rep-dtype", "i1", "--out", "mine.toml",
    )  # fmt: skip
    content = tomllib.loads((odc.consortium.directory / "mine.toml").read_text())
    assert content["rep_dtype"] == "i1"
    columns = content["table_schema"]["columns"]
    assert [(column["name"], column["out_of_range"]) for column in columns] == [
        ("x1", "clip"),
        ("x2", "clip"),
    ]


def test_terms_are_shown_in_words_and_for_machines(odc: Odc) -> None:
    joined(odc).consortium.publish()
    assert "This institution sends to the analyst, once:" in odc("terms", "show").out
    assert odc("terms", "show", "--json").json["collaboration_id"] == odc.consortium.id


def test_whoever_signs_unread_terms_is_shown_them_meanwhile(odc: Odc) -> None:
    odc.consortium.until_joined().publish()
    assert "This institution sends to the analyst, once:" in odc("terms", "accept").err
    assert odc("terms", "accept").err == ""  # again: nothing new


def test_a_row_revealing_model_is_warned_of_and_takes_its_own_word(odc: Odc) -> None:
    odc.consortium.until_joined().publish(model={"kind": "svm"})
    shown = odc("terms", "show")
    assert "Warning: row-revealing model" in shown.out
    refused = odc("terms", "accept")
    assert refused.code == 6
    assert "--accept-row-revealing-model" in refused.err
    accepted = odc("terms", "accept", "--accept-row-revealing-model", "--json").json
    assert accepted["accept_row_revealing_model"] is True
    assert f"This text: {accepted['shown_digest']}" in shown.out


def test_a_table_is_held_to_the_terms_before_they_are_signed(odc: Odc) -> None:
    odc.consortium.until_joined().publish()
    found = odc("terms", "check", odc.consortium.table(1), "--json").json
    assert found == {"rows": 40, "features": 3, "misfits": []}
    assert "the table fits: 40 rows of 3" in odc("terms", "check", odc.consortium.table(1)).out
    accepted = odc("terms", "accept")  # nobody has read them yet
    assert "This institution sends to the analyst, once:" in accepted.err


def test_every_column_that_does_not_fit_the_terms_is_told_at_once(odc: Odc) -> None:
    odc.consortium.until_joined().publish()
    table = odc.consortium.table(1, x0=["0.1"] * 39 + ["SECRET"], y=["no"] * 39 + ["SECRET"])
    result = odc("terms", "check", table)
    assert result.code == 3
    assert result.out.splitlines() == [
        "column 'x0', row 40: expected a number",
        "column 'y', row 40: expected one of the 2 levels in the terms",
    ]
    assert "2 of 4 columns do not fit" in result.err


def test_terms_are_signed(odc: Odc) -> None:
    joined(odc).consortium.publish()
    result = odc("terms", "accept", "--json")
    assert (result.json["party"], result.json["collaboration_id"]) == (HOSPITAL, odc.consortium.id)


# the round


def test_the_anchor_is_sealed_for_all(odc: Odc) -> None:
    odc.consortium.until_accepted()
    assert odc("anchor", "create", "--json", home=LEAD).json["sealed_for"] == 2


def test_preparing_says_what_would_leave(odc: Odc) -> None:
    odc.consortium.until_anchored(latent_dim=2)
    result = odc("prepare", odc.consortium.table(1))
    assert "40 rows of 3 encoded features become 2 numbers each" in result.out
    assert "a row keeps hidden (epsilon-DR)" in result.out
    assert "nothing was sent" in result.out


def test_preparing_a_table_that_does_not_fit_names_row_and_column(odc: Odc) -> None:
    odc.consortium.until_anchored()
    result = odc("prepare", odc.consortium.table(1, x1=[99.0] * 40))
    assert result.code == 3
    assert "column 'x1', row 1: expected a number from -4 to 4" in result.err
    assert "99" not in result.err


NOISE = ("--epsilon", "2", "--delta", "1e-5", "--clip", "0.5")


def test_preparing_says_what_was_done_to_the_rows_and_what_stays_here(odc: Odc) -> None:
    odc.consortium.until_anchored(latent_dim=2)
    table = odc.consortium.table(1)
    found = odc("prepare", table, *NOISE, "--drop-below", "0.2", "--threshold", "0.4", "--json").json
    assert found["options"]["drop_below"] == 0.2
    assert found["noise_sigma"] == pytest.approx(PrivacyOptions(epsilon=2, delta=1e-5, clip=0.5).sigma)
    assert found["hidden_share"]["minimum"] >= 0.2
    assert len(found["singular_values"]) == 3
    said = odc("prepare", table, *NOISE, "--drop-below", "0.2", "--threshold", "0.4").out
    assert "epsilon 2 and delta 1e-05 for each row, clipped to length 0.5" in said
    assert f"{40 - found['rows']} of 40 rows stay here" in said
    assert f"{found['threshold']['rows_below']} rows keep less than 0.4 hidden" in said
    assert "a noisy row keeps hidden" in said
    assert "what they rebuild differs from the row without noise by at least" in said
    assert re.search(r"singular values [\d. ]+; 50 %, 90 % and 99 % of .* in the first \d, \d and \d", said)


@pytest.mark.parametrize("command", ["prepare", "contribute"])
def test_every_privacy_option_can_be_given(command: str, odc: Odc) -> None:
    found = typer.main.get_command(main_module.app).commands[command].params  # type: ignore[attr-defined]
    assert {field.name for field in fields(PrivacyOptions)} < {parameter.name for parameter in found}
    assert "--permute-rows" in odc(command, "--help").out


@pytest.mark.parametrize("command", ["prepare", "contribute"])
def test_noise_by_halves_is_refused(odc: Odc, command: str) -> None:
    odc.consortium.until_anchored()
    result = odc(command, odc.consortium.table(1), "--epsilon", "2")
    assert (result.code, "epsilon, delta and clip go together" in result.err) == (3, True)


def test_contributing_a_table_takes_the_options_too(odc: Odc) -> None:
    odc.consortium.until_anchored()
    assert odc("contribute", odc.consortium.table(1), *NOISE, "--permute-rows").code == 0
    (told,) = report.for_operator(odc.consortium.analyst, odc.consortium.id)["parties"]
    assert told["privacy"] == PrivacyRecord(epsilon=2, delta=1e-5, clip=0.5, permute_rows=True).model_dump()


def test_what_was_prepared_with_noise_is_not_sent_without_because_an_option_was_forgotten(odc: Odc) -> None:
    odc.consortium.until_anchored()
    table = odc.consortium.table(1)
    odc("prepare", table, *NOISE)
    refused = odc("contribute", table)
    assert (refused.code, "the command line has none" in refused.err) == (3, True)
    assert odc("contribute").code == 0
    told: Any = report.for_operator(odc.consortium.analyst, odc.consortium.id)["parties"][0]
    assert told["privacy"]["epsilon"] == 2


def test_options_for_what_is_already_prepared_are_refused(odc: Odc) -> None:
    odc.consortium.until_anchored()
    odc("prepare", odc.consortium.table(1))
    result = odc("contribute", "--permute-rows")
    assert (result.code, "privacy options need the table" in result.err) == (3, True)


def test_a_picture_is_for_its_owner_alone_and_overwrites_nothing(odc: Odc) -> None:
    odc.consortium.until_anchored()
    asked = ("prepare", odc.consortium.table(1), "--picture", "rows.png", "--shape", "1x3")
    assert odc(*asked, "--json").json["picture"] == "rows.png"
    picture = odc.consortium.directory / "rows.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    if sys.platform != "win32":
        assert picture.stat().st_mode & 0o777 == 0o600
    again = odc(*asked)
    assert (again.code, "--force" in again.err) == (3, True)
    assert odc(*asked, "--force").code == 0
    assert picture.name not in str(sorted(odc.consortium.directory_of(odc.consortium.hospital).iterdir()))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--picture", "p.png"), "must be given together"),
        (("--shape", "1x3"), "must be given together"),
        (("--picture", "p.png", "--shape", "3"), "HEIGHTxWIDTH"),
        (("--picture", "p.png", "--shape", "0x3"), "HEIGHTxWIDTH"),
        (("--picture", "p.png", "--shape", "2x3"), "a row has 3 features, a picture of 2 x 3 does not fit"),
        (("--picture", "rows-1.csv", "--shape", "1x3", "--force"), "is the table itself"),
    ],
)
def test_a_picture_that_cannot_be_drawn_is_refused(odc: Odc, given: tuple[str, ...], said: str) -> None:
    odc.consortium.until_anchored()
    result = odc("prepare", odc.consortium.table(1), *given)
    assert (result.code, said in result.err) == (3, True)
    assert not (odc.consortium.directory / "p.png").exists()


@pytest.mark.parametrize("prepared", [True, False])
def test_contributing_sends_the_table_or_what_is_prepared(odc: Odc, prepared: bool) -> None:
    odc.consortium.until_anchored()
    table = odc.consortium.table(1)
    if prepared:
        odc("prepare", table)
    result = odc("contribute", *([] if prepared else [table]), "--json")
    assert result.json["payload_bytes"] == (40 + 3) * 3 * 4 + 40


def test_the_status_says_who_is_waited_for(odc: Odc) -> None:
    odc.consortium.until_anchored()
    assert f"waiting for {HOSPITAL}: odc contribute" in odc("status").out
    shown = odc("status", "--collaboration", odc.consortium.id, "--json").json
    assert (shown["party"], shown["collaborations"][0]["state"]) == (HOSPITAL, "anchored")


def test_the_status_without_a_collaboration_says_so(odc: Odc) -> None:
    assert "no collaboration names this institution yet" in joined(odc)("status").out


def test_predictions_come_as_a_table(odc: Odc) -> None:
    odc.consortium.until_released()
    assert odc("receive", "--json").json["model_parameters"] > 0
    result = odc("predict", odc.consortium.table(5), "--out", "mine.csv", "--json")
    assert result.json == {"rows": 40, "predictions": "mine.csv"}
    with (odc.consortium.directory / "mine.csv").open() as file:
        found = list(csv.DictReader(file))
    assert set(found[0]) == {"prediction", "probability_no", "probability_yes"}
    assert all(
        float(row["probability_no"]) + float(row["probability_yes"]) == pytest.approx(1) for row in found
    )


def test_predictions_keep_the_columns_that_say_whose_they_are(odc: Odc) -> None:
    odc.consortium.until_released()
    odc("receive")
    numbers = [f"00{row}" for row in range(40)]
    table = odc.consortium.table(5, patient=numbers, ward=["a"] * 40)
    assert odc("predict", table, "--keep", "patient", "--keep", "ward").code == 0
    with (odc.consortium.directory / "predictions.csv").open() as file:
        found = list(csv.DictReader(file))
    assert list(found[0]) == ["patient", "ward", "prediction", "probability_no", "probability_yes"]
    assert [row["patient"] for row in found] == numbers


@pytest.mark.parametrize(
    ("column", "why"), [("nobody", "'nobody' is not in the table"), ("prediction", "rename it in the table")]
)
def test_a_column_that_cannot_be_kept_is_named(odc: Odc, column: str, why: str) -> None:
    odc.consortium.until_released()
    odc("receive")
    result = odc("predict", odc.consortium.table(5, prediction=["x"] * 40), "--keep", column)
    assert result.code != 0
    assert why in result.err
    assert not (odc.consortium.directory / "predictions.csv").exists()


def test_receiving_too_early_is_a_matter_of_time(odc: Odc) -> None:
    odc.consortium.until_contributed()
    assert odc("receive").code == 6


def test_a_line_that_is_down_ends_with_seven(odc: Odc, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ConnectionFailedError("no answer")

    joined(odc)
    monkeypatch.setattr(AnalystConnection, "request", fail)
    assert odc("status").code == 7
