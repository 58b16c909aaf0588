"""What may go into an archive of evidence, decided file by file and figure by figure."""

from __future__ import annotations

import ast
from dataclasses import fields
from fnmatch import fnmatch
from pathlib import Path

from user_client import evidence_verifier
from user_client.custody.home import SECRETS
from user_client.custody.round_directory import ANCHOR_FILES, BASIS_FILES, ROLES
from user_client.sdk import Prepared
from user_client.sdk.evidence import COPIED, TOLD, WITHHELD, desk_report


def test_no_file_that_is_copied_is_a_secret_or_leads_to_the_basis() -> None:
    assert set(COPIED) <= set(ROLES)
    assert not set(COPIED) & {*BASIS_FILES, *ANCHOR_FILES}
    assert not [name for name in COPIED if any(fnmatch(f"collaborations/x/{name}", each) for each in SECRETS)]


def test_of_every_figure_it_was_decided_whether_an_auditor_reads_it() -> None:
    """A new figure of `odc prepare` is told, or withheld with a reason."""
    assert {field.name for field in fields(Prepared)} <= {*TOLD, *WITHHELD}
    assert not {*TOLD} & {*WITHHELD}


PREPARED = {
    "rows": 3,
    "singular_values": [3.25, 2.125],
    "source": "ab" * 32,
    "threshold": {"threshold": 0.2, "rows_below": 1},
    "hidden_share": {"minimum": 0.015625, "first_percent": 0.03125, "median": 0.123456789},
    "collusion_error": None,
    "privacy": {"epsilon": 1.23456789},
    "options": {"epsilon": 1.23456789, "clip": None},
    "overlaps": [{"release": {"collaboration_id": "c" * 32, "title": "Earlier", "found": {}}, "rows": 2}],
    "attacks": [{"name": "lattice", "ran": True, "exact_rows": 0.33333333, "columns": ["hiv", "sex"]}],
    "something_new": "0.987654321",
}


def test_a_desk_report_has_no_figure_that_one_row_decides() -> None:
    told = desk_report(PREPARED, "00" * 32)
    assert told["hidden_share"] == {"median": 0.123}
    assert "collusion_error" not in told
    for withheld in ("0.015", "0.031", "3.25", "2.125", "ab" * 32, "rows_below", "Earlier", "hiv", "0.98"):
        assert withheld not in str(told), withheld


def test_a_desk_report_states_options_exactly_and_counts_columns() -> None:
    told = desk_report(PREPARED, "00" * 32)
    assert (told["options"], told["privacy"]) == ({"epsilon": 1.23456789}, {"epsilon": 1.23456789})
    assert told["overlaps"] == [{"collaboration_id": "c" * 32, "rows": 2}]
    assert told["attacks"][0]["columns"] == 2
    assert told["attacks"][0]["exact_rows"] == 0.333
    assert told["uplink_digest"] == "00" * 32


def test_the_verifier_imports_nothing_of_ours() -> None:
    tree = ast.parse(Path(evidence_verifier.__file__).read_text())
    names = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert not names & {"protocol", "metering", "runtime", "user_client", "pydantic", "numpy"}
    assert {"cryptography", "msgpack"} <= names
