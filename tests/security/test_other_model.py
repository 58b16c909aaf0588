"""An analyst that sends a model with rows under terms that name none: whoever receives it refuses it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from analyst_server.compute import model_registry
from tests.harness.in_process import Consortium
from tests.harness.problems import ALL_MODELS, TERMS
from user_client.custody.round_directory import CHANGE_FILE, DOWNLINK_FILE, MODEL_FILE
from user_client.errors import ModelRefusedError, NotPreparedError

REVEALING = [kind for kind, terms in TERMS.items() if terms.carries_rows]


@pytest.fixture
def consortium(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Consortium]:
    made = Consortium(tmp_path, monkeypatch)
    yield made
    made.close()


@pytest.mark.parametrize("kind", REVEALING)
def test_nobody_who_consented_to_no_rows_receives_them(
    kind: str, consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signed, hashed and in the ledger: only what the file is says that it is another model."""
    monkeypatch.setattr(model_registry, "trained_model_of", lambda *_: ALL_MODELS[kind])
    consortium.until_released(terms_schema=2, model={"kind": "logistic"})
    for session in consortium.sessions:
        found = session.round(consortium.id)
        with pytest.raises(ModelRefusedError, match="no logistic model: it has the operator"):
            found.receive()
        kept = {path.name for path in consortium.directory_of(session).iterdir()}
        assert not kept & {MODEL_FILE, CHANGE_FILE, DOWNLINK_FILE}
        with pytest.raises(NotPreparedError):
            found.predict(consortium.table(9))


@pytest.mark.parametrize("kind", ["logistic", *REVEALING])
def test_whoever_consented_to_rows_receives_what_comes(
    kind: str, consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_registry, "trained_model_of", lambda *_: ALL_MODELS[kind])
    consortium.until_released(terms_schema=2, model={"kind": "knn"})
    assert consortium.hospital_round.receive().model_parameters > 0
