"""Models and their scores in words."""

from __future__ import annotations

from collections.abc import Sequence

from user_client.sdk.hold_out import LocalFit
from user_client.sdk.lower_dimensions import Kept
from user_client.sdk.shared_rows import KINDS
from user_client.secret.signal import Signal


def signal_in_words(
    signal: Signal | None, least: float | None, *, has_curves: bool = False, may_choose: bool = False
) -> str:
    """Return how much of a table's own score lies along its leading axes, and whether that is enough.

    An institution that ``may_choose`` could send more numbers of each row.
    """
    if signal is None and has_curves:
        return (
            "along straight lines these rows say nothing about their label, but along curves, as said above"
        )
    if signal is None:
        return (
            "these rows cannot tell how many dimensions their label needs: they are too few, or of one class,"
            " or say too little about it"
        )
    measure = "ROC-AUC" if signal.measure == "roc_auc" else "concordance"
    several = "s" if signal.curves > 1 else ""
    curved = f", which curves along {signal.curves} direction{several}," if signal.curves else ""
    words = (
        f"a model of your own rows alone{curved} has a {measure} of {signal.auc:.1%}; as many leading axes of"
        f" the rows as latent dimensions keep {signal.kept:.2f} of its score (R squared), and by themselves"
        f" give {signal.projected_auc:.1%}"
    )
    if least is not None and signal.kept < least:
        words += f"\nthe terms ask for {least:g}: " + (
            "send more numbers of each row, with --latent-dim"
            if may_choose
            else "ask the lead for terms with a larger latent_dim"
        )
    return words


def fewer_in_words(found: Sequence[Kept]) -> list[str]:
    """Return the lines of a table: what so many latent dimensions keep of a table's own score."""
    if not found:
        return []
    measure = "ROC-AUC" if found[0].measure == "roc_auc" else "concordance"
    return [
        f"{'latent_dim':>12} {'kept (R squared)':>18} {measure + ' along them':>22}",
        *(f"{one.latent_dim:>12} {one.kept:>18.2f} {one.score:>22.1%}" for one in found),
    ]


def local_fit_in_words(fit: LocalFit) -> str:
    """Return how the model of our own rows alone was fitted, for people."""
    words = f"model of the kind {fit.kind}, fitted on {fit.rows:,} of our own rows"
    if fit.kind != fit.terms_kind:
        words += (
            f" (the terms have one of the kind {fit.terms_kind}, of sums; from our own rows a model is fitted"
            " that needs no sums)"
            if fit.terms_kind in KINDS
            else f" (the terms have one of the kind {fit.terms_kind}, which is not fitted here)"
        )
    return words


def trained_in_words(kind: str | None) -> str:
    """Return that a model of our own answers instead of the one that came, for people."""
    own = "a model of our own" if kind is None else f"our own model of the kind {kind}"
    return (
        f"{own} answers, trained here on the rows of all institutions (odc train), and not the model that all"
        " have: `odc train --remove` lets that one answer again"
    )
