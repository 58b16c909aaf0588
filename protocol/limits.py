"""Limits on every size, count and time that a peer can influence, each with its reason.

A limit is checked before memory is allocated. Raising a limit is a compatible change, lowering one is not.
"""

from __future__ import annotations

from typing import Final

MAX_MESSAGE_BYTES: Final = 4 * 2**20
"""A control message. Terms with 20 000 columns of 100 bytes each take half of this."""

MAX_NESTING: Final = 16
"""Depth of a message. The deepest we send (a column inside a schema inside terms) is 5."""

MAX_CONTAINERS: Final = 2**17
"""Maps and arrays in one message: each costs the sender one byte and the reader some hundred bytes of memory.
Terms with the largest number of columns have half as many."""

MAX_FIELDS: Final = 64
"""Keys of one map. The largest we send (the terms) has 15."""

MAX_OPTIONAL_FIELDS: Final = 16
"""Fields of one message that its receiver does not know: there are none today."""

MAX_OPTIONAL_BYTES: Final = 64 * 2**10
"""These fields together: room for some signatures of another kind, which no uplink would notice."""

MIN_CHUNK_BYTES: Final = 64 * 2**10
"""In smaller chunks the 32-byte digest would no longer be small compared with the chunk."""

MAX_CHUNK_BYTES: Final = 4 * 2**20
"""The receiver holds one chunk in memory per upload."""

DEFAULT_CHUNK_BYTES: Final = 2**20
"""The chunk size of a sender that has no reason to choose another one."""

MAX_ROWS: Final = 2**31 - 1
"""Rows of one array: the largest count a 32-bit reader can hold."""

MAX_LATENT_DIM: Final = 2**14
"""An l x l float64 matrix of this size has 2 GiB, the most memory one alignment step should take."""

MAX_ARRAY_BYTES: Final = 2**40
"""One array of an uplink: 1 TiB. An analyst may set less (see its settings)."""

MAX_SCALE: Final = 2**120
"""A scale of 8-bit integers, 2^120: 128 times as much is still a float32."""

MAX_DITHER: Final = 100
"""Noise of this many standard deviations leaves nothing to learn."""

MAX_MODEL_BYTES: Final = 2**31 - 1
"""A model: the largest size of one ONNX file, which an institution keeps in memory to predict."""

MAX_ANSWER_BYTES: Final = 64 * 2**20
"""Any other answer of the analyst, for example the report or status of thousands of parties."""

MAX_COLUMNS: Final = 2**16
"""Columns of a schema, and levels of one categorical column."""

MAX_RANDOM_FEATURES: Final = 2**12
"""Random features of a row under sums: the sums of so many take 67 MB."""
MAX_SUMS_NUMBERS: Final = 2**27
"""Numbers that an institution sends under sums by class: 1 GB."""

MAX_SUMS_PARTIES: Final = 256
"""Institutions of a round with sums: each makes a mask for each other, and gets a key of 32 bytes of each."""

MAX_RETENTION_DAYS: Final = 36_500
"""A hundred years."""

MAX_CANDIDATES: Final = 8
"""Models or alignments that `auto` compares, each by five fits, and again in every fit for judging."""

MAX_GROUPED_PARTIES: Final = 1024
"""Institutions of a round with a model for each group of them: every two are compared, and every downlink
names all models."""

MAX_QUANTILES: Final = 1001
"""Quantiles of one column: tenths of a percent."""
MAX_OWN_MISSING: Final = 256
"""Texts that stand for an empty field in one column alone."""
MAX_SURVIVAL_TIMES: Final = 64
"""Times for which a model of survival has an answer."""

MAX_LABELS: Final = 16
"""Labels that are predicted at once: the bits of the widest label type on the wire (u2)."""

MAX_CLASSES: Final = 2**16
"""Classes of the label: what the widest label type on the wire (u2) can number."""

MAX_PARTIES: Final = 2**14
"""Parties of one collaboration."""

MAX_LEDGER_PAGE: Final = 2**14
"""Entries of one page of a ledger. Each has at most 230 bytes, so that a full page fits into a message."""

MAX_STEPS_OF_A_PARTY: Final = 1000
"""Entries that one party may add to a ledger, since none is ever removed; an honest party adds four."""

MAX_LEDGER_BYTES: Final = 2**28
"""A ledger as a file. With the largest number of parties and four steps of each it has 15 MiB."""

MAX_NOTE_BYTES: Final = 2**20
"""A checkpoint with the signatures under it, each of some 180 bytes: thousands of members can cosign."""

MAX_EVIDENCE_FILES: Final = 100
"""Files of an archive of evidence; ours have at most fourteen."""

MAX_TOKENS_OF_A_PARTY: Final = 1000
"""API tokens of one party that have not expired, including revoked ones."""

MAX_TOKEN_S: Final = 366 * 86400
"""Lifetime of an API token, so that a token that somebody leaves with expires within a year."""

MAX_TOKEN_REQUEST_BYTES: Final = 4096
"""A digest, a label of 200 characters, an id and a time."""

MAX_NAME_CHARS: Final = 200
"""Names of parties, columns, levels and files."""

MAX_TEXT_CHARS: Final = 20_000
"""Free text for people: the purpose in the terms."""

MAX_ENROLMENT_BYTES: Final = 256 * 2**10
"""A request for a certificate, the one message that strangers may send. Its parts have at most 192 KiB."""

MAX_REJECTION_BYTES: Final = 4096
"""Why a request, or terms, are rejected: 200 characters."""

MAX_CHAIN_CERTIFICATES: Final = 4
"""A party's certificate from its own PKI, and the intermediate certificates up to its CA."""

MAX_CHAIN_CERTIFICATE_BYTES: Final = 16 * 2**10
"""One of these certificates; they usually have 1 to 4 KiB."""

MAX_CERTIFICATE_BYTES: Final = 64 * 2**10
"""A certificate as PEM; ours have about 1 KiB."""

MAX_REVOCATION_LIST_BYTES: Final = 4 * 2**20
"""A revocation list: some 100 000 certificates."""

MAX_HEAD_BYTES: Final = 64 * 2**10
"""Request line and headers, which anybody may send; ours have less than 1 KiB."""

MAX_FIELDS_OF_A_REQUEST: Final = 100
"""Header lines of one request, trailers included. Each takes more memory than its bytes; ours have ten."""

MAX_REQUESTS_AHEAD: Final = 8
"""Requests on one connection that are not answered yet. Ours send one at a time."""

MAX_HEAD_S: Final = 60
"""From the start of a connection to the end of its first request's headers, and from the first byte of each
later one. An analyst may set less, here and in the two that follow."""

MAX_REST_S: Final = 60
"""For what still comes of a request that is answered already; then the connection is closed."""

MAX_IDLE_S: Final = 60
"""From an answer to the next request. A handshake costs more than an idle connection, and preparing may take
a while."""

MAX_BODY_S: Final = 60
"""For the body of a message, which has a few megabytes at most; uploads have a limit of their own."""

MAX_PENDING_ENROLMENTS: Final = MAX_PARTIES
"""Join requests that the analyst stores until the lead answers them: of all parties of the largest
collaboration."""

SEED_BYTES: Final = 32
"""The anchor's seed: a ChaCha20 key."""

MAX_ANCHOR_MATRIX_BYTES: Final = 256 * 2**20
"""An anchor that travels, as float32: 80 000 rows of 784 features. Every member holds it in memory."""

MAX_KEY_STREAM_BYTES: Final = 2**38
"""ChaCha20 counts its 64-byte blocks in 32 bits."""
