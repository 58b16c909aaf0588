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
    "model_groups": {"largest_distance": 0.25, "least_parties": 3},
}
_LINE: Final = (
    "Groups: the analyst counts how many rows of each class an institution has sent. Institutions whose"
    " shares of the classes differ by at most 0.25 in all (total variation) are a group, if there are at"
    " least 3 of them, and get a model that was trained on the rows of their group alone. All others, and a"
    " group with too few rows of a class, get one that was trained on the rows of all. Every institution"
    " reads which institutions are a group: their shares of the classes are alike."
)
_OWN: Final[bytes] = DOWNLINK["arrays"][1]["digest"]
_MODELS: Final = sorted([_OWN, b"\x00" * 32, b"\xff" * 32])
_GROUPED: Final[dict[str, Any]] = {**DOWNLINK, "models": _MODELS}


def group_text(text: str) -> str:
    """Return what people read of `GROUP_TERMS`, from the text of the same terms with one model for all."""
    return text.replace("one model for all institutions", "one model for each group of institutions").replace(
        "\nWho sees what", f"\n{_LINE}\nWho sees what"
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
