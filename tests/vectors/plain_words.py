"""The cases of plain_words.json: terms, and the text that a person is shown."""

from __future__ import annotations

from collections.abc import Iterator

from tests.vectors import suites
from tests.vectors.absent import ABSENT_TERMS, absent_text
from tests.vectors.alignments import ALIGNED_TERMS
from tests.vectors.column_words import columns_in_words
from tests.vectors.examples import (
    AUTO_TERMS,
    KNN_TERMS,
    LATE_TERMS,
    NUMBER_TERMS,
    NUMERIC,
    PRIVATE_TERMS,
    RETAINED_TERMS,
    SHOWN,
    SURVIVAL_TERMS,
    SVM,
    TERMS,
    TERMS_2,
    WEIGHTED_TERMS,
    Case,
    changed,
    shown_digest,
)
from tests.vectors.fewer import FEWER_OF_FEWER_TERMS, FEWER_TERMS, fewer_of_fewer_text, fewer_text
from tests.vectors.groups import GROUP_TERMS, group_text
from tests.vectors.joined import JOINED_TERMS, joined_text
from tests.vectors.multilabel import MULTILABEL_TERMS, multilabel_text
from tests.vectors.own_maps import OWN_MAPS_TERMS, own_maps_text
from tests.vectors.packing import pack
from tests.vectors.pinned import PINNED_LINE, PINNED_TERMS
from tests.vectors.sums import BY_CLASS_TERMS, COHORT_TERMS, NOISE_TERMS, RANDOM_TERMS, SUMS_TERMS
from tests.vectors.terms import CORRECTED_TERMS

ROW_REVEALING_WARNING = (
    "Warning: row-revealing model: a model of the kind svm contains training rows. From it every other"
    " institution can rebuild what the projection keeps of these rows, including yours. Signing these terms"
    " needs a separate consent.\n"
)
REVEALED = SHOWN.replace("(mlp)", "(svm)").replace(
    "Warning: shared", f"{ROW_REVEALING_WARNING}Warning: shared"
)
FORGOTTEN = (
    SHOWN.replace("24 bytes", "48 bytes")
    .replace(
        "sends back: one model for all institutions (mlp), and for this institution alone the change-of-basis"
        " matrix that it needs to use the model.\n",
        "sends back, for this institution alone: what the model for all institutions (mlp) predicts for each"
        " of the 6 anchor rows (48 bytes). It sends neither the model nor a change-of-basis matrix. From"
        " these predictions this institution trains a model of its own.\n"
        "Precautions (NRI-DC): this institution sends its rows in random order, and computes the basis from"
        " perturbed rows. It erases the basis right after the analyst's receipt, and the anchor once its own"
        " model is trained.\n",
    )
    .replace("Other institutions see the model, and how many", "Other institutions see how many")
)
PREDICTED_TERMS = {**TERMS, "anchor": {"kind": "gaussian", "rows": 6}, "downlink": "anchor-predictions"}
FEW_ROWS_WARNING = (
    "Warning: few anchor rows: this institution's own model is trained on 6 anchor rows. With fewer than 60"
    " it may predict much worse than the model for all institutions.\n"
)
PUBLIC_WARNING = (
    "Warning: public anchor: its rows come from a table. Whoever has that table can guess the anchor better"
    " than a random one, and an analyst that has the anchor could rebuild what the projection keeps of your"
    " rows.\n"
)
UNIFORM_WARNING = (
    "Warning: uniform anchor: it tells the analyst more about each secret basis than a haar anchor would.\n"
)


SHARED = next(line for line in SHOWN.splitlines() if "shared representation" in line)
SHARED_IN_2 = (
    "Warning: shared representation: the analyst brings the rows of all institutions into one common"
    " representation. The analyst and one member together know the secret basis. With it they can rebuild"
    " values of your rows, and whole rows where columns have few values. The analyst alone can recover some"
    " columns, recognise rows that it knows from elsewhere, and find the same person at two institutions."
    " `odc prepare` can try some of this on your rows. Treat the projections as personal data."
)
SHOWN_IN_2 = SHOWN.replace("version 2", "version 3").replace(SHARED, SHARED_IN_2)
TERMS_2_TEXT = (
    SHOWN_IN_2.replace(
        "these terms do not require noise to be added to anything that is sent",
        "the noise makes attacks harder and guarantees nothing about a row",
    )
    .replace("2 numbers (8 bytes) in place of its 3", "5 numbers (20 bytes) in place of its 5")
    .replace("(24 bytes)", "(100 bytes)")
    .replace("(mlp)", "(averaged)")
    .replace(
        "(about seven digits).\n",
        "(about seven digits).\n"
        "Before that, noise is added to the projections of the rows: along every direction, its standard"
        " deviation is at least 0.5 times that of the projections.\n"
        "Before it sends, this institution measures how much of its own score of each row lies along the 5"
        " leading axes of its rows, and asks a person if that is less than 0.95 (R squared).\n"
        "This institution keeps 0.2 of its rows back, chosen at random. It evaluates the model on them,"
        " beside a model of its own rows alone.\n"
        "It may send the result back: the two scores, the interval of their difference and the number of"
        " rows. The analyst and every institution read it.\n",
    )
    .split("\nColumns:")[0]
    + "Warning: figures of a table: the quantiles, ranges, centres and shares below describe one"
    " institution's table or a public one. The analyst and every institution read them.\n"
    "Warning: nothing is projected away: each row becomes as many numbers as it has encoded features, so"
    " that whoever knows the secret basis knows the row.\n"
    "\n"
    "Columns:\n"
    "- rank: its rank among the 3 quantiles 0, 1.5, 4; a number outside is moved to the nearer end; an empty"
    " field is refused\n"
    "- range: from 0 to 4, less 1.5; a number outside is moved to the nearer end; an empty field counts as"
    " the middle\n"
    "- levels: one of north, south, with the shares 0.25, 0.75, each less its share and times 0.5; an"
    " empty field counts as the middle, and one more feature says whether the field is empty, less the share"
    " 0.1\n"
)


CLASS_WEIGHTS = (
    "Class weights: a model of the kind logistic is trained so that every class counts the same, however few"
    " rows it has. Its probabilities are those of rows with equally many of every class: for a rare class"
    " they are higher than its share of the rows."
)
PRIVATE_MODEL = (
    "The model is trained with noise: it is differentially private with epsilon 3 and delta 0.00001. This"
    " bounds what anybody can learn from the model about any one projected row and its label, all bases and"
    " the alignment being given. It does not protect the row from the analyst."
)
LATE_CONSUMERS = (
    "Late consumers: hospital-c. They send no rows and no labels, and the round does not wait for them. After"
    " its release and before its end, each of them may send the projection of the anchor and gets the model"
    " and a change-of-basis matrix of its own; nobody is asked again. Until the end, the analyst keeps what"
    " all institutions have sent. Like every member, a late consumer knows the anchor: together with the"
    " analyst it knows the secret basis of every institution."
)
REPLACED_LINE = (
    "These terms replace those of the collaboration 00112233445566778899aabbccddeeff,"
    " which has ended with that."
)
HOW_LONG = (
    "How long: 90 days after the model is released, or without a release after the last institution has sent,"
    " the analyst ends the round and erases what it was sent and what it sends back. Its records of the round"
    " stay, and no institution can check that the rest is erased."
)
EXPOSURE = (
    "Before it sends, this institution attacks its own rows. It does not send if more than 0.01 of its rows"
    " can be rebuilt in every column, or more than 3 columns are found without the secret basis, or fewer"
    " than 8 bits of a row stay here."
)


CHOSEN = TERMS_2_TEXT.replace(
    "(averaged)",
    "(auto: the best of several on rows that did not train them, of these kinds: svm, logistic)",
).replace("Warning: shared", f"{ROW_REVEALING_WARNING}Warning: shared")


CHOSEN_ALIGNMENT = (
    "The analyst tries several ways to bring the rows into the common representation (isotropic, imakura). It"
    " takes the one with which a model predicts best on rows that did not train it. Every institution reads"
    " the mean score of each."
)


def with_exact_label(text: str, sent: str) -> str:
    """Return a text of terms whose label is no class."""
    return text.replace("the label of each row, unchanged,", f"{sent},").replace(
        "Warning: no differential privacy",
        "Warning: exact labels: a number or a time may be known of one person alone. An analyst that has it"
        " from elsewhere recognises the row.\nWarning: no differential privacy",
    )


SUMMED = """\
This institution sends to the analyst, once, no row and no label, but sums over all its rows:
- with a row's 1, the 5 encoded features of a row and its label, 8 numbers in all, the sum of the product of each two: 36 numbers (288 bytes), however many rows there are.
The features are turned by a matrix that the institutions share and the analyst does not receive. Each sum is masked: random numbers are added that cancel in the total over all institutions and in no other sum. The analyst learns the total, with it the number of all rows, and nothing else.
An institution with fewer than 20 rows, or more than 1000000, does not send. Without the sums of every institution there is no total, and the round ends without a model.
This institution keeps 0.2 of its rows back, chosen at random. It evaluates the model on them, beside a model of its own rows alone.
It may send the result back: the two scores, the interval of their difference and the number of rows. The analyst and every institution read it.

The analyst sends back: one model for all institutions (ridge: least squares with a penalty, computed from the total), in the turned features.
Who sees what: the analyst sees the total, and that this institution has sent. Other institutions see the model, and the number of all rows.

Warning: what a total tells: if all institutions but one put their own sums together with the analyst's total, they know the sums of the one that is left. A total over few rows tells much about each of them. The analyst and one member together know the total of the features as they are.
Warning: no differential privacy: no noise is added to the sums.
Warning: masks: they rest on X25519 and on the seed that the lead creates. Who has recorded the sums, can break X25519 one day and has the seed of a member can take the masks off.
"""  # noqa: E501  # as a person reads it
WITH_RANDOM_FEATURES = (
    SUMMED.replace(
        "the 5 encoded features of a row and",
        "the 5 encoded features of a row and 4 random functions of them (kernel width 1.5) and",
    )
    .replace("8 numbers in all", "12 numbers in all")
    .replace("36 numbers (288", "78 numbers (624")
)
OF_ALL_BUT_ONE = (
    "if all institutions but one put their own sums together with the analyst's total, they know the sums"
    " of the one that is left."
)
OF_EACH = (
    "each institution can take its own sums from the total, and then knows those of all others together;"
    " all institutions but one together know those of the one that is left."
)
WITH_TOTAL = (
    SUMMED.replace(
        "\nWho sees what",
        "\nIt also sends the total to every institution. Each can turn it back and reads from it, over the"
        " rows of all institutions, the mean and the spread of every feature and of the label, and how each"
        " two of them go together.\nWho sees what",
    )
    .replace("see the model, and the", "see the model, the total and the")
    .replace(OF_ALL_BUT_ONE, OF_EACH)
)


NOISED = """\
Each institution adds a share of random noise to its sums, which does not cancel. The total, and the model with it, is differentially private with epsilon 3 and delta 0.00001: one row and its label more or less makes no total more than exp(3) times as likely, but for a chance of 0.00001. That holds against the analyst with up to 1 of the institutions. A feature vector longer than 1.5 is scaled down to that length.
An institution with fewer than"""  # noqa: E501  # as a person reads it
WITH_NOISE = SUMMED.replace("An institution with fewer than", NOISED).replace(
    "Warning: no differential privacy: no noise is added to the sums.",
    "Warning: scores without noise: what an institution measures on the rows that it keeps back"
    " is not part of what epsilon covers.",
)


BY_CLASS = (
    SUMMED.replace(
        "- with a row's 1, the 5 encoded features of a row and its label, 8 numbers in all, the sum of the"
        " product of each two: 36 numbers (288 bytes)",
        "- for each of the 2 classes, with a row's 1 and the 5 encoded features of a row, 6 numbers in all,"
        " the sum of the product of each two over the rows of the class: 42 numbers (336 bytes)",
    )
    .replace("fewer than 20 rows,", "fewer than 20 rows, of a class too unless it has none of it,")
    .replace(
        "(ridge: least squares with a penalty,",
        "(quadratic-discriminant: the mean and the covariance of each class,",
    )
    .replace(
        "\nWho sees what",
        "\nEach institution can turn the model back and reads from it, for each class, over the rows of all"
        " institutions, the mean and the spread of every feature, and how each two of them go together."
        "\nWho sees what",
    )
    .replace(OF_ALL_BUT_ONE, OF_EACH)
)


def of_sums(summed: str) -> str:
    """Return the text of terms of sums: what stands between the label and the columns is another."""
    head, rest = TERMS_2_TEXT.replace("hospital-a, hospital-b.", "hospital-a, hospital-b, hospital-c.").split(
        "This institution sends", 1
    )
    figures = rest[rest.index("Warning: figures of a table") : rest.index("Warning: nothing is projected")]
    return f"{head}{summed}{figures}\n{rest[rest.index('Columns:') :]}"


def warned(text: str, warning: str) -> str:
    """Return a text with one more warning, which follows those that every text has."""
    return text.replace("\n\nColumns:", f"\n{warning}\nColumns:")


_REVEALS = next(line for line in REVEALED.splitlines() if line.startswith("Warning: row-revealing"))
NEIGHBOURS = TERMS_2_TEXT.replace("(averaged)", "(knn)").replace(
    "\nWarning: shared", f"\n{_REVEALS.replace('svm', 'knn')}\nWarning: shared", 1
)


def shown_texts() -> Iterator[Case]:
    """Terms, and what their reader is shown and signs the digest of."""
    awkward = {**NUMERIC, "low": -1e-7, "high": 1.5e22, "impute": None, "out_of_range": "refuse"}
    numbers = (
        "from -0.0000001 to 15000000000000000000000; a number outside is refused; an empty field is refused"
    )
    mapped = "from 0 to 120; a number outside is moved to the nearer end; an empty field counts as 40"
    for name, terms, text in [
        ("a default model", TERMS, SHOWN),
        ("a row-revealing model", {**TERMS, "model": SVM}, REVEALED),
        ("nearest neighbours, which are rows", KNN_TERMS, NEIGHBOURS),
        ("a choice among models, one of them row-revealing", AUTO_TERMS, CHOSEN),
        (
            "a choice among alignments",
            ALIGNED_TERMS,
            TERMS_2_TEXT.replace("\nWho sees what", f"\n{CHOSEN_ALIGNMENT}\nWho sees what"),
        ),
        (
            "a number to predict",
            NUMBER_TERMS,
            with_exact_label(
                TERMS_2_TEXT.replace("(averaged)", "(ridge)").replace(
                    "the column readmitted, which is one of: no, yes.",
                    "the column days, a number from 0 to 80. A table with a number outside is refused.",
                ),
                "the number to predict of each row, rounded to a 32-bit float",
            ),
        ),
        (
            "anchor predictions for few rows; a kernel that does not come back reveals none",
            {**PREDICTED_TERMS, "model": SVM},
            warned(FORGOTTEN.replace("(mlp)", "(svm)"), FEW_ROWS_WARNING),
        ),
        (
            "anchor predictions for a public anchor",
            {**PREDICTED_TERMS, "anchor": {"kind": "public", "rows": 6}},
            warned(FORGOTTEN, PUBLIC_WARNING),
        ),
        (
            "a uniform anchor and 8-bit integers",
            {**TERMS, "anchor": {"kind": "uniform", "rows": 100}, "rep_dtype": "i1"},
            warned(SHOWN, UNIFORM_WARNING)
            .replace("(8 bytes)", "(2 bytes)")
            .replace("(24 bytes)", "(200 bytes)")
            .replace(
                "32-bit floats (about seven digits)",
                "8-bit integers (to within 1/254 of the largest value of the same dimension)",
            ),
        ),
        (
            "numbers without an exponent",
            changed(TERMS, "table_schema", "columns", 0, to=awkward),
            SHOWN.replace(mapped, numbers),
        ),
        ("terms of schema 2", TERMS_2, TERMS_2_TEXT),
        *columns_in_words(TERMS_2_TEXT),
        ("sums", SUMS_TERMS, of_sums(SUMMED)),
        ("sums with random features", RANDOM_TERMS, of_sums(WITH_RANDOM_FEATURES)),
        ("sums with the total for each institution", COHORT_TERMS, of_sums(WITH_TOTAL)),
        ("sums with noise", NOISE_TERMS, of_sums(WITH_NOISE)),
        ("sums by class", BY_CLASS_TERMS, of_sums(BY_CLASS)),
        (
            "survival",
            SURVIVAL_TERMS,
            with_exact_label(
            TERMS_2_TEXT.replace("(averaged)", "(cox)").replace(
                "the column readmitted, which is one of: no, yes.",
                "survival: the column days says how long a row was observed, and the column died whether that"
                " ended with the event (yes) or not (no). A time beyond 730 counts as one without the event."
                " The answer is the probability that the event comes after each of these times: 182.5, 365.",
            ),
                "the time of each row, rounded to a 32-bit float, and whether it ended with the event",
            ),
        ),
        ("several labels", MULTILABEL_TERMS, multilabel_text(TERMS_2_TEXT)),
        (
            "terms of schema 2 with nothing that is new in it",
            {
                **TERMS,
                "terms_schema": 2,
                "dither": 0.0,
                "least_signal": None,
                "hold_out": 0.0,
                "returns_scores": False,
                "model_privacy": None,
                "exposure": None,
            },
            SHOWN_IN_2,
        ),
        (
            "a model that is differentially private, and limits of exposure",
            PRIVATE_TERMS,
            TERMS_2_TEXT.replace("(averaged)", "(logistic)")
            .replace("\nWho sees what", f"\n{PRIVATE_MODEL}\nWho sees what")
            .replace("\nThis institution keeps", f"\n{EXPOSURE}\nThis institution keeps"),
        ),
        (
            "class weights",
            WEIGHTED_TERMS,
            TERMS_2_TEXT.replace("(averaged)", "(logistic)").replace(
                "\nWho sees what", f"\n{CLASS_WEIGHTS}\nWho sees what"
            ),
        ),
        (
            "how long",
            RETAINED_TERMS,
            TERMS_2_TEXT.replace("\n\nWarning: shared", f"\n{HOW_LONG}\n\nWarning: shared"),
        ),
        (
            "a late consumer",
            LATE_TERMS,
            TERMS_2_TEXT.replace(
                "hospital-a, hospital-b. Lead institution: hospital-a.",
                f"hospital-a, hospital-b, hospital-c. Lead institution: hospital-a.\n{LATE_CONSUMERS}",
            ),
        ),
        ("absent columns", ABSENT_TERMS, absent_text(TERMS_2_TEXT)),
        ("models of groups", GROUP_TERMS, group_text(TERMS_2_TEXT)),
        ("a choice of how many numbers of a row", FEWER_TERMS, fewer_text(TERMS_2_TEXT)),
        (
            "such a choice of an institution with fewer features",
            FEWER_OF_FEWER_TERMS,
            fewer_of_fewer_text(TERMS_2_TEXT),
        ),
        ("maps of an institution's own", OWN_MAPS_TERMS, own_maps_text(TERMS_2_TEXT)),
        ("joined rows", JOINED_TERMS, joined_text(TERMS_2_TEXT)),
        (
            "terms that replace others",
            CORRECTED_TERMS,
            TERMS_2_TEXT.replace("\nThe model", f"\n{REPLACED_LINE}\nThe model", 1),
        ),
        (
            "the analyst's key",
            PINNED_TERMS,
            TERMS_2_TEXT.replace("\nThe model", f"\n{PINNED_LINE}, and no other.\nThe model", 1),
        ),
        *(
            (
                f"the suite {suite}",
                suites.terms_of(suite),
                TERMS_2_TEXT.replace("\nThe model", f"\n{suites.line_of(suite)}\nThe model", 1),
            )
            for suite in suites.CHOSEN
        ),
    ]:  # fmt: skip
        yield {"name": name, "terms": pack(terms).hex(), "text": text, "digest": shown_digest(text).hex()}
