"""A place that cannot be written is named before anything is changed for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.codec import encode
from protocol.errors import InputError
from runtime.terminal import exit_code
from tests.harness.in_process import HOSPITAL, LEAD, PASSPHRASE, URL
from tests.harness.odc import Odc, Result
from user_client.sdk import invitations, invite, revoke

BELOW_A_FILE = "file/out"
"""Nobody can write there, not even root."""


@pytest.fixture(autouse=True)
def a_file(odc: Odc) -> None:
    (odc.consortium.directory / "file").write_text("not a folder")


def is_refused(result: Result) -> bool:
    return result.code == exit_code(InputError) and "cannot write file/" in result.err


def test_no_consortium_is_founded_whose_invitation_cannot_be_written(odc: Odc) -> None:
    words = ("Lungs", "--analyst", URL, "--party", "lead-b", "--analyst-invitation")
    assert is_refused(odc("consortium", "create", *words, BELOW_A_FILE, home="b"))
    assert odc("consortium", "create", *words, "new/folder/analyst.json", home="b").code == 0


@pytest.mark.parametrize("words", [(HOSPITAL,), ("--from", "names")], ids=["one", "several"])
def test_nobody_is_invited_by_a_file_that_cannot_be_written(odc: Odc, words: tuple[str, ...]) -> None:
    Path("names").write_text(f"{HOSPITAL}\n")
    assert is_refused(odc("consortium", "invite", *words, "--out", BELOW_A_FILE, home=LEAD))
    assert invitations(odc.consortium.lead) == []


def test_nothing_is_signed_whose_certificate_cannot_be_written(odc: Odc) -> None:
    revoke(odc.consortium.lead, "analyst", PASSPHRASE)
    invitation = invite(odc.consortium.lead, "analyst", role="analyst", replace_earlier=True)
    Path("request.odc").write_bytes(
        encode(invitation.answer(odc.consortium.session("other").home.make_key()))
    )
    words = ("--request", "request.odc", "--yes", "--out", BELOW_A_FILE)
    assert is_refused(odc("consortium", "approve", *words, home=LEAD))
    assert invitations(odc.consortium.lead) == [invitation]


def test_a_draft_that_cannot_be_written_is_no_unexpected_error(odc: Odc) -> None:
    words = ("--label", "y", "--party", LEAD, "--party", HOSPITAL, "--out", BELOW_A_FILE)
    assert is_refused(odc("terms", "draft", odc.consortium.table(1), *words))
