"""Parties whose anchor representation breaks an assumption: what both sides say of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12


@with_config(ConfigDict(use_attribute_docstrings=True))
class Suspected(TypedDict):
    """Which assumption a party breaks, and what was measured."""

    assumption: str
    """One of the keys of `LIKELY_CAUSE`."""
    evidence: str
    """A clause about its anchor representation, for people."""


LIKELY_CAUSE: Final[Mapping[str, str]] = {
    "full-rank": 'its basis does not have orthonormal columns (docs/protocol.md, "The secret basis"),'
    " or what it sent is damaged",
    "orthonormal": 'its basis does not have orthonormal columns (docs/protocol.md, "The secret basis"),'
    " or what it sent is damaged",
    "same-scale": 'its basis does not have orthonormal columns (docs/protocol.md, "The secret basis"),'
    " its anchor is scaled, or what it sent is damaged",
    "same-anchor-or-related-span": 'its basis is not of the law in docs/protocol.md, "The secret basis":'
    " any orthonormal matrix will not do; or its anchor is another, or has its rows in another order;"
    " or its records are unlike everybody else's",
}
"""The causes of each broken assumption, the likeliest first."""
