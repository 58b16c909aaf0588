"""Hypothesis strategies for everything that is sent."""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import strategies as st

from protocol.alignment_terms import (
    LEAST_SQUARES_METHODS,
    AlignmentMethod,
    AlignmentTarget,
    AlignmentTerms,
    AutoAlignmentTerms,
)
from protocol.anchor_terms import ANCHORS, AnchorKind, AnchorTerms
from protocol.codec import Message
from protocol.envelope import Signed
from protocol.evidence import EvidenceFile, EvidenceIndex
from protocol.labels import Label
from protocol.ledger import LedgerEntry, LedgerHead, LedgerPage, SeenLedger
from protocol.messages import (
    DTYPE_BYTES,
    Acceptance,
    ArraySpec,
    DownlinkManifest,
    Enrolment,
    ErasedFile,
    ForgettingStatement,
    InvitationTicket,
    MemberScore,
    PrivacyRecord,
    Receipt,
    Renewal,
    SealedAnchor,
    UplinkManifest,
)
from protocol.model_terms import (
    AutoTerms,
    AveragedTerms,
    GradientBoostingTerms,
    KnnTerms,
    LogisticTerms,
    MlpTerms,
    ModelPrivacyTerms,
    RandomForestTerms,
)
from protocol.states import Event, State
from protocol.table_schema import (
    CategoricalColumn,
    Column,
    LevelsColumn,
    NumericColumn,
    OrdinalColumn,
    RangeColumn,
    RanksColumn,
    Schema,
)
from protocol.terms import ExposureTerms, Terms
from tests.harness.said import seen_ledgers

identifiers = st.text("0123456789abcdef", min_size=32, max_size=32)
party_names = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
_readable = st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cf", "Zl", "Zp"))
texts = st.text(_readable, max_size=20)
names = st.text(_readable, min_size=1, max_size=20)
digests = st.binary(min_size=32, max_size=32)
blobs = st.binary(min_size=1, max_size=80)
chains = st.lists(blobs, max_size=4).map(tuple)
times = st.integers(0, 253_402_300_799)
counts = st.integers(0, 2**53 - 1)
chunk_sizes = st.integers(1, 64).map(lambda units: units * 65536)
suites = st.sampled_from(get_args(Acceptance.model_fields["sealing_suite"].annotation))
numbers = st.floats(-1e100, 1e100)
ledger_entries = st.builds(
    LedgerEntry,
    index=counts,
    at=times,
    event=st.sampled_from(Event),
    party=st.none() | party_names,
    state=st.sampled_from(State),
    subject=st.none() | digests,
    previous=digests,
)


@st.composite
def numeric_columns(draw: st.DrawFn, name: str = "x") -> NumericColumn:
    low, high = sorted(draw(st.lists(numbers, min_size=2, max_size=2, unique=True)))
    impute = draw(st.none() | st.floats(low, high))
    how: Any = draw(st.sampled_from(["refuse", "clip"]))
    return NumericColumn(name=name, low=low, high=high, impute=impute, out_of_range=how)


@st.composite
def categorical_columns(draw: st.DrawFn, name: str = "x") -> CategoricalColumn:
    levels = draw(st.lists(names, min_size=2, max_size=4, unique=True))
    return CategoricalColumn(
        name=name, levels=tuple(levels), impute=draw(st.none() | st.sampled_from(levels))
    )


@st.composite
def centred_columns(draw: st.DrawFn, name: str = "x") -> Column:
    empty, shares = draw(st.sampled_from(["refuse", "centre", "impute"])), st.floats(0, 1)
    missing_share = None if empty == "refuse" else draw(st.none() | shares)
    common: dict[str, Any] = {"name": name, "empty": empty, "missing_share": missing_share}
    kind = draw(st.sampled_from(["ranks", "range", "levels", "ordinal"]))
    levels = draw(st.lists(names, min_size=2, max_size=4, unique=True))
    low, high = sorted(draw(st.lists(numbers, min_size=2, max_size=2, unique=True)))
    between = st.floats(low, high)
    if empty == "impute":
        common |= {"impute": draw(st.sampled_from(levels) if kind in ("levels", "ordinal") else between)}
    if kind == "ordinal":
        return OrdinalColumn(levels=tuple(levels), centre=draw(st.floats(-1, 1)), **common)
    if kind == "levels":
        return LevelsColumn(
            levels=tuple(levels),
            shares=tuple(draw(shares) for _ in levels),
            weight=draw(st.floats(0, 1, exclude_min=True)),
            other=draw(st.none() | st.sampled_from(levels)),
            **common,
        )
    ways: list[Any] = [{}, {"dates": "iso"}, {"dates": "dd.mm.yyyy", "since": f"{name} began"}]
    if kind == "range" and 0 < low <= high / 2:
        ways.append({"scale": "logarithm"})
    common |= draw(st.sampled_from(ways))
    if kind == "range":
        return RangeColumn(low=low, high=high, centre=draw(between), **common)
    inner = sorted(draw(st.lists(between, max_size=5)))
    return RanksColumn(quantiles=(low, *inner, high), **common)


@st.composite
def schemas(draw: st.DrawFn, terms_schema: int = 2) -> Schema:
    label, *column_names = draw(st.lists(names, min_size=2, max_size=5, unique=True))
    columns: list[Column] = []
    for name in column_names:
        kinds: list[st.SearchStrategy[Column]] = [numeric_columns(name), categorical_columns(name)]
        columns.append(draw(st.one_of(kinds if terms_schema == 1 else [*kinds, centred_columns(name)])))
    classes = draw(st.lists(names, min_size=2, max_size=4, unique=True))
    return Schema(
        columns=tuple(columns),
        label_column=Label(name=label, classes=tuple(classes)),
        missing=tuple(draw(st.lists(texts, max_size=3))),
    )


models = st.builds(
    MlpTerms,
    hidden_units=st.integers(1, 2**16),
    learning_rate=st.floats(0, 1, exclude_min=True),
    epochs=st.integers(1, 100_000),
    seed=st.integers(0, 2**32 - 1),
) | st.builds(
    LogisticTerms,
    inverse_penalty=st.floats(0, 1e12, exclude_min=True),
    epochs=st.integers(1, 100_000),
)


private_models = st.builds(
    MlpTerms, hidden_units=st.integers(1, 2**16), seed=st.integers(0, 2**32 - 1)
) | st.just(LogisticTerms())
model_privacy = st.builds(
    ModelPrivacyTerms,
    epsilon=st.floats(0.1, 100),
    delta=st.floats(1e-9, 0.01),
    steps=st.integers(1, 10_000),
    batch_rows=st.integers(1, 2**31 - 1),
    learning_rate=st.floats(0, 1000, exclude_min=True),
)


trees_and_rows = st.one_of(
    st.builds(RandomForestTerms, trees=st.integers(1, 10_000), rows_per_leaf=st.integers(2, 2**31 - 1)),
    st.builds(GradientBoostingTerms, leaves=st.integers(2, 2**16), learning_rate=st.floats(1e-9, 1)),
    st.builds(KnnTerms, neighbours=st.integers(1, 10_000)),
)
chosen = st.lists(trees_and_rows, min_size=2, max_size=8, unique=True).flatmap(
    lambda candidates: st.builds(
        AutoTerms,
        candidates=st.just(tuple(candidates)),
        budget_s=st.integers(1, 86_400),
        seed=st.integers(0, 2**32 - 1),
    )
)
exposure = st.builds(
    ExposureTerms,
    max_exact_rows=st.none() | st.floats(0, 1),
    max_found_columns=st.none() | st.integers(0, 2**16),
    min_hidden_bits=st.none() | st.floats(0, 1e9),
)


averaged = st.builds(
    AveragedTerms,
    inverse_penalty=st.floats(0, 1e12, exclude_min=True),
    hidden_units=st.integers(1, 2**16),
    learning_rate=st.floats(0, 1, exclude_min=True),
    epochs=st.integers(1, 100_000),
    weight_penalty=st.floats(0, 1e6),
    seed=st.integers(0, 2**32 - 1),
)


@st.composite
def alignments(draw: st.DrawFn) -> AlignmentTerms:
    method = draw(st.sampled_from(get_args(AlignmentMethod)))
    keeps_lengths = method not in LEAST_SQUARES_METHODS
    targets = ["identity", "haar"] if keeps_lengths else ["identity", "haar", "invertible"]
    return AlignmentTerms(
        method=method, target=draw(st.sampled_from(targets)), seed=draw(st.integers(0, 2**63 - 1))
    )


@st.composite
def chosen_alignments(draw: st.DrawFn) -> AutoAlignmentTerms:
    target = draw(st.sampled_from(get_args(AlignmentTarget)))
    fitting = sorted(LEAST_SQUARES_METHODS) if target == "invertible" else get_args(AlignmentMethod)
    return AutoAlignmentTerms(
        candidates=tuple(draw(st.lists(st.sampled_from(fitting), min_size=2, max_size=7, unique=True))),
        target=target,
        budget_s=draw(st.integers(1, 86_400)),
        seed=draw(st.integers(0, 2**63 - 1)),
    )


@st.composite
def anchors(draw: st.DrawFn, width: int) -> AnchorTerms:
    kind = draw(st.sampled_from(get_args(AnchorKind)))
    rows = width if ANCHORS[kind].is_square else draw(st.integers(width, 10_000))
    return AnchorTerms(kind=kind, rows=rows)


@st.composite
def terms(draw: st.DrawFn) -> Terms:
    version: Any = draw(st.sampled_from([1, 2]))
    schema = draw(schemas(version))
    parties = draw(st.lists(party_names, min_size=1, max_size=4, unique=True))
    anchor = draw(anchors(schema.width))
    may_be_predicted = anchor.rows >= 2 * schema.width and not anchor.traits.unfit_to_learn_from
    predicted = may_be_predicted and draw(st.booleans())
    added: dict[str, Any] = {
        "least_signal": draw(st.none() | st.floats(0, 1, exclude_min=True, exclude_max=True)),
        "hold_out": draw(st.floats(0, 0.5)),
        "returns_scores": draw(st.booleans()),
        "model_privacy": draw(st.none() | model_privacy) if version == 2 else None,
        "exposure": draw(st.none() | exposure),
    }
    model = (
        models
        if version == 1
        else private_models
        if added["model_privacy"]
        else models | averaged | trees_and_rows | chosen
    )
    return Terms(
        terms_schema=version,
        consortium_id=draw(identifiers),
        collaboration_id=draw(identifiers),
        title=draw(names),
        purpose=draw(texts),
        parties=tuple(parties),
        lead=draw(st.sampled_from(parties)),
        table_schema=schema,
        latent_dim=draw(st.integers(1, schema.width)),
        rep_dtype=draw(st.sampled_from(["f2", "f4", "f8", "i1"])),
        anchor=anchor,
        downlink="anchor-predictions" if predicted else "change-of-basis-and-model",
        alignment=draw(
            alignments() if version == 1 or added["model_privacy"] else alignments() | chosen_alignments()
        ),
        model=draw(model),
        **(added if version == 2 else {}),
    )


def array_specs(
    name: str, shape: st.SearchStrategy[tuple[int, ...]], dtypes: tuple[Any, ...]
) -> st.SearchStrategy[ArraySpec]:
    return st.builds(
        ArraySpec, name=st.just(name), dtype=st.sampled_from(dtypes), shape=shape, digest=digests
    )


@st.composite
def privacy_records(draw: st.DrawFn) -> PrivacyRecord:
    below_one, positive = (
        st.floats(0, 1, exclude_min=True, exclude_max=True),
        st.floats(0, exclude_min=True, allow_infinity=False),
    )
    noise = draw(st.none() | st.tuples(positive, below_one, positive)) or (None, None, None)
    return PrivacyRecord(
        epsilon=noise[0],
        delta=noise[1],
        clip=noise[2],
        drop_below=draw(st.none() | below_one),
        permute_rows=draw(st.booleans()),
        perturb_basis=draw(st.none() | below_one),
        dither=draw(st.none() | st.floats(0, 100, exclude_min=True)),
    )


@st.composite
def uplink_manifests(draw: st.DrawFn) -> UplinkManifest:
    rows, columns = draw(st.integers(0, 10**6)), st.integers(0, 1000)
    every = tuple(DTYPE_BYTES)
    rep = draw(array_specs("rep", st.tuples(st.just(rows), columns), every))
    anchor_rep = draw(array_specs("anchor_rep", st.tuples(columns, columns), every))
    scales = tuple(
        draw(array_specs(f"{spec.name}_scale", st.just(spec.shape[1:]), ("f4",)))
        for spec in (rep, anchor_rep)
        if rep.dtype == "i1"
    )
    return UplinkManifest(
        collaboration_id=draw(identifiers),
        terms_digest=draw(digests),
        party=draw(party_names),
        anchor_commitment=draw(digests),
        chunk_bytes=draw(chunk_sizes),
        arrays=(
            rep,
            anchor_rep,
            draw(array_specs("labels", st.tuples(st.just(rows)), every)),
            *scales,
        ),
        privacy=draw(privacy_records()),
    )


@st.composite
def downlink_manifests(draw: st.DrawFn) -> DownlinkManifest:
    size = st.integers(0, 2**14)
    basis_and_model = st.tuples(
        array_specs("change_of_basis", st.tuples(size, size), ("f2", "f4", "f8")),
        array_specs("model", st.tuples(st.integers(0, 2**31 - 1)), ("u1",)),
    )
    predictions = st.tuples(array_specs("anchor_predictions", st.tuples(size, size), ("f4",)))
    return DownlinkManifest(
        collaboration_id=draw(identifiers),
        terms_digest=draw(digests),
        party=draw(party_names),
        uplink_digest=draw(digests),
        chunk_bytes=draw(chunk_sizes),
        arrays=draw(st.one_of(basis_and_model, predictions)),
        model_parameters=draw(counts),
    )


@st.composite
def member_scores(draw: st.DrawFn) -> MemberScore:
    low, high = sorted(draw(st.lists(st.floats(-1, 1), min_size=2, max_size=2)))
    has_own = draw(st.booleans())
    return MemberScore(
        collaboration_id=draw(identifiers),
        terms_digest=draw(digests),
        party=draw(party_names),
        rows=draw(st.integers(1, 2**31 - 1)),
        metric=draw(st.sampled_from(["roc_auc", "accuracy"])),
        together=draw(st.floats(0, 1)),
        alone=draw(st.floats(0, 1)) if has_own else None,
        gain_low=low if has_own else None,
        gain_high=high if has_own else None,
    )


@st.composite
def evidence_indexes(draw: st.DrawFn) -> EvidenceIndex:
    found = sorted(draw(st.sets(names, min_size=1, max_size=5)))
    there = draw(st.integers(1, len(found)))
    return EvidenceIndex(
        consortium_id=draw(identifiers),
        collaboration_id=draw(identifiers),
        terms_digest=draw(digests),
        party=draw(party_names),
        made_at=draw(times),
        files=tuple(
            EvidenceFile(name=name, size_bytes=draw(counts), digest=draw(digests)) for name in found[:there]
        ),
        absent=tuple(found[there:]),
    )


messages: dict[type[Message], st.SearchStrategy[Message]] = {
    Terms: terms(),
    UplinkManifest: uplink_manifests(),
    DownlinkManifest: downlink_manifests(),
    InvitationTicket: st.builds(
        InvitationTicket,
        consortium_id=identifiers,
        invitation_id=identifiers,
        role=st.sampled_from(["lead", "institution", "analyst"]),
        party=party_names,
        expires_at=times,
    ),
    Enrolment: st.builds(Enrolment, ticket=blobs, csr=blobs, chain=chains, mac=digests),
    Renewal: st.builds(Renewal, consortium_id=identifiers, renewal_id=identifiers, csr=blobs, chain=chains),
    Acceptance: st.builds(
        Acceptance,
        collaboration_id=identifiers,
        terms_digest=digests,
        shown_digest=digests,
        party=party_names,
        sealing_suite=suites,
        sealing_key=blobs,
        accept_row_revealing_model=st.booleans(),
    ),
    SealedAnchor: st.builds(
        SealedAnchor,
        form=st.sampled_from(["seed", "matrix"]),
        collaboration_id=identifiers,
        terms_digest=digests,
        recipient=party_names,
        commitment=digests,
        sealing_suite=suites,
        ciphertext=blobs,
    ),
    Receipt: st.builds(
        Receipt,
        collaboration_id=identifiers,
        party=party_names,
        uplink_digest=digests,
        payload_bytes=counts,
        received_at=times,
        ledger_index=counts,
        ledger_digest=digests,
    ),
    LedgerEntry: ledger_entries,
    LedgerHead: st.builds(LedgerHead, collaboration_id=identifiers, length=counts, digest=digests, at=times),
    SeenLedger: seen_ledgers(identifiers, party_names, counts, digests, times),
    LedgerPage: st.builds(LedgerPage, entries=st.lists(ledger_entries, max_size=5).map(tuple), head=blobs),
    ForgettingStatement: st.builds(
        ForgettingStatement,
        collaboration_id=identifiers,
        terms_digest=digests,
        party=party_names,
        uplink_digest=st.none() | digests,
        erased=st.lists(
            st.builds(ErasedFile, name=names, size_bytes=counts, erased_at=times), min_size=1, max_size=3
        ).map(tuple),
    ),
    EvidenceIndex: evidence_indexes(),
    MemberScore: member_scores(),
    Signed: st.builds(
        Signed, kind=texts, payload=st.binary(max_size=200), certificate=blobs, signature=blobs
    ),
}
"""One strategy for each kind of message that is sent by itself."""
any_message = st.one_of(list(messages.values()))  # a valid one of any kind
