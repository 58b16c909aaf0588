"""`odc terms`: a draft, its words, the check of a table, and the signature."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from analyst_server.services import end, prepare
from protocol.identity import key_digest, read_aloud
from protocol.model_terms import LogisticTerms, ModelPrivacyTerms, weighted_kinds
from protocol.sealing import HYBRID
from tests.harness.in_process import HOSPITAL, LEAD
from tests.harness.odc import Odc
from user_client.sdk import check_table, plain_words


def test_a_draft_becomes_terms(odc: Odc) -> None:
    table = odc.consortium.table(1)
    result = odc("terms", "draft", table, "--label", "y", "--party", LEAD, "--party", HOSPITAL, "--json")
    assert (result.json["terms"], result.json["features"]) == ("terms.toml", 3)
    assert result.json["signal"]["kept"] >= 0.98
    content = tomllib.loads((odc.consortium.directory / "terms.toml").read_text())
    terms = prepare.complete_terms(odc.consortium.analyst, content)
    assert (terms.lead, terms.parties) == (LEAD, (LEAD, HOSPITAL))
    assert (terms.terms_schema, terms.model.kind) == (2, "averaged")
    assert {column.kind for column in terms.table_schema.columns} == {"ranks"}


def test_a_draft_names_the_analysts_key_where_it_is_known(odc: Odc) -> None:
    made = odc.consortium
    words = ("terms", "draft", made.table(1), "--label", "y", "--party", LEAD, "--force")

    def drafted() -> dict[str, Any]:
        assert odc(*words).code == 0
        return tomllib.loads((made.directory / "terms.toml").read_text())

    assert "analyst_key" not in drafted()
    made.until_joined().publish()
    made.hospital_round.fetch_terms()
    key = key_digest(made.analyst.key.public_key())
    assert drafted()["analyst_key"] == key
    terms = prepare.complete_terms(made.analyst, drafted())
    assert f"the key {read_aloud(bytes.fromhex(key))}, and no other." in plain_words(terms)


def test_a_draft_names_what_a_person_should_look_at(odc: Odc) -> None:
    table = odc.consortium.table(1, x2=[-999, *range(39)])
    drafted = odc("terms", "draft", table, "--label", "y", "--party", LEAD, "--latent-dim", "3")
    assert "look at x2: -999 is in 1 row," in drafted.out
    assert "look at latent_dim 3: as many as there are features" in drafted.out
    assert "a model of your own rows alone has a ROC-AUC of" in drafted.out
    again = odc("terms", "draft", table, "--label", "y", "--party", LEAD, "--missing", "-999", "--force")
    assert "-999" not in again.out
    words = ("terms", "draft", table, "--label", "y", "--party", LEAD, "--force")
    assert "-999" not in odc(*words, "--missing-in", "x2=-999", "--missing-in", "x2=-998").out
    (column,) = (
        one
        for one in tomllib.loads((odc.consortium.directory / "terms.toml").read_text())["table_schema"][
            "columns"
        ]
        if one["name"] == "x2"
    )
    assert column["missing"] == ["-999", "-998"]
    assert "COLUMN=" in odc(*words, "--missing-in", "-999").err


def test_a_lead_with_rows_of_one_class_names_the_other(odc: Odc) -> None:
    table = odc.consortium.table(1, y=["no"] * 40)
    refused = odc("terms", "draft", table, "--label", "y", "--party", LEAD)
    assert "--class" in refused.err
    drafted = odc("terms", "draft", table, "--label", "y", "--party", LEAD, "--class", "yes", "--json").json
    assert drafted["signal"] is None
    assert any("cannot tell how many dimensions" in remark for remark in drafted["remarks"])


def test_a_draft_with_a_private_model_becomes_terms(odc: Odc) -> None:
    table = odc.consortium.table(1)
    words = ("terms", "draft", table, "--label", "y", "--party", LEAD, "--party", HOSPITAL)
    assert "model_epsilon" in odc(*words, "--model-epsilon", "0").err
    odc(*words, "--model-epsilon", "3")
    content = tomllib.loads((odc.consortium.directory / "terms.toml").read_text())
    terms = prepare.complete_terms(odc.consortium.analyst, content)
    assert terms.model == LogisticTerms()
    assert terms.model_privacy == ModelPrivacyTerms(epsilon=3.0, delta=1e-5)


@pytest.mark.parametrize("kind", ["logistic", "auto"])
def test_a_draft_names_another_model_and_late_consumers(odc: Odc, kind: str) -> None:
    words = ("terms", "draft", odc.consortium.table(1), "--label", "y", "--party", LEAD, "--party", HOSPITAL)
    odc(*words, "--model", kind, "--late-consumer", HOSPITAL)
    content = tomllib.loads((odc.consortium.directory / "terms.toml").read_text())
    terms = prepare.complete_terms(odc.consortium.analyst, content)
    assert (terms.model.kind, terms.late_consumers) == (kind, (HOSPITAL,))


def test_a_draft_says_how_long_the_analyst_may_keep_what_it_gets(odc: Odc) -> None:
    words = ("terms", "draft", odc.consortium.table(1), "--label", "y", "--party", LEAD)
    assert "retention_days" in odc(*words, "--retention-days", "0").err
    odc(*words, "--retention-days", "30")
    content = tomllib.loads((odc.consortium.directory / "terms.toml").read_text())
    terms = prepare.complete_terms(odc.consortium.analyst, content)
    assert terms.retention_days == 30
    assert "30 days after the model is released" in plain_words(terms)


@pytest.mark.parametrize("suite", ["mlkem768-x25519", "mlkem1024-p384", "p256"])
def test_a_draft_chooses_what_the_anchor_is_sealed_with(odc: Odc, suite: str) -> None:
    words = ("terms", "draft", odc.consortium.table(1), "--label", "y", "--party", LEAD)
    assert "sealing_suite must be one of mlkem768-x25519" in odc(*words, "--sealing-suite", "x25519").err
    odc(*words, "--sealing-suite", suite)
    content = tomllib.loads((odc.consortium.directory / "terms.toml").read_text())
    terms = prepare.complete_terms(odc.consortium.analyst, content)
    assert terms.sealing_suites[0] == suite
    assert (f"sealed for each institution by the suite {suite}" in plain_words(terms)) is (suite != HYBRID)


@pytest.mark.parametrize("method", ["kawakami", "auto"])
def test_a_draft_names_another_alignment(odc: Odc, method: str) -> None:
    words = ("terms", "draft", odc.consortium.table(1), "--label", "y", "--party", LEAD)
    odc(*words, "--alignment", method)
    content = tomllib.loads((odc.consortium.directory / "terms.toml").read_text())
    assert prepare.complete_terms(odc.consortium.analyst, content).alignment.method == method


@pytest.mark.parametrize("kind", [None, "gradient-boosting"])
def test_a_draft_can_ask_for_class_weights(odc: Odc, kind: str | None) -> None:
    words = ("terms", "draft", odc.consortium.table(1), "--label", "y", "--party", LEAD, "--party", HOSPITAL)
    odc(*words, "--class-weight", "balanced", *(("--model", kind) if kind else ()))
    content = tomllib.loads((odc.consortium.directory / "terms.toml").read_text())
    terms = prepare.complete_terms(odc.consortium.analyst, content)
    assert (terms.model.kind, weighted_kinds(terms.model)) == (kind or "averaged", [kind or "averaged"])


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--alignment", "best"), "alignment must be one of odc, isotropic"),
        (("--alignment", "auto", "--model-epsilon", "1"), "name a method with model_epsilon"),
        (("--model", "ridge"), "model must be one of mlp, logistic"),
        (("--model", "logistic", "--model-epsilon", "1"), "leave model out"),
        (("--class-weight", "inverse"), "class_weight must be none or balanced, got inverse"),
        (("--class-weight", "balanced", "--model", "knn"), "not with knn"),
        (("--class-weight", "balanced", "--model", "auto"), "write it into its candidates by hand"),
        (("--class-weight", "balanced", "--model-epsilon", "1"), "no private training"),
        (
            ("--class-weight", "balanced", "--label", "x0", "--task", "number"),
            "class_weight goes with the task classes, and the task is number",
        ),
        (("--late-consumer", LEAD), "not the lead"),
        (("--late-consumer", "nobody"), "one of the parties"),
    ],
)
def test_a_draft_that_could_be_no_terms_is_refused(odc: Odc, options: tuple[str, ...], why: str) -> None:
    words = ("terms", "draft", odc.consortium.table(1), "--label", "y", "--party", LEAD, "--party", HOSPITAL)
    result = odc(*words, *options)
    assert (result.code, why in result.err) == (3, True)


def test_a_draft_for_forgetting_becomes_terms(odc: Odc) -> None:
    table = odc.consortium.table(1)
    odc("terms", "draft", table, "--label", "y", "--party", LEAD, "--party", HOSPITAL, "--nri")
    content = tomllib.loads((odc.consortium.directory / "terms.toml").read_text())
    terms = prepare.complete_terms(odc.consortium.analyst, content)
    assert terms.returns_anchor_predictions
    assert (terms.anchor.kind, terms.anchor.rows) == ("gaussian", 60)


def test_a_draft_from_a_dictionary_becomes_terms_that_fit_a_table(odc: Odc) -> None:
    lines = [
        "name,type,low,high,levels",
        *(f"x{index},number,-3,3," for index in range(3)),
        "y,category,,,no|yes",
    ]
    (odc.consortium.directory / "public.csv").write_text("\n".join(lines))
    words = ("terms", "draft", "--label", "y", "--party", LEAD, "--party", HOSPITAL)
    drafted = odc(*words, "--dictionary", "public.csv")
    assert "terms with 3 encoded features and latent_dim 3 written to terms.toml" in drafted.out
    assert "look at every column: a dictionary has no rows" in drafted.out
    content = tomllib.loads((odc.consortium.directory / "terms.toml").read_text())
    terms = prepare.complete_terms(odc.consortium.analyst, content)
    assert check_table(terms, odc.consortium.table(1)).misfits == []
    for wrong in ((), (odc.consortium.table(1), "--dictionary", "public.csv")):
        assert "not both" in odc(*words, *wrong, "--force").err
    refused = odc(*words, "--dictionary", "public.csv", "--category", "x0", "--force")
    assert "go with a table" in refused.err


def test_a_draft_reads_columns_as_a_person_says(odc: Odc) -> None:
    dates = [f"{day:02}/01/2020" for day in range(1, 13)] * 3
    table = odc.consortium.table(
        1,
        x0=[*dates, *dates[:4]],
        x1=["01/01/2019"] * 40,
        x2=["low", "high", "mid", "mid"] * 10,
        code=["a"] * 30 + ["b"] * 7 + ["c", "d", "e"],
    )
    odc(
        "terms", "draft", table, "--label", "y", "--party", LEAD, "--date", "x0=mm/dd/yyyy", "--duration",
        "x0=x1", "--exclude", "x1", "--ordinal", "x2=low,mid,high", "--other", "code",
    )  # fmt: skip
    content = tomllib.loads((odc.consortium.directory / "terms.toml").read_text())
    duration, order, code = content["table_schema"]["columns"]
    assert (duration["dates"], duration["since"]) == ("mm/dd/yyyy", "x1")
    assert order["levels"] == ["low", "mid", "high"]
    assert (code["levels"], code["other"]) == (["a", "b", "other"], "other")


@pytest.mark.parametrize(
    "wrong",
    [
        ("--latent-dim", "0"),
        ("--latent-dim", "4"),
        ("--encoding", "ignore"),
        ("--out-of-range", "refuse"),
        ("--category", "nothing"),
        ("--label", "nothing"),
        ("--rep-dtype", "i4"),
        ("--date", "x0=yyyy"),
        ("--date", "x0"),
        ("--duration", "x0=nothing"),
        ("--ordinal", "x0=1"),
        ("--other", "nothing"),
    ],
    ids=" ".join,
)
def test_a_draft_with_a_wrong_option_is_refused(odc: Odc, wrong: tuple[str, str]) -> None:
    given = {"--label": "y", "--party": LEAD, wrong[0]: wrong[1]}
    flat = [part for pair in given.items() for part in pair]
    result = odc("terms", "draft", odc.consortium.table(1), *flat)
    assert result.code == 3
    assert result.err.startswith("odc: error: ")


def test_a_draft_can_leave_a_column_out_and_encode_plainly_and_round(odc: Odc) -> None:
    table = odc.consortium.table(1)
    odc(
        "terms", "draft", table, "--label", "y", "--party", LEAD, "--exclude", "x0", "--latent-dim", "2",
        "--encoding", "plain", "--rep-dtype", "i1", "--out", "mine.toml",
    )  # fmt: skip
    content = tomllib.loads((odc.consortium.directory / "mine.toml").read_text())
    assert content["rep_dtype"] == "i1"
    columns = content["table_schema"]["columns"]
    assert [(column["name"], column["kind"]) for column in columns] == [("x1", "numeric"), ("x2", "numeric")]


def test_terms_are_shown_in_words_and_for_machines(odc: Odc) -> None:
    odc.consortium.until_joined().publish()
    assert "This institution sends to the analyst, once:" in odc("terms", "show").out
    assert odc("terms", "show", "--json").json["collaboration_id"] == odc.consortium.id


def test_whoever_signs_unread_terms_is_shown_them_meanwhile(odc: Odc) -> None:
    odc.consortium.until_joined().publish()
    assert "This institution sends to the analyst, once:" in odc("terms", "accept").err
    again = odc("terms", "accept").err
    assert again == f"Readmission ({odc.consortium.id[:8]})\n"  # nothing new to read


def test_a_row_revealing_model_is_warned_of_and_takes_its_own_word(odc: Odc) -> None:
    odc.consortium.until_joined().publish(model={"kind": "svm"})
    shown = odc("terms", "show")
    assert "Warning: row-revealing model" in shown.out
    refused = odc("terms", "accept")
    assert refused.code == 6
    assert "--accept-row-revealing-model" in refused.err
    accepted = odc("terms", "accept", "--accept-row-revealing-model", "--json").json
    assert accepted["accept_row_revealing_model"] is True
    assert f"This text: {accepted['shown_digest']}" in shown.out


def test_a_table_is_held_to_the_terms_before_they_are_signed(odc: Odc) -> None:
    odc.consortium.until_joined().publish()
    found = odc("terms", "check", odc.consortium.table(1), "--json").json
    assert (found["rows"], found["features"], found["misfits"]) == (40, 3, [])
    assert found["signal"]["auc"] > 0.9
    assert found["information"]["sent_bits"] > found["information"]["row_bits"] > 15
    assert "the table fits: 40 rows of 3" in odc("terms", "check", odc.consortium.table(1)).out
    accepted = odc("terms", "accept")  # nobody has read them yet
    assert "This institution sends to the analyst, once:" in accepted.err


def test_every_column_that_does_not_fit_the_terms_is_told_at_once(odc: Odc) -> None:
    odc.consortium.until_joined().publish()
    table = odc.consortium.table(1, x0=["0.1"] * 39 + ["SECRET"], y=["no"] * 39 + ["SECRET"])
    result = odc("terms", "check", table)
    assert result.code == 3
    assert result.out.splitlines() == [
        "column 'x0', data row 40: expected a number",
        "  fix: correct the fields, or add the text that stands for an empty field to missing in the terms",
        "column 'y', data row 40: expected one of the 2 levels in the terms: no, yes",
        "  fix: correct the fields, or add them to the classes of the label in the terms",
    ]
    assert "2 columns do not fit the terms" in result.err


def test_terms_are_signed(odc: Odc) -> None:
    odc.consortium.until_joined().publish()
    result = odc("terms", "accept", "--json")
    assert (result.json["party"], result.json["collaboration_id"]) == (HOSPITAL, odc.consortium.id)


def test_terms_are_rejected_with_a_reason_and_may_be_signed_later(odc: Odc) -> None:
    odc.consortium.until_joined().publish()
    refused = odc("terms", "reject", "--reason", "two\nlines")
    assert (refused.code, "reason" in refused.err) == (3, True)
    rejected = odc("terms", "reject", "--reason", "the range of x0 is too narrow")
    assert rejected.code == 0
    assert "next: odc wait" in rejected.out
    words = "we have rejected these (the range of x0 is too narrow)"
    assert words in odc("status").out
    assert odc("terms", "accept").code == 0
    assert words not in odc("status").out


def test_who_signs_corrected_terms_is_shown_what_differs(odc: Odc) -> None:
    made = odc.consortium.until_joined()
    earlier = made.publish()
    assert "Different from" not in odc("terms", "show").out
    columns = [
        {"kind": "numeric", "name": name, "low": -4, "high": high} for name, high in (("x0", 9), ("x1", 4))
    ]
    schema = {"columns": columns, "label_column": {"name": "y", "classes": ["no", "yes"]}}
    made.publish(table_schema=schema, latent_dim=2, anchor={"kind": "haar", "rows": 2}, replaces=earlier)
    shown = odc("terms", "show")  # the one that was replaced is cancelled, and not asked about
    lines = shown.out.splitlines()
    assert lines[0] == f"Different from {earlier[:8]}, which these terms replace:"
    for line in (
        "  latent_dim: 3 -> 2",
        "  table_schema.columns[x0].high: 4.0 -> 9.0",
        "  gone: table_schema.columns[x2].high = 4.0",
        f"These terms replace those of the collaboration {earlier}, which has ended with that.",
    ):
        assert line in lines
    assert "latent_dim: 3 -> 2" in odc("terms", "show", "--json").json["differences"]
    assert not [line for line in lines if "collaboration_id" in line]
    assert odc("terms", "accept").code == 0


def test_the_earlier_terms_are_fetched_where_nobody_has_read_them(odc: Odc) -> None:
    made = odc.consortium.until_joined()
    earlier = made.publish()
    made.publish(title="Readmission, corrected", replaces=earlier)
    assert 'title: "Readmission" -> "Readmission, corrected"' in odc("terms", "accept").err


def test_a_party_that_is_new_in_corrected_terms_is_told_so(odc: Odc) -> None:
    made = odc.consortium.until_joined()
    earlier = made.publish(parties=[LEAD])
    made.publish(replaces=earlier)
    assert f"We were no party of {earlier[:8]}" in odc("terms", "show").out


def test_terms_that_isolate_a_column_are_warned_of(odc: Odc) -> None:
    """Ranges that are far too wide for all columns but one: the projections then tell that one."""
    columns = [
        {"kind": "numeric", "name": name, "low": -reach, "high": reach}
        for name, reach in (("x0", 400), ("x1", 4), ("x2", 400))
    ]
    odc.consortium.until_joined().publish(
        table_schema={"columns": columns, "label_column": {"name": "y", "classes": ["no", "yes"]}},
        latent_dim=2,
    )
    table = odc.consortium.table(1)
    found = odc("terms", "check", table, "--json").json["isolated"]
    assert (found["column"], found["share"] > 0.99, found["correlation"] > 0.99) == ("x1", True, True)
    words = "warning: under these terms the column x1 has 100% of the variance"
    assert words in odc("terms", "check", table).out
    for session in odc.consortium.sessions:
        session.round(odc.consortium.id).accept()
    odc.consortium.lead_round.create_anchor()
    assert words in odc("prepare", table, "--no-attacks").out


def test_ranges_that_fit_isolate_no_column(odc: Odc) -> None:
    odc.consortium.until_joined().publish()
    assert odc("terms", "check", odc.consortium.table(1), "--json").json["isolated"] is None


def test_the_terms_of_a_collaboration_that_was_given_up_are_not_meant(odc: Odc) -> None:
    odc.consortium.until_accepted()
    end.cancel(odc.consortium.analyst, odc.consortium.id)
    new = odc.consortium.publish(title="Second try")
    shown = odc("terms", "show")
    assert "Second try" in shown.out
    assert shown.err.startswith(f"Second try ({new[:8]})")
    checked = odc("terms", "check", odc.consortium.table(1), "-c", new[:8])
    assert (checked.code, f"Second try ({new[:8]})" in checked.err) == (0, True)


def drafted(odc: Odc, change: tuple[str, str] = ("", "")) -> Path:
    path = odc.consortium.directory / "terms.toml"
    table = odc.consortium.table(1)
    odc("terms", "draft", table, "--label", "y", "--party", LEAD, "--party", HOSPITAL, "--force", home=LEAD)
    path.write_text(path.read_text().replace(*change))
    return path


def test_a_draft_is_checked_against_a_table_before_it_is_published(odc: Odc) -> None:
    path = drafted(odc)
    checked = odc("terms", "check", odc.consortium.table(2), "--terms", path, "--json", home=LEAD)
    assert (checked.code, checked.json["features"], checked.json["misfits"]) == (0, 3, [])
    assert checked.json["never_invited"] == [HOSPITAL]
    (first, *_) = checked.json["columns"]
    assert first["name"] == "x0"
    assert (first["empty"], first["distinct"]) == (0, 40)
    assert first["clipped"] > 0
    said = odc("terms", "check", odc.consortium.table(2), "--terms", path, home=LEAD)
    assert f"`odc consortium invite {HOSPITAL}`" in said.out
    assert "clipped" in said.out


@pytest.mark.parametrize(
    ("change", "line", "said"),
    [
        (('kind = "ranks"', 'kind = "rank"'), "[[table_schema.columns]]", "known are 'numeric', 'ranks'"),
        ((f'"{HOSPITAL}"', '"Hospital A"'), "parties = [", "lower case letters"),
        (('rep_dtype = "i1"', 'rep_dtype = "i2"'), "rep_dtype", "'f2', 'f4'"),
        (("\nlatent_dim = ", "\nlatent_dim = 9"), "latent_dim", ", latent_dim must be at most the 3 encoded"),
        (("rows = 3", "rows = 2"), "[anchor]", ", the anchor needs at least as many rows as the 3"),
        (("\nlatent_dim = ", "\nlatent_dims = "), "latent_dims", "no such field: did you mean 'latent_dim'?"),
        (("\nhold_out = ", "\nhold_uot = "), "hold_uot", "no such field: did you mean 'hold_out'?"),
        (("\nhold_out = ", "\nsomething = "), "something", "there is no such field"),
    ],
)
def test_a_mistake_in_a_draft_has_a_line_and_the_allowed_values(
    odc: Odc, change: tuple[str, str], line: str, said: str
) -> None:
    path = drafted(odc, change)
    number = next(i for i, text in enumerate(path.read_text().splitlines(), 1) if text.startswith(line))
    refused = odc("terms", "check", odc.consortium.table(2), "--terms", path)
    assert refused.code == 3
    assert f"terms.toml: line {number}, " in refused.err
    assert said in refused.err
    assert "^" not in refused.err
    assert "sender's software" not in refused.err


def test_the_profile_counts_what_is_empty_and_what_counts_in_its_place(odc: Odc) -> None:
    columns = [{"kind": "numeric", "name": "x0", "low": -4, "high": 4, "impute": 0, "out_of_range": "clip"}]
    schema = {"columns": columns, "label_column": {"name": "y", "classes": ["no", "yes"]}}
    anchor = {"kind": "haar", "rows": 1}
    odc.consortium.until_joined().publish(table_schema=schema, latent_dim=1, anchor=anchor)
    table = odc.consortium.table(1, x0=["", "-999", *[1.0] * 38])
    (found,) = odc("terms", "check", table, "--json").json["columns"]
    counts = {"empty": 1, "imputed": 1, "clipped": 1, "other": 0, "coded": 0, "distinct": 2}
    assert found == {"name": "x0", **counts}
