"""A second implementation, written from docs/protocol.md alone, plays whole rounds with ours."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from analyst_server.services import rounds
from odc_demo.actors import CommandError
from protocol.consent import plain_words
from tests.harness.consortium import PASSPHRASE, Consortium, consortium, rows
from tests.harness.line import line
from tests.harness.node_institution import EXAMPLE, NodeInstitution, require_node
from user_client import sdk

LEAD, MEMBER, NODE = "lead-hospital", "hospital-b", "node-hospital"


@pytest.fixture(scope="module", autouse=True)
def _node_is_there() -> None:
    require_node()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with consortium(tmp_path_factory.mktemp("node"), LEAD, MEMBER) as found:
        yield found


@pytest.fixture(scope="module")
def node(made: Consortium, tmp_path_factory: pytest.TempPathFactory) -> NodeInstitution:
    """The institution in Node, after it has joined by an invitation like any other."""
    home = tmp_path_factory.mktemp("institution")
    invitation = home / "invitation.json"
    invitation.write_text(sdk.invite(made.lead, NODE).to_json())
    found = NodeInstitution(NODE, home)
    assert found.run("join", invitation, "--yes") == {"joined": False}  # not approved yet
    sdk.approve_pending(made.lead, PASSPHRASE)
    assert found.run("join", invitation, "--yes") == {"joined": True, "party": NODE}
    return found


def agreed(made: Consortium, node: NodeInstitution, **changes: Any) -> str:
    """Publish terms that name it too, sign them everywhere and draw the anchor."""
    found = made.publish(parties=[*made.names, NODE], **changes)
    for session in made.sessions.values():
        session.round(found).accept()
    node.shown("accept", "--yes", "--collaboration", found)
    made.lead.round(found).create_anchor()
    return found


def test_it_holds_every_vector() -> None:
    done = subprocess.run(
        ["node", "--test", "--test-reporter=tap"],
        cwd=EXAMPLE,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    (passed,) = re.findall(r"^# pass (\d+)$", done.stdout, re.MULTILINE)
    assert int(passed) > 400


def test_same_rows_and_same_basis_predict_the_same_classes(made: Consortium, node: NodeInstitution) -> None:
    found = agreed(made, node, features=6, latent_dim=4)
    own, fresh = rows(1, 150, features=6), rows(99, 500, features=6)
    made.contribute(LEAD, found, rows(0, 150, features=6))
    ours = made.contribute(MEMBER, found, own)
    basis = np.load(made.sessions[MEMBER].home.collaboration(found) / "basis.npy")
    words = ("--yes", "--collaboration", found)
    theirs = node.run("contribute", node.table("own.csv", own), "--basis", node.basis(basis), *words)
    assert theirs["payload_bytes"] == ours.payload_bytes == (150 + 6) * 4 * 4 + 150
    made.wait_for(found, "released")
    assert node.run("receive", "--collaboration", found)["trained_on"] == [LEAD, MEMBER, NODE]
    assert "trained without our rows" not in node.said
    made.sessions[MEMBER].round(found).receive()
    expected = made.sessions[MEMBER].round(found).predict(fresh)
    predicted = node.predict(found, fresh)
    assert predicted.column("prediction").to_pylist() == list(expected.labels)
    ours_by_class = np.asarray(expected.probabilities)
    theirs_by_class = np.column_stack([predicted.column(name).to_numpy() for name in ("no", "yes")])
    np.testing.assert_allclose(theirs_by_class, ours_by_class, atol=1e-4)


@pytest.mark.parametrize(
    "changes",
    [
        {"rep_dtype": "f2", "model": {"kind": "mlp", "epochs": 50}},
        {"rep_dtype": "i1", "dither": 0.3, "hold_out": 0.2, "model": {"kind": "averaged", "epochs": 10}},
        {"rep_dtype": "f8", "anchor": {"kind": "gaussian", "rows": 40}, "alignment": {"method": "imakura"}},
    ],
    ids=["mlp", "noise-and-integers", "doubles"],
)
def test_with_a_basis_of_its_own_it_predicts_what_is_right(
    made: Consortium, node: NodeInstitution, changes: dict[str, Any]
) -> None:
    found = agreed(made, node, latent_dim=4, **changes)
    for seed, name in enumerate(made.names):
        made.contribute(name, found, rows(seed, 200))
    node.run("contribute", node.table("own.csv", rows(7, 200)), "--yes", "--collaboration", found)
    made.wait_for(found, "released")
    status = made.lead.round(found).status()
    assert not [each for each in status["members"] if each["excluded"]]
    node.run("receive", "--collaboration", found)
    fresh = rows(99, 300)
    predicted = node.predict(found, fresh).column("prediction").to_numpy()
    assert (predicted == fresh.column("label").to_numpy()).mean() > 0.85


def test_it_holds_to_the_analysts_key_and_says_what_it_has_seen(
    made: Consortium, node: NodeInstitution
) -> None:
    known = made.lead.home.analyst_keys()[-1]
    found = agreed(made, node, analyst_key=known)
    for seed, name in enumerate(made.names):
        made.contribute(name, found, rows(seed, 60))
    node.run("contribute", "--yes", "--collaboration", found)  # without rows
    made.wait_for(found, "released")
    node.run("receive", "--collaboration", found)
    checked = node.run("ledger", "--collaboration", found)
    _, ours = made.lead.round(found).fetch_ledger()
    assert (checked["entries"], checked["trained_on"]) == (len(ours.entries), [LEAD, MEMBER, NODE])


def test_its_people_are_told_when_its_rows_were_left_out(made: Consortium, node: NodeInstitution) -> None:
    """A basis whose span has nothing to do with the others' is orthonormal, and suspected."""
    width, dimensions = 40, 6
    found = agreed(made, node, features=width, latent_dim=dimensions)
    for name in made.names:
        made.contribute(name, found, narrow(rows(1, 300, features=width)))
    stray, _ = np.linalg.qr(np.random.default_rng(5).standard_normal((width, dimensions)))
    table = node.table("own.csv", narrow(rows(2, 300, features=width)))
    node.run("contribute", table, "--basis", node.basis(stray), "--yes", "--collaboration", found)
    made.wait_for(found, "training")
    deadline = time.monotonic() + 60
    while not node.run("status", "--collaboration", found).get("held") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert "trained without our rows" in node.said
    with made.operator() as opened:
        rounds.release(opened, found)
    answer = node.run("receive", "--collaboration", found)
    assert answer["trained_on"] == [LEAD, MEMBER]
    assert answer["left_out"] is True
    assert "trained without our rows" in node.said


def narrow(table: pa.Table) -> pa.Table:
    """The same rows with only a few columns that vary: the bases of two institutions have much in common."""
    scales = [1.0 if number < 6 else 0.01 for number in range(table.num_columns - 1)]
    columns = {f"x{i}": table.column(f"x{i}").to_numpy() * scale for i, scale in enumerate(scales)}
    return pa.table({**columns, "label": table.column("label")})


def test_it_shows_the_plain_words_that_ours_shows(made: Consortium, node: NodeInstitution) -> None:
    found = made.publish(parties=[*made.names, NODE], purpose="A test of words.", dither=0.5)
    with pytest.raises(CommandError, match="nobody to ask"):
        node.shown("accept", "--collaboration", found)
    shown = node.shown("accept", "--yes", "--collaboration", found)
    assert shown.removesuffix("\n") == plain_words(made.lead.round(found).fetch_terms())


def test_it_takes_no_part_where_rows_are_joined_and_says_so(made: Consortium, node: NodeInstitution) -> None:
    group = {"row_key": "pid", "parties": [LEAD, NODE], "latent_dims": [1, 1], "labels": LEAD}
    found = made.publish(
        parties=[*made.names, NODE],
        absent_columns=[
            {"party": LEAD, "columns": ["x2", "x3"]},
            {"party": NODE, "columns": ["x0", "x1"]},
        ],
        joined_rows=[group],
    )
    with pytest.raises(CommandError, match="takes no part in rounds that join rows") as caught:
        node.shown("accept", "--yes", "--collaboration", found)
    assert caught.value.exit_code == 1


def test_a_line_that_breaks_is_taken_up_where_it_stood(made: Consortium, node: NodeInstitution) -> None:
    model = {"kind": "mlp", "hidden_units": 1000, "epochs": 1}
    found = agreed(made, node, features=8, latent_dim=8, model=model)
    made.contribute_all(found, 50, features=8)
    table = node.table("many.csv", rows(5, 40_000, features=8))
    with line(made.analyst.port, cuts=(("up", 900_000), ("up", 300_000), ("down", 20_000))) as between:
        node.go_through(between.port)
        node.run("contribute", table, "--yes", "--collaboration", found)
        made.wait_for(found, "released")
        node.run("receive", "--collaboration", found)
        assert between.cuts_left == 0
        assert between.carried_up < 2 * 40_000 * 8 * 4
    node.go_through(made.analyst.port)
