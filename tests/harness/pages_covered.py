"""Which test of tests/browser visits each page, sends each form and ticks each box of both sides.

A new page, form or box needs a line here: tests/browser/test_coverage.py compares this table with the code,
and after every test of a browser it is checked that the test did what the table says of it.
"""

from __future__ import annotations

from typing import Final

_LIFE: Final = "test_a_collaboration_from_its_draft_to_its_end"
_LEFT_OUT: Final = "test_one_institution_is_left_out_and_the_round_is_computed_again"
_SEALED: Final = "test_a_round_is_sealed_without_an_institution_that_sends_nothing"
_CORRECTED: Final = "test_corrected_terms_replace_those_of_a_collaboration"
_EVERY: Final = "test_every_page_of_a_round"
_BARE: Final = "test_a_bare_address_leads_to_the_sign_in_and_back"
_REJECTS: Final = "test_the_lead_rejects_a_request"
_REVOKES: Final = "test_an_institution_revokes_its_token"
_OUT: Final = "test_who_signs_out_has_to_sign_in_again"
_NO_PAGE: Final = "test_an_address_that_is_none_is_a_page_with_a_way_back"
_ELSEWHERE: Final = "test_a_link_from_another_site_asks_once_more"
_OWN: Final = "test_a_round_from_the_terms_to_predictions"
_OWN_REJECT: Final = "test_terms_are_rejected_on_a_phone"
_OWN_ANCHOR: Final = "test_the_lead_creates_the_anchor"
_OWN_NOBODY: Final = "test_who_has_not_joined_is_told_how"
_OWN_CONSUMER: Final = "test_a_consumer_consents_to_a_model_that_reveals_rows_and_to_sending_none"
_OWN_SIGNAL: Final = "test_who_would_lose_the_signal_has_to_tick_that"
_OWN_WORK: Final = "test_work_under_way_has_a_page"

_ROUND: Final = "/pages/collaborations/{collaboration_id}"
_OWN_ROUND: Final = "/ui/rounds/{collaboration_id}"

COVERED: Final[dict[str, str]] = {
    "analyst: GET /": _BARE,
    "analyst: GET /pages": _EVERY,
    "analyst: GET /pages/sign-in": _BARE,
    "analyst: GET /pages/static/{name}": _BARE,
    "analyst: GET /pages/new": _LIFE,
    "analyst: GET /pages/requests": _REJECTS,
    "analyst: GET /pages/requests/{invitation_id}/rejection": _REJECTS,
    "analyst: GET /pages/tokens": _REVOKES,
    "analyst: GET /pages/{rest:path}": _NO_PAGE,
    f"analyst: GET {_ROUND}": _EVERY,
    f"analyst: GET {_ROUND}/live": _LIFE,
    f"analyst: GET {_ROUND}/report": _EVERY,
    f"analyst: GET {_ROUND}/terms": _EVERY,
    f"analyst: GET {_ROUND}/ledger": _EVERY,
    f"analyst: GET {_ROUND}/seal": _SEALED,
    f"analyst: GET {_ROUND}/release": _LIFE,
    f"analyst: GET {_ROUND}/close": _LIFE,
    f"analyst: GET {_ROUND}/exclude": _LEFT_OUT,
    f"analyst: GET {_ROUND}/resume": _LEFT_OUT,
    f"analyst: GET {_ROUND}/cancel": _LEFT_OUT,
    "analyst: POST /pages/sign-in": _BARE,
    "analyst: POST /pages/sign-out": _OUT,
    "analyst: POST /pages/new": _CORRECTED,
    "analyst: POST /pages/new/check": _LIFE,
    "analyst: POST /pages/new/publish": _CORRECTED,
    "analyst: POST /pages/requests/{invitation_id}/rejection": _REJECTS,
    "analyst: POST /pages/tokens/{token_id}/revocation": _REVOKES,
    f"analyst: POST {_ROUND}/seal": _SEALED,
    f"analyst: POST {_ROUND}/release": _LIFE,
    f"analyst: POST {_ROUND}/close": _LIFE,
    f"analyst: POST {_ROUND}/exclude": _LEFT_OUT,
    f"analyst: POST {_ROUND}/resume": _LEFT_OUT,
    f"analyst: POST {_ROUND}/cancel": _LEFT_OUT,
    "analyst: page act": _LIFE,
    "analyst: page collaboration": _EVERY,
    "analyst: page collaborations": _EVERY,
    "analyst: page draft": _LIFE,
    "analyst: page draft_checked": _LIFE,
    "analyst: page ledger": _EVERY,
    "analyst: page once_more": _ELSEWHERE,
    "analyst: page problem": _NO_PAGE,
    "analyst: page reject": _REJECTS,
    "analyst: page report": _EVERY,
    "analyst: page requests": _REJECTS,
    "analyst: page sign_in": _BARE,
    "analyst: page terms": _EVERY,
    "analyst: page tokens": _REVOKES,
    "own: GET /": _OWN_NOBODY,
    "own: GET /ui": _OWN,
    "own: GET /ui/enter/{token}": _OWN,
    "own: GET /ui/static/{name}": _OWN,
    "own: GET /ui/{rest:path}": _OWN_NOBODY,
    f"own: GET {_OWN_ROUND}": _OWN,
    f"own: GET {_OWN_ROUND}/live": _OWN,
    f"own: GET {_OWN_ROUND}/terms": _OWN,
    f"own: GET {_OWN_ROUND}/table": _OWN,
    f"own: GET {_OWN_ROUND}/leaving": _OWN,
    f"own: GET {_OWN_ROUND}/ledger": _OWN,
    f"own: GET {_OWN_ROUND}/predict": _OWN,
    f"own: GET {_OWN_ROUND}/card": _OWN,
    f"own: GET {_OWN_ROUND}/work": _OWN_WORK,
    f"own: POST {_OWN_ROUND}/accept": _OWN,
    f"own: POST {_OWN_ROUND}/anchor": _OWN_ANCHOR,
    f"own: POST {_OWN_ROUND}/check": _OWN,
    f"own: POST {_OWN_ROUND}/prepare": _OWN,
    f"own: POST {_OWN_ROUND}/contribute": _OWN,
    f"own: POST {_OWN_ROUND}/receive": _OWN,
    f"own: POST {_OWN_ROUND}/predict": _OWN,
    f"own: POST {_OWN_ROUND}/explain": _OWN,
    f"own: POST {_OWN_ROUND}/reject": _OWN_REJECT,
    "own: page card": _OWN,
    "own: page leaving": _OWN,
    "own: page ledger": _OWN,
    "own: page nobody": _OWN_NOBODY,
    "own: page predict": _OWN,
    "own: page problem": _OWN_NOBODY,
    "own: page round": _OWN,
    "own: page rounds": _OWN,
    "own: page table": _OWN,
    "own: page terms": _OWN,
    "own: page work": _OWN_WORK,
    "own: tick row_revealing to accept": _OWN_CONSUMER,
    "own: tick consumer to contribute": _OWN_CONSUMER,
    "own: tick signal_loss to contribute": _OWN_SIGNAL,
}
