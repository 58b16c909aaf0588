"""A map of an institution's own: which are taken, and what is refused in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from protocol.alignment_terms import AlignmentTerms
from protocol.anchor_terms import AnchorTerms
from protocol.errors import InputError
from protocol.row_bounds import longest_anchor_row, longest_row
from protocol.terms import Terms
from tests.harness.world import make_terms
from user_client.custody.scratch import Scratch
from user_client.onnx_model.wire import read
from user_client.onnx_model.writing import Writer, cosine_map
from user_client.rows import Block, Rows
from user_client.sdk import PrivacyOptions
from user_client.sdk import own_map as own_maps
from user_client.sdk.evidence import desk_report
from user_client.sdk.own_map import Mapped, OwnMap, digest_of_map, is_packed, own_map_of, packed, unpacked

RNG = np.random.default_rng(0)
ROWS, ANCHOR = RNG.uniform(-1, 1, (30, 4)), RNG.standard_normal((40, 4))


def terms(**changed: Any) -> Terms:
    fields: dict[str, Any] = {
        "own_maps": ("kernel-pca", "onnx", "random-features"),
        "latent_dim": 4,
        "anchor": AnchorTerms(kind="gaussian", rows=40),
        "alignment": AlignmentTerms(method="kawakami"),
    }
    return make_terms(**{**fields, **changed})


def chosen(
    kind: str | None, agreed: Terms | None = None, rows: np.ndarray = ROWS, seed: int = 0
) -> Mapped | None:
    source = np.random.default_rng(seed).bytes
    return own_map_of(kind, agreed or terms(), Rows.of(rows), ANCHOR, source, numbers=4)


def made(kind: str, **given: Any) -> Mapped:
    found = chosen(kind, **given)
    assert found is not None
    return found


def of_constant(value: float, width: int = 5) -> bytes:
    """A map to the same numbers, whatever the row."""
    graph = Writer(4)
    wide = graph.node("Cast", graph.input, to=11)
    nothing = graph.node("MatMul", wide, graph.constant(np.zeros((4, width))))
    return graph.file(graph.node("Add", nothing, graph.constant(value)), width)


def test_without_a_choice_there_is_no_map() -> None:
    assert chosen(None) is None


@pytest.mark.parametrize("kind", ["kernel-pca", "random-features"])
def test_a_map_that_is_made_here_shows_nothing_and_goes_through_its_file(kind: str) -> None:
    found = made(kind).own_map
    assert repr(found) == f"<OwnMap from 4 to {found.width} numbers>"
    np.testing.assert_array_equal(OwnMap(found.file, 4)(ROWS), found(ROWS))


def test_random_features_are_of_the_given_bytes_and_a_kernel_of_the_anchor_alone() -> None:
    assert made("random-features").own_map.file == made("random-features").own_map.file
    assert made("random-features").own_map.file != made("random-features", seed=1).own_map.file
    other = RNG.uniform(-1, 1, (30, 4))
    assert made("kernel-pca").own_map.file == made("kernel-pca", rows=other, seed=1).own_map.file


def test_a_map_of_a_kernel_holds_no_row_of_the_institution() -> None:
    constants = read(made("kernel-pca").own_map.file).constants.values()
    (landmarks,) = (values.T for values in constants if values.shape == (4, len(ANCHOR)))
    assert {tuple(row) for row in landmarks} == {tuple(row) for row in ANCHOR}


def test_rows_are_mapped_block_by_block_as_they_are_together(tmp_path: Path) -> None:
    found, loaded = made("random-features").own_map, []

    def block(start: int) -> Block:
        def load() -> np.ndarray:
            loaded.append(start)
            return ROWS[start : start + 10]

        return Block(load, 10)

    streamed = found.of_rows(Rows([block(start) for start in (0, 10, 20)], 4), Scratch(tmp_path))
    assert loaded == [0, 10, 20], "each block is mapped once"
    assert [len(part) for part in streamed.blocks()] == [10, 10, 10]
    np.testing.assert_allclose(np.asarray(streamed), found(ROWS), atol=1e-6)


def test_no_row_is_longer_than_without_a_map() -> None:
    agreed = terms()
    for kind in ("kernel-pca", "random-features"):
        mapped = made(kind)
        phi = mapped.own_map(ROWS)
        scale = mapped.scale_for(Rows.of(phi))
        lengths = scale * np.linalg.norm(phi, axis=1), scale * np.linalg.norm(mapped.anchor, axis=1)
        assert lengths[0].max() <= longest_row(agreed.table_schema)
        assert lengths[1].max() <= longest_anchor_row(agreed)


@pytest.mark.parametrize(
    ("kind", "agreed", "says"),
    [
        (
            "random-features",
            terms(own_maps=("kernel-pca", "onnx")),
            "allow kernel-pca, onnx beside linear maps",
        ),
        ("kernel-pca", make_terms(), "an orthonormal linear basis from every institution, not for a map"),
    ],
)
def test_a_kind_that_the_terms_do_not_allow_is_refused(kind: str, agreed: Terms, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        chosen(kind, agreed)
    assert "leave out --own-map" in caught.value.hint


@pytest.mark.parametrize("name", ["linear", "onnx", "encoder.pt", ""])
def test_a_name_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(
        InputError, match="an own map is kernel-pca or random-features, or the path of a file"
    ):
        PrivacyOptions(own_map=name)


@pytest.mark.parametrize("other", [{"drop_below": 0.3}, {"epsilon": 1.0, "delta": 1e-5, "clip": 1.0}])
def test_options_about_linear_maps_are_refused(other: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="are about linear maps of rows"):
        PrivacyOptions(own_map="kernel-pca", **other)


def test_without_rows_there_is_nothing_to_fit_a_basis_to() -> None:
    with pytest.raises(InputError, match="an own map needs rows to fit a basis to"):
        chosen("random-features", rows=np.empty((0, 4)))


@pytest.mark.parametrize(
    ("file", "says"),
    [
        (
            cosine_map(RNG.standard_normal((5, 3)), np.zeros(5)),
            "does not fit rows of 4 encoded features: it has a",
        ),
        (
            cosine_map(RNG.standard_normal((3, 4)), np.zeros(3)),
            "makes 3 numbers of a row, and 4 are to be sent",
        ),
        (of_constant(np.inf), "makes numbers of a row that are not finite"),
        (b"no file of ONNX", "does not fit rows of 4 encoded features: it has field"),
    ],
)
def test_a_file_that_is_no_map_of_such_rows_is_refused(tmp_path: Path, file: bytes, says: str) -> None:
    path = tmp_path / "own.onnx"
    path.write_bytes(file)
    with pytest.raises(InputError, match=says):
        chosen(str(path))


def test_a_file_that_is_too_large_or_too_wide_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "own.onnx"
    path.write_bytes(cosine_map(RNG.standard_normal((9, 4)), np.zeros(9)))
    monkeypatch.setattr(own_maps, "MAX_MAP_WIDTH", 8)
    with pytest.raises(InputError, match="from 1 to 8 numbers of a row, this one 9"):
        chosen(str(path))
    monkeypatch.setattr(own_maps, "MAX_MAP_BYTES", 100)
    with pytest.raises(InputError, match="at most 100 bytes"):
        chosen(str(path))


def test_a_map_that_tells_nothing_apart_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.onnx"
    path.write_bytes(of_constant(0.0))
    nothing = made(str(path))
    with pytest.raises(InputError, match="nothing but zeros"):
        nothing.scale_for(Rows.of(nothing.own_map(ROWS)))
    path.write_bytes(of_constant(1.0))
    with pytest.raises(InputError, match="tells only 0 numbers of the anchor's rows apart, and 4 are"):
        made(str(path)).anchor_rep(np.eye(5)[:, :4])


def test_a_basis_and_its_map_are_one_file(tmp_path: Path) -> None:
    mapped = made("random-features")
    basis, path = RNG.standard_normal((mapped.own_map.width, 4)), tmp_path / "copy"
    path.write_bytes(packed(basis, mapped.own_map))
    found, file = unpacked(path.read_bytes())
    np.testing.assert_array_equal(found, basis)
    assert file == mapped.own_map.file
    assert is_packed(path)
    path.write_bytes(packed(basis, None))
    assert unpacked(path.read_bytes())[1] is None
    assert not is_packed(path)


def test_the_content_of_a_file_tells_maps_of_one_name_apart(tmp_path: Path) -> None:
    path = tmp_path / "own.onnx"
    path.write_bytes(of_constant(1.0))
    first = digest_of_map(str(path))
    path.write_bytes(of_constant(2.0))
    assert first != digest_of_map(str(path)) != ""
    assert digest_of_map("kernel-pca") == digest_of_map(None) == ""


def test_evidence_names_the_kind_of_a_map_and_not_where_its_file_is() -> None:
    told = desk_report({"options": {"own_map": "/srv/secret-project/own.onnx", "dither": None}}, "00" * 32)
    assert told["options"] == {"own_map": "onnx"}
