"""The kept inputs are tried again on every target, and some new ones made from them."""

from __future__ import annotations

import logging
from itertools import islice

import pytest

from protocol.codec import Message, decode
from protocol.errors import ProtocolError
from protocol.operations import OPERATIONS, find
from tests.fuzz.decoders import KINDS, message_seeds
from tests.fuzz.kept import CORPUS, FOUND, LARGEST_KEPT, MOST_KEPT, inputs_in
from tests.fuzz.mutation import mutations
from tests.fuzz.served import parsed, request_seeds
from tests.fuzz.target import ready, split_name
from tests.fuzz.targets import TARGETS

# a spoilt serial number can come out negative, which the parser still reads, with a warning
pytestmark = pytest.mark.filterwarnings("ignore:Parsed a serial number")

NEW_INPUTS = 100
"""Of each target in each run of the tests; `make fuzz` tries a million."""


@pytest.mark.parametrize("name", TARGETS)
def test_hostile_input_is_a_value_or_one_of_our_errors(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    target = TARGETS[name]
    with ready(target) as run:
        inputs = [*target.seeds(), *inputs_in(CORPUS / name)]
        for data in inputs:
            run(data)
        for data in islice(mutations(inputs, seed=1), NEW_INPUTS):
            run(data)


def test_every_kind_of_message_is_decoded_by_a_target() -> None:
    assert set(KINDS.values()) == {
        kind for kind in Message.__subclasses__() if hasattr(kind, "signing_label")
    }
    begun_with = set()
    for seed in message_seeds():
        name, packed = split_name(seed)
        try:
            decode(KINDS[name], packed)
        except ProtocolError:
            continue
        begun_with.add(name)
    assert begun_with == set(KINDS)


def test_every_operation_is_asked_by_a_target() -> None:
    asked = [request for seed in request_seeds() if (request := parsed(seed, "1" * 32)) is not None]
    found = [find(scope["method"], scope["path"]) for _, scope, _ in asked]
    assert {each[0] for each in found if each is not None} == set(OPERATIONS)


def test_the_corpus_is_small_and_belongs_to_the_targets() -> None:
    assert {path.name for path in CORPUS.iterdir()} <= set(TARGETS)
    for folder in CORPUS.iterdir():
        kept = [path for path in folder.iterdir() if not path.name.startswith(FOUND)]
        assert len(kept) <= MOST_KEPT
        assert all(path.stat().st_size <= LARGEST_KEPT for path in folder.iterdir())


def test_the_mutator_can_be_repeated() -> None:
    seeds = [b"one", b"two"]
    assert list(islice(mutations(seeds, 5), 50)) == list(islice(mutations(seeds, 5), 50))
    assert list(islice(mutations(seeds, 5), 50)) != list(islice(mutations(seeds, 6), 50))
