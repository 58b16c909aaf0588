"""Terms under which groups of institutions have models of their own, their words, and downlinks."""

from __future__ import annotations

from typing import Any, Final

from tests.vectors.examples import (
    DOWNLINK,
    LATE_TERMS,
    NUMBER_TERMS,
    PREDICTIONS_DOWNLINK,
    PRIVATE_TERMS,
    TERMS,
    TERMS_2,
    changed,
)

GROUP_TERMS: Final[dict[str, Any]] = {
    **TERMS_2,
    "model_groups": {"largest_distance": 0.25, "least_parties": 2},
}
_LINE: Final = (
    "Groups: the analyst puts institutions into groups in which the shares of the classes of any two differ"
    " by at most 0.25 in all (total variation). A group of at least 2 institutions gets a model that was"
    " trained on the rows of the group alone. All others, and a group with too few rows of a class, get one"
    " that was trained on the rows of all. Every institution reads which groups have a model of their own."
)
_WARNING: Final = (
    "Warning: models of groups: the model of a small group is made of the rows of few institutions. In a"
    " group of two, each can tell from the model more of the other's rows than from a model of all, and knows"
    " about which shares of the classes the other has."
)
_OWN: Final[bytes] = DOWNLINK["arrays"][1]["digest"]
_MODELS: Final = sorted([_OWN, b"\x00" * 32, b"\xff" * 32])
_GROUPED: Final[dict[str, Any]] = {**DOWNLINK, "models": _MODELS}


def group_text(text: str) -> str:
    """Return what people read of `GROUP_TERMS`, from the text of the same terms with one model for all."""
    return (
        text.replace("one model for all institutions", "one model for each group of institutions")
        .replace("\nWho sees what", f"\n{_LINE}\nWho sees what")
        .replace("\nWarning: figures of a table", f"\n{_WARNING}\nWarning: figures of a table")
    )


def valid() -> list[tuple[str, str, dict[str, Any]]]:
    """Return the messages that such a round has and others have not."""
    return [
        ("terms with models of groups", "Terms", GROUP_TERMS),
        ("a downlink with one of several models", "DownlinkManifest", _GROUPED),
        ("a downlink with the only model of all groups", "DownlinkManifest", {**DOWNLINK, "models": [_OWN]}),
    ]


def broken() -> list[tuple[str, str, dict[str, Any]]]:
    """Return messages that break a rule of such a round."""
    groups = GROUP_TERMS["model_groups"]
    return [
        ("groups of nil", "Terms", {**GROUP_TERMS, "model_groups": None}),
        ("groups of what is the same", "Terms",
            changed(GROUP_TERMS, "model_groups", "largest_distance", to=0.0)),
        ("one group of all", "Terms", changed(GROUP_TERMS, "model_groups", "largest_distance", to=1.0)),
        ("groups of more than there are", "Terms",
            changed(GROUP_TERMS, "model_groups", "least_parties", to=3)),
        ("groups of one", "Terms", changed(GROUP_TERMS, "model_groups", "least_parties", to=1)),
        ("terms of schema 1 with groups", "Terms", {**TERMS, "model_groups": groups}),
        ("groups for a number", "Terms", {**NUMBER_TERMS, "model_groups": groups}),
        ("groups of a private model", "Terms", {**PRIVATE_TERMS, "model_groups": groups}),
        ("groups with a late consumer", "Terms", {**LATE_TERMS, "model_groups": groups}),
        ("groups under anchor predictions", "Terms",
            {**GROUP_TERMS, "anchor": {"kind": "gaussian", "rows": 100}, "downlink": "anchor-predictions"}),
        ("groups without a model", "DownlinkManifest", {**DOWNLINK, "models": []}),
        ("models without that of the downlink", "DownlinkManifest", {**DOWNLINK, "models": [b"\x00" * 32]}),
        ("models out of order", "DownlinkManifest", {**DOWNLINK, "models": _MODELS[::-1]}),
        ("a model twice", "DownlinkManifest", {**DOWNLINK, "models": [_OWN, _OWN]}),
        ("models beside anchor predictions", "DownlinkManifest", {**PREDICTIONS_DOWNLINK, "models": [_OWN]}),
    ]  # fmt: skip
