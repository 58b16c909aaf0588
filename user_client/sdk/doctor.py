"""The usual troubles of an institution's machine, each with what to do about it."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final

from protocol.errors import OdcError
from protocol.operations import DISCOVER
from protocol.terms import Terms
from runtime.terminal import day
from user_client.custody.round_directory import TERMS_FILE, RoundDirectory
from user_client.sdk.session import Session
from user_client.tables import Source, read_parts

ENOUGH_BYTES: Final = 2**30
"""Free disk below which a large table may not fit; docs/cli.md says what is needed."""
MOST_CLOCK_S: Final = 120
"""Difference between two clocks that harms nothing."""
ENDS_SOON_S: Final = 14 * 86400


@dataclass(frozen=True)
class Finding:
    """What one look has found.

    Attributes
    ----------
    what : str
        What was looked at.
    detail : str
    fix : str
        What to do; empty if all is well.
    """

    what: str
    detail: str
    fix: str = ""

    @property
    def outcome(self) -> str:
        """``ok`` or ``trouble``."""
        return "trouble" if self.fix else "ok"

    def to_json(self) -> dict[str, str]:
        return {**asdict(self), "outcome": self.outcome}


def examine(session: Session, table: str | Path | Source | None = None) -> list[Finding]:
    """Look at everything that usually goes wrong, and go on after what does."""
    looks: list[tuple[str, Callable[[], Iterator[Finding]]]] = [
        ("membership", lambda: _membership(session)),
        ("permissions", lambda: _permissions(session.home.path)),
        ("disk", lambda: _disk(session.home.path)),
        ("certificate", lambda: _certificate(session)),
        ("analyst", lambda: _analyst(session)),
    ]
    if table is not None:
        looks.append(("table", lambda: _columns(session, table)))
    found: list[Finding] = []
    for what, look in looks:
        try:
            found += look()
        except OdcError as error:
            found.append(Finding(what, error.detail, error.hint))
    return found


def _membership(session: Session) -> Iterator[Finding]:
    found = session.membership
    yield Finding("membership", f"{found.party} in {found.consortium}")


def _permissions(path: Path) -> Iterator[Finding]:
    if not path.exists():
        return
    if not os.access(path, os.W_OK | os.X_OK):
        yield Finding(
            "permissions", f"{path} cannot be written", f"chown it to this user, and chmod 700 {path}"
        )
    elif stat.S_IMODE(path.stat().st_mode) & 0o022:
        yield Finding("permissions", f"others can write in {path}", f"chmod 700 {path}")
    else:
        yield Finding("permissions", f"{path} is writable for us alone")


def _disk(path: Path) -> Iterator[Finding]:
    if not path.exists():
        return
    free = shutil.disk_usage(path).free
    fix = "" if free >= ENOUGH_BYTES else "free some space, or move the state directory (--home)"
    yield Finding("disk", f"{free / 2**30:,.1f} GiB are free in {path}", fix)


def _certificate(session: Session) -> Iterator[Finding]:
    if not session.is_joined():
        return
    left_s, begins = session.certificate_ends_in_s(), session.home.certificate().not_valid_before_utc
    ends = day(session.clock() + left_s)
    if begins.timestamp() > session.clock():
        fix = "correct the clock of this machine"
        yield Finding(
            "clock", f"our certificate begins on {begins.date()}, after the time of this clock", fix
        )
    elif left_s < ENDS_SOON_S:
        yield Finding("certificate", f"our certificate ends on {ends}", "odc renew --wait 600")
    else:
        yield Finding("certificate", f"our certificate is valid until {ends}")


def _analyst(session: Session) -> Iterator[Finding]:
    """Reach the analyst: name, proxy, port, TLS and version, each of which is an error of its own."""
    if not session.is_joined():
        return
    url = session.membership.analyst_url
    session.connection.discover()
    yield Finding("analyst", f"{url} answers, believes our certificate, and speaks our version")
    told = session.connection.ask(DISCOVER).headers.get("date", "")
    with suppress(ValueError):  # it says none, or what is none
        apart_s = session.clock() - parsedate_to_datetime(told).timestamp()
        is_fine = abs(apart_s) <= MOST_CLOCK_S
        fix = "" if is_fine else "correct the clock of this machine, or ask the analyst's operator to"
        yield Finding("clock", f"our clock is {apart_s:+.0f} s from the analyst's", fix)


def _columns(session: Session, table: str | Path | Source) -> Iterator[Finding]:
    """Compare the names of the table's columns with those of all terms that are stored here."""
    names = next(read_parts(table)).column_names
    for collaboration_id in session.home.collaborations_with(TERMS_FILE):
        terms = RoundDirectory(session.home, collaboration_id).load(Terms)
        wanted = _columns_of(terms, session.membership.party)
        missing = [name for name in wanted if name not in names]
        for name in missing:
            yield Finding("table", f"{terms.title}: column '{name}' is not in the table", _like(name, names))
        if not missing:
            yield Finding("table", f"{terms.title}: all {len(wanted)} columns are in the table")


def _columns_of(terms: Terms, party: str) -> list[str]:
    """Return the columns that a party's table needs: of joined rows their key, and labels of one party."""
    group = terms.group_of(party)
    wanted = [column.name for column in terms.schema_of(party).columns]
    wanted += [group.row_key] if group else []
    return wanted + (list(terms.table_schema.label_column.columns) if terms.has_labels(party) else [])


def _like(name: str, names: list[str]) -> str:
    """Return the name that may be meant."""
    plain: dict[str, Any] = {each.strip().lower(): each for each in names}
    near = get_close_matches(name.strip().lower(), plain, 1)
    return f"rename '{plain[near[0]]}' to '{name}', if it is that" if near else "add the column to the table"
