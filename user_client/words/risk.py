"""In words: what others could learn of our rows, as far as it was measured here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from protocol.texts import visible
from runtime.terminal import minute
from user_client.privacy import lattices
from user_client.privacy.components import can_search
from user_client.privacy.information import Information
from user_client.privacy.isolation import Isolated
from user_client.sdk.desk import Attack
from user_client.sdk.prepared import Prepared
from user_client.sdk.session import named

OURS_ALONE: Final = (
    "every institution gets the total (cohort): of what no other institution has, be it a level, a class, the"
    " 1 of a column of 0 and 1 or an empty field, it is our own sums of these rows, as they are: every member"
    " would read how many they are, and the mean of every column over them; ask the others what they have"
)
"""What an institution cannot know from its own table."""
NOTHING_FOUND: Final = "no warning: what was tried on our own rows found nothing in them; others may try more"
IF_TOO_MUCH: Final = (
    "if that is too much, send nothing, and ask the lead for terms of sums, with more dither, or with a"
    " smaller latent_dim; `odc policy` sets how much attacks may find at most"
)
WORTH_A_WARNING: Final = 0.01
"""Least share of rows, beyond what guessing gives, that an attack rebuilds or finds again."""


def dangers(prepared: Prepared) -> list[str]:
    """Return what a person has to know before this leaves: what others could learn of it, and what stays so.

    The figures behind it are in `attacks_in_words`.
    """
    found = [*_of_sums(prepared), *_of_rows(prepared)]
    if prepared.isolated:
        found.append(isolated_in_words(prepared.isolated))
    found += _sent_before(prepared)
    if prepared.table_rows == 0:
        found.append(
            "there are no rows: this institution would receive the model without contributing to it, and is a"
            " consumer in this round for good"
        )
    return found


def _of_sums(prepared: Prepared) -> list[str]:
    return [OURS_ALONE] if prepared.uplink == "sums" and prepared.rows and prepared.members_get_total else []


def _of_rows(prepared: Prepared) -> list[str]:
    """Return what the analyst could find in rows that leave: alone first, then with others."""
    if prepared.uplink == "sums" or not prepared.rows:
        return []
    found = [words for attack in prepared.attacks if attack.ran for words in _finding(attack)]
    if prepared.information and prepared.information.is_enough:
        found.append(information_in_words(prepared.information))
    if not any(attack.ran for attack in prepared.attacks):
        found.append("no attack was tried on our own rows: what could be found in them is not known")
    return found


def _finding(attack: Attack) -> Iterator[str]:
    """Yield what an attack found, if a person should know it."""
    if attack.columns:
        known = f", and knows that it is {_columns(attack.named)}" if attack.named else ""
        yield (
            f"{attack.attacker}, without our secret basis, could tell in nearly all rows one value of"
            f" {_columns(attack.columns)} from the others{known}"
        )
    guessed = attack.guessed_rows or 0
    if attack.exact_rows is not None and attack.exact_rows - guessed >= WORTH_A_WARNING:
        yield (
            f"{attack.attacker} could rebuild {attack.exact_rows:.1%} of our rows in every column (by"
            f" guessing {guessed:.1%})"
        )
    if attack.relations:
        yield (
            f"{attack.attacker} could find relations between our rows ({attack.relations}), which lead to"
            " columns of few values"
        )
    if attack.linked_rows is not None and attack.linked_rows >= WORTH_A_WARNING:
        yield f"{attack.attacker} could recognise {attack.linked_rows:.1%} of the rows it looks for"


def _columns(names: Sequence[str]) -> str:
    quoted = ", ".join(f"'{name}'" for name in names)
    return f"column{'s' if len(names) > 1 else ''} {quoted}"


def _sent_before(prepared: Prepared) -> list[str]:
    """Name the earlier rounds that have the same rows: two uplinks of a row are easier to attack than one."""
    return [
        f"{rows} of these rows were sent before, {minute(sent.received_at)}, in"
        f" {visible(named(sent.title, sent.collaboration_id))}: two uplinks tell more than one, and epsilons"
        " add up"
        for rows, sent in ((overlap.rows, overlap.release) for overlap in prepared.overlaps)
    ]


def information_in_words(found: Information) -> str:
    """Return how much of a row can leave, for people."""
    if found.is_enough:
        return (
            "the analyst with any member, who know the secret basis together, can in principle rebuild every"
            f" value: a row holds {found.row_bits:.0f} bits, and what leaves of it can carry"
            f" {found.sent_bits:.0f}"
        )
    return f"what leaves of a row carries at most {found.sent_bits:.0f} of its {found.row_bits:.0f} bits"


def isolated_in_words(found: Isolated) -> str:
    """Return what the leading axis tells of a column, for people: a warning."""
    return (
        f"under these terms the column {found.column} has {found.share:.0%} of the variance, and"
        f" along their first axis the rows are that column (correlation {found.correlation:.4f}): the analyst"
        " can read it off without the secret basis, whatever share of a row is projected away; ask the lead"
        " for ranges that fit"
    )


def attacks_in_words(attacks: Sequence[Attack]) -> list[str]:
    """Return what the attacks on our own rows found, one line each."""
    lines = []
    if missing := [attack.name for attack in attacks if not attack.ran]:
        absent = "" if lattices.available() and can_search() else "the extra [desk] is not installed, or "
        lines.append(
            f"not tried on our own rows: {', '.join(missing)}: {absent}the table is too small or too wide for"
            " it, or it needs a linear map"
        )
    for attack in attacks:
        if not attack.ran:
            continue
        found = []
        if attack.exact_rows is not None:
            found.append(
                f"{attack.exact_rows:.1%} of the rows rebuilt in every column, {attack.right_values or 0:.0%}"
                f" of all values (by guessing: {attack.guessed_rows or 0:.1%} and"
                f" {attack.guessed_values or 0:.0%})"
            )
        if attack.relations is not None:
            found.append(f"{attack.relations} integer relations between rows")
        if attack.finds == "columns":
            found.append(f"columns told for nearly all rows: {', '.join(attack.columns) or 'none'}")
            if attack.columns:
                found.append(f"named rightly: {', '.join(attack.named) or 'none'}")
        if attack.linked_rows is not None:
            found.append(f"{attack.linked_rows:.1%} of the rows it looked for were found")
        if not attack.is_complete:
            found.append(f"stopped after {attack.seconds:.1f} s, more time may find more")
        lines.append(f"{attack.attacker} could try {attack.name}: {'; '.join(found)}")
    return lines
