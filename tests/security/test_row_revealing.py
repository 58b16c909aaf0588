"""A model that carries rows, in a real round: it is trained only if every member consents to that word."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from scipy.spatial import cKDTree

from protocol.errors import ConsentMissingError
from tests.harness.attacks import got, mapped_back
from tests.harness.consortium import Consortium, consortium, rows
from tests.harness.problems import TERMS
from user_client.errors import NotPreparedError
from user_client.sdk import Session
from user_client.sdk.map_to_model import map_to_model
from user_client.secret.expansion import Matrix64
from user_client.tables import encode_rows

ROWS, LATENT_DIM = 40, 3


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with consortium(tmp_path_factory.mktemp("revealing"), "lead-hospital", "hospital-b") as found:
        yield found


def carried_rows(onnx_file: bytes, latent_dim: int) -> Matrix64:
    """Return all that could be rows in a model as it came, in the coordinates of the aligned representation.

    That is every run of l numbers, on the model's own scale and as it stands there: support vectors, the rows
    of nearest neighbours, or rows that somebody has hidden among the numbers of another model.
    """
    graph = onnx.load_from_string(onnx_file).graph
    lists = [numpy_helper.to_array(one).astype(np.float64).ravel() for one in graph.initializer]
    lists += [np.array(one.floats, np.float64) for node in graph.node for one in node.attribute]
    scalers = [node for node in graph.node if node.op_type == "Scaler"]
    found = np.concatenate(
        [np.lib.stride_tricks.sliding_window_view(one, latent_dim) for one in lists if len(one) >= latent_dim]
    )
    if not scalers:
        return found
    scale, offset = (
        np.array(next(one.floats for one in scalers[0].attribute if one.name == name))
        for name in ("scale", "offset")
    )
    return np.asarray(np.concatenate([found, found / scale + offset]))


def rebuilt_by_b(made: Consortium, found: str) -> tuple[int, float]:
    """How many rows of the lead hospital-b reads in the model, and how near it comes to them with its map.

    A row is read if its projection stands there, to a thousandth: the rest is what the projection cut off.
    """
    b = made.sessions["hospital-b"]
    manifest, directory = b.round(found).receive(), b.home.collaboration(found)
    candidates = carried_rows(b.round(found).directory.read_model(), LATENT_DIM)
    basis = np.load(directory / "basis.npy")
    raw = (directory / "change_of_basis.bin").read_bytes()
    change = np.frombuffer(raw, f"<{manifest.change_of_basis.dtype}").reshape(LATENT_DIM, LATENT_DIM)
    truth = encode_rows(rows(0, ROWS), b.round(found).terms.table_schema)
    sent = aligned_rows_of(made.lead, found)
    distances, nearest = cKDTree(candidates).query(sent)
    is_read = distances < 1e-3 * np.linalg.norm(sent, axis=1)
    if not is_read.any():
        return 0, 1.0
    guesses = mapped_back(candidates[nearest[is_read]], basis, change.astype(np.float64))
    errors = np.linalg.norm(truth[is_read] - guesses, axis=1) / np.linalg.norm(truth[is_read], axis=1)
    return int(is_read.sum()), float(np.median(np.sort(errors)[: max(1, len(errors) // 4)]))


def aligned_rows_of(session: Session, found: str) -> Matrix64:
    """Return ``X~_i G_i`` of an institution, from what it has itself."""
    its = session.round(found)
    to_model = map_to_model(its.directory, its.receive())
    return np.asarray(encode_rows(rows(0, ROWS), its.terms.table_schema) @ to_model)


@pytest.mark.parametrize("kind", [kind for kind, terms in TERMS.items() if terms.carries_rows])
def test_no_such_model_can_be_chosen_without_the_consent_of_all(made: Consortium, kind: str) -> None:
    """Whatever would have been chosen: one candidate with rows in it is enough to be asked."""
    for candidates in ([kind, "logistic"], ["logistic", kind]):
        model = {"kind": "auto", "candidates": [{"kind": one} for one in candidates]}
        found = made.publish(terms_schema=2, model=model, latent_dim=LATENT_DIM)
        made.lead.round(found).accept(accept_row_revealing_model=True)
        with pytest.raises(ConsentMissingError):
            made.sessions["hospital-b"].round(found).accept()
        with pytest.raises(NotPreparedError, match="not yet accepted by hospital-b"):
            made.lead.round(found).create_anchor()


@pytest.mark.parametrize("kind", [kind for kind, terms in TERMS.items() if terms.carries_rows])
def test_a_choice_of_the_alignment_asks_for_the_same_consent(made: Consortium, kind: str) -> None:
    found = made.publish(
        terms_schema=2, model={"kind": kind}, alignment={"method": "auto"}, latent_dim=LATENT_DIM
    )
    made.lead.round(found).accept(accept_row_revealing_model=True)
    with pytest.raises(ConsentMissingError):
        made.sessions["hospital-b"].round(found).accept()
    with pytest.raises(NotPreparedError, match="not yet accepted by hospital-b"):
        made.lead.round(found).create_anchor()


@pytest.mark.parametrize("kind", [kind for kind, terms in TERMS.items() if terms.carries_rows])
@pytest.mark.parametrize("defence", ["on", "off"])
def test_no_model_with_rows_in_it_comes_back_without_the_consent_of_all(
    made: Consortium, defence: str, kind: str
) -> None:
    """On: one member does not say the word. Off: all do, and hospital-b reads rows of the lead."""
    found = made.publish(terms_schema=2, model={"kind": kind}, latent_dim=LATENT_DIM)
    made.lead.round(found).accept(accept_row_revealing_model=True)
    b = made.sessions["hospital-b"]
    if defence == "on":
        with pytest.raises(ConsentMissingError):
            b.round(found).accept()
        with pytest.raises(NotPreparedError, match="not yet accepted by hospital-b"):
            made.lead.round(found).create_anchor()
        carried, error = 0, 1.0
    else:
        b.round(found).accept(accept_row_revealing_model=True)
        made.lead.round(found).create_anchor()
        made.contribute_all(found, ROWS)
        made.wait_for(found, "released")
        carried, error = rebuilt_by_b(made, found)
    got(
        f"member, {kind}, consent asked for: {defence}",
        rows_in_the_model=carried,
        error_of_the_nearest_quarter=error,
    )
    assert (carried > 0, error < 0.4) == (defence == "off",) * 2


@pytest.mark.parametrize(
    "kind",
    [kind for kind, terms in TERMS.items() if "classes" in terms.tasks and not terms.carries_rows],
)
def test_a_model_that_needs_no_consent_carries_no_row(made: Consortium, kind: str) -> None:
    """The same search; `benchmarks.privacy` inverts the models that are networks."""
    found = made.anchored(terms_schema=2, latent_dim=LATENT_DIM, model={"kind": kind})
    made.contribute_all(found, ROWS)
    made.wait_for(found, "released")
    carried, error = rebuilt_by_b(made, found)
    got(f"member, {kind} model", rows_in_the_model=carried, error=error)
    assert (carried, error) == (0, 1.0)


def test_a_model_on_a_chosen_alignment_carries_no_row_either(made: Consortium) -> None:
    """Models are fitted for the choice as well; what comes back is the one in the terms."""
    found = made.anchored(
        terms_schema=2, latent_dim=LATENT_DIM, model={"kind": "logistic"}, alignment={"method": "auto"}
    )
    made.contribute_all(found, ROWS)
    made.wait_for(found, "released")
    carried, error = rebuilt_by_b(made, found)
    got("member, logistic model on a chosen alignment", rows_in_the_model=carried, error=error)
    assert (carried, error) == (0, 1.0)
