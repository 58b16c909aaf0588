"""docs/protocol.md says what the code does: its bytes, its tables, its picture."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from analyst_server.api import problems
from protocol import limits, version
from protocol.anchor_terms import ANCHORS
from protocol.codec import Message
from protocol.messages import DTYPE_BYTES
from protocol.operations import OPERATIONS, Caller
from protocol.problems import all_errors
from protocol.states import TRANSITIONS, State
from tests.harness.document import blocks, kinds, section, text
from tests.vectors import generate, keys


def picture() -> str:
    """The table of states as a mermaid diagram."""
    lines = ["stateDiagram-v2", "    [*] --> draft"]
    lines += [f"    {before} --> {after}: {event}" for (before, event), after in TRANSITIONS.items()]
    leaving = {before for before, _ in TRANSITIONS}
    lines += [f"    {state} --> [*]" for state in State if state not in leaving]
    return "\n".join(lines) + "\n"


def test_the_picture_of_the_states_is_drawn_from_the_table() -> None:
    assert blocks("mermaid") == [picture()]


def test_every_example_in_bytes_stands_in_the_vectors() -> None:
    examples = [re.sub(r"\s", "", block) for block in blocks("hex")]
    assert len(examples) > 20
    stored = [
        *(case.get("hex", "") for case in generate.deterministic()["messages.json"]),
        json.dumps({name: generate.deterministic()[name] for name in ("uplinks.json", "streams.json")}),
        json.dumps(keys.keys()),
        json.dumps([*keys.anchors()]),
    ]
    for example in examples:
        assert any(example in each for each in stored), example[:40]


def test_no_example_in_bytes_stands_for_two_things() -> None:
    examples = [re.sub(r"\s", "", block) for block in blocks("hex")]
    assert len(set(examples)) == len(examples)
    (predictions,) = re.findall(r"With anchor predictions:\n\n```hex\n(.*?)```", text(), re.DOTALL)
    assert b"anchor_predictions" in bytes.fromhex(predictions)


def test_every_line_in_plain_words_stands_in_the_vectors() -> None:
    shown, *others = blocks("text")
    texts = [case["text"] for case in generate.deterministic()["plain_words.json"]]
    assert shown == texts[0]
    lines = {line for text in texts for line in text.splitlines()}
    assert {line for block in others for line in block.splitlines()} <= lines
    warnings = {line for line in lines if line.startswith("Warning: ")}
    assert warnings <= {line for block in blocks("text") for line in block.splitlines()}
    assert {f"Warning: {traits.warning}" for traits in ANCHORS.values() if traits.warning} <= warnings


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_every_message_has_a_section_that_names_its_fields(kind: type[Message]) -> None:
    rows = [line for line in section(kind.__name__).splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert set(kind.model_fields) <= named, set(kind.model_fields) - named


@pytest.mark.parametrize(
    "kind",
    [kind for kind in kinds() if hasattr(kind, "signing_label")],
    ids=lambda kind: kind.__name__,
)
def test_every_label_is_in_the_document(kind: type[Message]) -> None:
    assert f"`{kind.signing_label}`" in text()


def test_the_table_of_errors_is_the_classes_with_their_statuses() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| `(\w+)` \| (.*?) \| (\d+) \| (.*) \|$", text(), re.MULTILINE)
    expected = [
        (cls.code, cls.__name__, cls.title, str(problems.STATUS[cls]), cls.hint)
        for cls in all_errors()
        if cls.__module__.startswith("protocol.")
    ]
    assert sorted(rows) == sorted(expected)


def test_the_table_of_limits_is_the_module() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \| (\d+) \| (.+) \|$", text(), re.MULTILINE)
    source = Path(limits.__file__).read_text()
    reasons = re.findall(r'^([A-Z_]+): Final = [^\n]*\n"""(.+?)"""$', source, re.MULTILINE | re.DOTALL)
    expected = [(name, str(getattr(limits, name)), reason.replace("\n", " ")) for name, reason in reasons]
    assert rows == expected
    assert {name for name, _ in reasons} == {name for name in vars(limits) if name.isupper()}


def test_every_number_type_is_in_the_document() -> None:
    row = next(line for line in section("ArraySpec").splitlines() if line.startswith("| `dtype`"))
    assert re.findall(r"`([fui]\d)`", row) == list(DTYPE_BYTES)


def test_every_kind_of_anchor_is_in_the_document() -> None:
    row = next(line for line in section("AnchorTerms").splitlines() if line.startswith("| `kind`"))
    assert re.findall(r"`(\w+)`", row) == ["kind", *ANCHORS]


def test_the_media_types_are_in_the_document() -> None:
    for name in (version.MEDIA_TYPE, version.STREAM_MEDIA_TYPE, version.UPLOAD_MEDIA_TYPE):
        assert name in text()


WHO = {
    Caller.ANYBODY: "anybody",
    Caller.CERTIFIED: "any certificate",
    Caller.INSTITUTION: "institution, lead",
    Caller.LEAD: "lead",
    Caller.MEMBER: "member",
    Caller.OWNER: "owner",
    Caller.LISTER: "any certificate, or token",
    Caller.READER: "member, or token",
    Caller.OPERATOR: "operator's token",
}


def test_the_requests_in_the_document_are_the_table_of_operations() -> None:
    """Each with who may call it: the table decides, and the document is what people read."""
    rows = re.findall(r"^\| `([A-Z]+) (/[^\s`]*)`[^|]* \| ([^|]*) \| .* \|$", text(), re.MULTILINE)
    assert sorted(rows) == sorted((one.method, one.path, WHO[one.caller]) for one in OPERATIONS)


def test_the_examples_in_json_parse() -> None:
    for block in blocks("json"):
        assert isinstance(json.loads(block), dict)


def test_links_into_the_document_lead_somewhere() -> None:
    headings = re.findall(r"^#+ (.+)$", text(), re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}
    for target in re.findall(r"\]\(#([^)]+)\)", text()):
        assert target in anchors


def test_every_file_of_vectors_has_a_row_of_its_own() -> None:
    folder = Path(generate.__file__).parent
    rows = re.findall(r"^\| `(\w+\.json)` \|", (folder / "README.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(path.name for path in folder.glob("*.json"))


def test_every_field_of_the_vectors_is_explained() -> None:
    folder = Path(generate.__file__).parent
    explained = (folder / "README.md").read_text()
    for name in ("bases", "checks", "http", "numbers", "received", "sums", "trust"):
        content = json.loads((folder / f"{name}.json").read_text())
        keys = set(content if isinstance(content, dict) else content[0]) - {"name", "verdict"}
        assert keys <= set(re.findall(r"`(\w+)`", explained)), name
