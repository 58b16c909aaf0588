"""What the use cases have found, in words: the same at a terminal and on a page."""

from user_client.words.alignment import alignment_in_words, suspected_in_words
from user_client.words.models import fewer_in_words, local_fit_in_words, signal_in_words, trained_in_words
from user_client.words.risk import IF_TOO_MUCH, NOTHING_FOUND, OURS_ALONE, dangers, information_in_words
from user_client.words.table import checked_in_words, misfits_in_words, risk_in_words
from user_client.words.terms import differences_in_words, on_screen
from user_client.words.uplink import leaving_in_words, summary_in_words

__all__ = [
    "IF_TOO_MUCH",
    "NOTHING_FOUND",
    "OURS_ALONE",
    "alignment_in_words",
    "checked_in_words",
    "dangers",
    "differences_in_words",
    "fewer_in_words",
    "information_in_words",
    "leaving_in_words",
    "local_fit_in_words",
    "misfits_in_words",
    "on_screen",
    "risk_in_words",
    "signal_in_words",
    "summary_in_words",
    "suspected_in_words",
    "trained_in_words",
]
