"""What parties say of the ledger, as Hypothesis draws it."""

from __future__ import annotations

from hypothesis import strategies as st

from protocol.ledger import SeenLedger
from protocol.messages import SeenHead


def seen_ledgers(
    identifiers: st.SearchStrategy[str],
    party_names: st.SearchStrategy[str],
    counts: st.SearchStrategy[int],
    digests: st.SearchStrategy[bytes],
    times: st.SearchStrategy[int],
) -> st.SearchStrategy[SeenLedger]:
    """Return a strategy for valid messages, made of those for their parts."""
    seen = st.builds(SeenHead, length=counts, digest=digests)
    return st.builds(SeenLedger, collaboration_id=identifiers, party=party_names, seen=seen, at=times)
