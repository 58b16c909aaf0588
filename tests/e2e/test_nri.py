"""NRI-DC beside an ordinary round on the same rows: real processes, mutual TLS, breast cancer."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from odc_demo.actors import CommandError
from odc_demo.tables import breast_cancer, write_csv
from protocol.envelope import decode_stored
from protocol.messages import DownlinkManifest
from protocol.operations import FETCH_DOWNLINK
from tests.harness.consortium import Consortium, consortium, rows
from user_client.custody.round_directory import ANCHOR_FILES, BASIS_FILES
from user_client.tables import draft_schema

NAMES = ("lead-hospital", "hospital-b", "hospital-c")
BY_COMMAND = "hospital-b"
"""Takes part by `odc`; the others by the SDK, which is quicker."""
FEATURES, ANCHOR_ROWS, CLASSES = 30, 40 * 30, 2
LEADS_TO_THE_BASIS = {*BASIS_FILES, *ANCHOR_FILES}
HELD_BY_A_MEMBER = {*BASIS_FILES, "anchor.odc", "sealing.key"}


@dataclass
class Played:
    """Both rounds, until every institution has received and predicted the hold-out."""

    made: Consortium
    hold_out: pa.Table
    label: str
    ids: dict[str, str]
    predicted: dict[tuple[str, str], pa.Table]
    after_contribute: dict[str, set[str]]
    """What lay in each directory of the NRI round once `odc contribute` had ended."""

    def directory(self, name: str) -> Path:
        return self.made.sessions[name].home.collaboration(self.ids["nri"])

    def labels(self, kind: str, name: str) -> Any:
        return self.predicted[kind, name].column("prediction").to_numpy()

    def right(self, kind: str, name: str) -> float:
        return float(np.mean(self.labels(kind, name) == self.hold_out.column(self.label).to_numpy()))


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    directory, tables = tmp_path_factory.mktemp("nri"), breast_cancer()
    parts = list(tables.by_hospital.values())
    dealt = [pa.concat_tables(parts[index :: len(NAMES)]) for index in range(len(NAMES))]
    schema = draft_schema(parts[0], tables.label, tables.exclude).content
    common: dict[str, Any] = {"table_schema": schema, "latent_dim": 15, "model": {"kind": "mlp"}}
    with consortium(directory, *NAMES) as made:
        files = {name: directory / f"{name}.csv" for name in NAMES}
        for name, part in zip(NAMES, dealt, strict=True):
            write_csv(part, files[name])
        write_csv(tables.hold_out, directory / "hold-out.csv")
        ids = {
            "plain": made.anchored(**common, anchor={"kind": "haar", "rows": FEATURES}),
            "nri": made.anchored(
                **common,
                anchor={"kind": "gaussian", "rows": ANCHOR_ROWS},
                downlink="anchor-predictions",
            ),
        }
        found = Played(made, tables.hold_out, tables.label, ids, {}, {})
        for name in NAMES:
            made.contribute(name, ids["plain"], files[name])
            if name == BY_COMMAND:
                made.institution(name).odc("contribute", "--yes", str(files[name]), "-c", ids["nri"])
            else:
                made.contribute(name, ids["nri"], files[name])
            found.after_contribute[name] = {path.name for path in found.directory(name).iterdir()}
        for kind, collaboration_id in ids.items():
            made.wait_for(collaboration_id, "released")
            for name in NAMES:
                made.sessions[name].round(collaboration_id).receive()
                answer = made.sessions[name].round(collaboration_id).predict(directory / "hold-out.csv")
                found.predicted[kind, name] = pa.table({"prediction": answer.labels})
        yield found


def test_after_the_receipt_no_file_holds_the_basis_or_the_uplink(played: Played) -> None:
    for name in NAMES:
        assert not played.after_contribute[name] & {*BASIS_FILES}
        assert played.after_contribute[name] >= {"receipt.odc", "forgotten.odc", "anchor.odc", "sealing.key"}


def test_in_the_end_no_file_leads_to_the_basis(played: Played) -> None:
    for name in NAMES:
        assert not {path.name for path in played.directory(name).iterdir()} & LEADS_TO_THE_BASIS
    checked = played.made.institution(BY_COMMAND).odc("forget", "--check", "-c", played.ids["nri"])
    assert checked["forgotten"]
    assert checked["statement_is_ours"]
    assert {file["name"] for file in checked["statement"]["erased"]} == HELD_BY_A_MEMBER


def test_what_the_analyst_answers_has_neither_the_change_of_basis_nor_the_model(played: Played) -> None:
    """Byte by byte: the manifest, one array of probabilities with the digests of its chunks, no more."""
    session = played.made.sessions["hospital-b"]
    with session.connection.stream(FETCH_DOWNLINK, collaboration_id=played.ids["nri"]) as answer:
        data = b"".join(answer.pieces)
    (length,) = struct.unpack_from("<I", data)
    manifest = decode_stored(DownlinkManifest, data[4 : 4 + length])
    assert [(spec.name, spec.shape) for spec in manifest.arrays] == [
        ("anchor_predictions", (ANCHOR_ROWS, CLASSES))
    ]
    assert len(data) == 4 + length + 32 + ANCHOR_ROWS * CLASSES * 4


def test_own_models_predict_as_the_ordinary_round_does(played: Played) -> None:
    for name in NAMES:
        assert played.right("plain", name) > 0.9
        assert played.right("nri", name) > played.right("plain", name) - 0.06
        assert np.mean(played.labels("plain", name) == played.labels("nri", name)) > 0.9


def test_the_bytes_and_the_agreement_of_our_own_model_are_shown(played: Played) -> None:
    made, found = played.made, played.ids["nri"]
    explained = made.sessions[BY_COMMAND].round(found).explain_bytes()
    assert explained is not None
    assert explained.parties[0].downlink.formula_bytes == ANCHOR_ROWS * CLASSES * 4
    assert explained.parties[0].downlink.encoding_bytes == 0
    received = made.institution(BY_COMMAND).odc("receive", "-c", found)
    assert received["arrays"] == {"anchor_predictions": ANCHOR_ROWS * CLASSES * 4}
    assert received["held_out_agreement"] > 0.9


def test_ordinary_terms_ask_before_they_forget_and_predict_no_more_afterwards(played: Played) -> None:
    institution, found = played.made.institution("hospital-c"), played.ids["plain"]
    with pytest.raises(CommandError, match="would not be possible any more") as asked:
        institution.odc("forget", "-c", found)
    assert asked.value.exit_code == 3
    erased = institution.odc("forget", "--yes", "-c", found)
    assert {file["name"] for file in erased["erased"]} == HELD_BY_A_MEMBER
    table = played.made.sessions["hospital-c"].home.path.parent / "hold-out.csv"
    with pytest.raises(CommandError, match="secret basis was forgotten on") as refused:
        institution.odc("predict", str(table), "-c", found)
    assert refused.value.exit_code == 6


def test_a_public_anchor_goes_up_once_and_down_to_each_and_every_byte_is_explained(played: Played) -> None:
    made, anchor_rows, features = played.made, 70_000, 4
    matrix_bytes = 4 * anchor_rows * features  # two chunks
    found = made.publish(anchor={"kind": "public", "rows": anchor_rows})
    for session in made.sessions.values():
        session.round(found).accept()
    table = made.lead.home.path.parent / "public.parquet"
    pyarrow.parquet.write_table(rows(50, anchor_rows + 10).drop_columns("label"), table)
    assert made.institution(NAMES[0]).odc("anchor", "create", "--table", str(table), "-c", found)
    made.contribute_all(found)
    made.receive_all(found)
    for name in NAMES:
        explained = made.sessions[name].round(found).explain_bytes()
        assert explained is not None
        shown = asdict(explained.parties[0].anchor)
        assert shown["formula_bytes"] == (matrix_bytes if name == NAMES[0] else 0)
        seeds = 32 * (len(NAMES) + 1 if name == NAMES[0] else 1)
        assert shown["encoding_bytes"] == matrix_bytes + seeds - shown["formula_bytes"]
        assert shown["repeated_bytes"] == 0
