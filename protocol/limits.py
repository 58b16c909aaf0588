"""Every number a peer can push against, with its reason.

A limit is tested before memory is taken. Raising one is compatible; lowering one is not.
"""

from __future__ import annotations

from typing import Final

MAX_MESSAGE_BYTES: Final = 4 * 2**20
"""A control message. Terms with 20 000 columns of 100 bytes are half of this."""

MAX_NESTING: Final = 16
"""Depth of a message. The deepest we send (a column inside a schema inside terms) is 5."""

MAX_CONTAINERS: Final = 2**17
"""Maps and arrays of one message: each costs a reader some hundred bytes and a sender one. Terms with the
most columns have half of this."""

MAX_FIELDS: Final = 64
"""Keys of one map. The most we send (in the terms) is 15."""

MIN_CHUNK_BYTES: Final = 64 * 2**10
"""Below this the 32-byte digest of each chunk is no longer small against the chunk."""

MAX_CHUNK_BYTES: Final = 4 * 2**20
"""The receiver holds one chunk in memory per upload."""

DEFAULT_CHUNK_BYTES: Final = 2**20

MAX_ROWS: Final = 2**31 - 1
"""Rows of one array: the largest count a 32-bit reader can hold."""

MAX_LATENT_DIM: Final = 2**14
"""An l x l float64 matrix of this size is 2 GiB, the most one alignment step should take."""

MAX_ARRAY_BYTES: Final = 2**40
"""One array of an uplink: 1 TiB. An analyst may set less (see its settings)."""

MAX_SCALE: Final = 2**120
"""A scale of 8-bit integers: 128 times it is still a float32."""

MAX_MODEL_BYTES: Final = 2**31 - 1
"""A model: what one ONNX file can hold, and an institution keeps in memory to predict."""

MAX_ANSWER_BYTES: Final = 64 * 2**20
"""Any other answer of the analyst: the report and status of thousands of parties."""

MAX_COLUMNS: Final = 2**16
"""Columns of a schema, and levels of one categorical column."""

MAX_CLASSES: Final = 2**16
"""Classes of the label: what the widest label type on the wire (u2) can number."""

MAX_PARTIES: Final = 2**14
"""Parties of one collaboration."""

MAX_LEDGER_PAGE: Final = 2**14
"""Entries of one page of a ledger. Each has 230 bytes at most, so that a full page is a message."""

MAX_STEPS_OF_A_PARTY: Final = 1000
"""Entries one party may cause in a ledger, which nobody can shorten; an honest one causes four."""

MAX_LEDGER_BYTES: Final = 2**28
"""A ledger as a file. Of the most parties, each with four steps, it has 15 MiB."""

MAX_TOKENS_OF_A_PARTY: Final = 1000
"""API tokens one party may have that have not ended, revoked ones too."""

MAX_TOKEN_S: Final = 366 * 86400
"""How long an API token may hold: whoever leaves takes none along for longer."""

MAX_TOKEN_REQUEST_BYTES: Final = 4096
"""A digest, a label of 200 characters, an id and a time."""

MAX_NAME_CHARS: Final = 200
"""Names of parties, columns, levels and files."""

MAX_TEXT_CHARS: Final = 20_000
"""Free text for people: the purpose in the terms."""

MAX_ENROLMENT_BYTES: Final = 256 * 2**10
"""A request for a certificate: the one message that strangers may send. Its parts make 192 KiB at most."""

MAX_CHAIN_CERTIFICATES: Final = 4
"""A party's certificate of its own PKI and the intermediates below its CA."""

MAX_CHAIN_CERTIFICATE_BYTES: Final = 16 * 2**10
"""One of them; they have 1 to 4 KiB."""

MAX_CERTIFICATE_BYTES: Final = 64 * 2**10
"""A certificate as PEM; ours have about 1 KiB."""

MAX_REVOCATION_LIST_BYTES: Final = 4 * 2**20
"""A revocation list: some 100 000 certificates."""

MAX_HEAD_BYTES: Final = 64 * 2**10
"""Request line and headers, which anybody may send; ours take less than 1 KiB."""

MAX_HEAD_S: Final = 60
"""From a connection to its first whole head."""

MAX_BODY_S: Final = 60
"""For a message of a few megabytes at most; uploads have a limit of their own."""

MAX_PENDING_ENROLMENTS: Final = 10_000
"""Join requests an analyst keeps unanswered."""

SEED_BYTES: Final = 32
"""The anchor's seed: a ChaCha20 key."""

MAX_ANCHOR_MATRIX_BYTES: Final = 256 * 2**20
"""A public anchor as float32: 80 000 rows of 784 features. Every member keeps it in memory to contribute."""

MAX_KEY_STREAM_BYTES: Final = 2**38
"""ChaCha20 counts 64-byte blocks in 32 bits."""
