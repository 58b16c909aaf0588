"""No secret stands in a log, an error, a report or a repr.

Searched is all that both sides write in one round and in commands that fail, with every logger of every
library at DEBUG. A secret that is logged on purpose is found.
"""

from __future__ import annotations

import json
import shutil
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from analyst_server.pages.report import report_text
from protocol.envelope import SealingKey
from protocol.errors import InputError
from protocol.messages import Receipt
from tests.harness.attacks import got
from tests.harness.consortium import PASSPHRASE
from tests.harness.needles import Needles
from tests.harness.played import (
    FEATURES,
    LATENT_DIM,
    Played,
    decimals_in,
    decimals_of,
    matrices,
    scalar,
    secrets_of,
    spellings,
    talk,
    talkative,
)
from user_client import sdk
from user_client.custody.authority import Authority
from user_client.custody.keystream import KeyStream
from user_client.sdk.anchor import open_anchor
from user_client.sdk.session import Session

LEAD, B = "lead-hospital", "hospital-b"
WRONG_PASSPHRASE = "not the one it was locked with"
LOGGERS = ("httpx", "httpcore.http11", "asyncio", "uvicorn", "sqlalchemy.engine")
TELLING = """
import user_client.sdk.privacy as privacy

def telling(*arguments, draw=privacy.draw_secret_basis, **options):
    basis = draw(*arguments, **options)
    logging.getLogger("careless").debug("drawn: %s, %s", basis, basis.tobytes().hex())
    return basis

privacy.draw_secret_basis = telling
"""
"""A mistake for the search to find: the basis in a log."""


@pytest.fixture(scope="module")
def decimals(played: Played) -> set[str]:
    found: set[str] = set()
    return found.union(*map(decimals_of, matrices(played).values()))


def told_in(text: str, must_stay: Needles, decimals: set[str]) -> set[str]:
    """Return which secrets stand in a text."""
    return must_stay.found_in(text.encode() + b"\x00") | (decimals & decimals_in(text))


def test_every_logger_speaks(played: Played) -> None:
    """Else the searches below would search nothing."""
    told = "".join(played.said) + played.consortium.log()
    for name in LOGGERS:
        assert f" DEBUG {name}" in told or f" INFO {name}" in told, name
    got("searched", characters=len(told))


def test_no_secret_is_told_in_a_whole_round(played: Played, must_stay: Needles, decimals: set[str]) -> None:
    assert told_in(played.consortium.log(), must_stay, decimals) == set()
    for said in played.said:
        assert told_in(said, must_stay, decimals) == set()


@pytest.fixture(scope="module")
def broken(played: Played, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables, invitations and passphrases with which a command fails; the tables hold real rows."""
    directory, table = tmp_path_factory.mktemp("broken"), played.tables[B]
    values = table.column("x0").to_pylist()

    def changed(name: str, values: list[object]) -> None:
        column = pa.array([str(value) for value in values])
        pyarrow.csv.write_csv(table.set_column(0, "x0", column), directory / name)

    changed("out-of-range.csv", [*values[:-1], 1000 * values[-1]])
    changed("no-number.csv", [*values[:-1], f"{values[-1]!r} mg"])
    changed("empty.csv", [*values[:-1], ""])
    pyarrow.csv.write_csv(table.drop_columns("x3"), directory / "no-column.csv")
    labels = table.column("x1").cast("string")
    pyarrow.csv.write_csv(table.set_column(FEATURES, "label", labels), directory / "no-label.csv")
    whole = (played.consortium.sessions[B].home.path / "rows.csv").read_text()
    (directory / "ragged.csv").write_text(whole + "1,2,3\n" + whole.splitlines()[1] + "," + repr(values[1]))
    (directory / "no-header.csv").write_text("\n".join(whole.splitlines()[1:]))
    (directory / "open-quote.csv").write_text(whole.replace(",", ',"', 1))
    pyarrow.parquet.write_table(table, directory / "cut.parquet")
    (directory / "cut.parquet").write_bytes((directory / "cut.parquet").read_bytes()[:-20])
    (directory / "passphrase.txt").write_text(WRONG_PASSPHRASE)
    invitation = sdk.invite(played.consortium.lead, "hospital-z").to_json()
    (directory / "cut.invitation.json").write_text(invitation[:-30])
    (directory / "changed.invitation.json").write_text(invitation.replace('"hospital-z"', '"hospital/z"'))
    return directory


def test_no_secret_is_told_by_a_command_that_fails(
    played: Played, must_stay: Needles, decimals: set[str], broken: Path
) -> None:
    tables = [broken / name for name in ("out-of-range.csv", "ragged.csv", "cut.parquet")]
    wrong = ("--passphrase-file", str(broken / "passphrase.txt"))
    said = talk(
        played.consortium,
        *((B, "predict", str(table), "--out", "p.csv") for table in tables),
        (LEAD, "consortium", "revoke", B, *wrong),
        *((B, "join", str(path)) for path in broken.glob("*.invitation.json")),
        fails=True,
    )
    told = Needles({"the wrong passphrase": WRONG_PASSPHRASE.encode(), **join_secrets(broken)})
    for text in said:
        assert told_in(text, must_stay, decimals) == set()
        assert told.found_in(text.encode() + b"\x00") == set()
    got("searched", failed_commands=len(said))


def join_secrets(directory: Path) -> dict[str, bytes]:
    text = (directory / "changed.invitation.json").read_text()
    return {"join secret of hospital-z": json.loads(text)["join_secret"].encode()}


def test_no_value_stands_in_what_is_wrong_with_a_table(
    played: Played, must_stay: Needles, decimals: set[str], broken: Path
) -> None:
    """Nor in the exception it came from."""
    found = another_round(played)
    for table in sorted([*broken.glob("*.csv"), *broken.glob("*.parquet")]):
        with pytest.raises(InputError) as caught:
            played.sessions[B].round(found).prepare(table)
        assert told_in(in_full(caught.value), must_stay, decimals) == set(), table.name


def another_round(played: Played) -> str:
    """Another collaboration of the same institutions, with its anchor drawn."""
    return played.consortium.anchored(
        features=FEATURES, latent_dim=LATENT_DIM, anchor={"kind": "haar", "rows": FEATURES}
    )


def in_full(error: BaseException) -> str:
    """Everything that a traceback shows of an error, and of the one it came from."""
    return "".join(traceback.format_exception(error)) + repr(error)


def test_no_secret_is_told_by_a_damaged_state_directory(
    played: Played, must_stay: Needles, decimals: set[str], tmp_path: Path
) -> None:
    round_id, said = played.collaboration_id, []
    steps: list[Callable[[Session], object]] = [
        lambda session: session.sign(session.round(round_id).directory.load(Receipt)),
        lambda session: session.membership,
        lambda session: open_anchor(session, session.round(round_id).directory),
        lambda session: session.round(round_id).predict(played.tables[B]),
        lambda session: session.round(round_id).contribute(),
    ]
    own = Path("collaborations", round_id)
    for name in ("key.pem", "membership.json", own / "sealing.key", own / "basis.npy", own / "receipt.odc"):
        home = tmp_path / Path(name).name
        shutil.copytree(played.sessions[B].home.path, home)
        path = home / name
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 + 3])
        with Session(home) as session:
            for step in steps:
                try:
                    step(session)
                except Exception as error:  # noqa: BLE001  # whatever it is, it must not tell
                    said.append(in_full(error))
    got("searched", errors=len(said))
    assert len(said) >= 5
    for text in said:
        assert told_in(text, must_stay, decimals) == set()


def test_no_secret_stands_in_a_report(
    played: Played, must_stay: Needles, decimals: set[str], tmp_path: Path
) -> None:
    page, found = tmp_path / "report.html", played.collaboration_id
    as_json = played.consortium.analyst.run("collaboration", "report", found, "--json", "--html", str(page))
    assert found in as_json
    for told in (as_json, report_text(json.loads(as_json)), page.read_text()):
        assert told_in(told, must_stay, decimals) == set()


def test_no_repr_shows_a_secret(played: Played, must_stay: Needles, decimals: set[str]) -> None:
    session, found = played.sessions[LEAD], played.collaboration_id
    directory = session.home.collaboration(found)
    locked = (session.home.consortium_path / "root.locked").read_bytes()
    invitation = sdk.invite(session, "hospital-y")
    stream = KeyStream(secrets_of(session, found)["anchor seed"], "odc/v1/anchor/haar")
    with played.consortium.operator() as opened:
        shown = [
            SealingKey.from_bytes((directory / "sealing.key").read_bytes()),
            Authority.unlock(locked, PASSPHRASE, session.home.root().certificate),
            session.home.root(),
            session,
            session.home,
            session.home.key(),
            session.connection,
            session.membership,
            opened,
            opened.key,
            opened.records,
            invitation,
            stream,
            session.round(found).prepare(session.home.path / "rows.csv"),
            session.round(found).receive(),
            played.consortium,
        ]
        texts = [f"{value!r} {value!s}" for value in shown]
        key = scalar(opened.key)
    join_secret = bytes.fromhex(invitation.join_secret)
    own = Needles(spellings({"the analyst's key": key, "the new join secret": join_secret}))
    for text in texts:
        assert told_in(text, must_stay, decimals) == set()
        assert own.found_in(text.encode() + b"\x00") == set()


def test_a_secret_that_is_logged_is_found(played: Played, tmp_path: Path) -> None:
    """The mutation: an institution whose `prepare` logs the basis it has drawn."""
    made, found = played.consortium, another_round(played)
    with talkative(tmp_path / "telling", TELLING):
        (said,) = talk(made, (B, "prepare", "rows.csv", "--collaboration", found))
    basis = np.load(made.sessions[B].home.collaboration(found) / "basis.npy")
    as_hex = Needles({"the basis": basis.tobytes()[:24].hex().encode()})
    told = decimals_of(basis) & decimals_in(said)
    got("careless prepare", entries_of_the_basis=len(told))
    assert len(told) > basis.size / 2  # numpy rounds the others up to another last digit
    assert as_hex.found_in(said.encode()) == {"the basis"}
