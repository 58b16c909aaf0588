"""Pages stand alone, say what the values say, and take no text for markup."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from analyst_server.pages.chart import break_even_chart
from analyst_server.pages.elements import exact, ratio, size
from analyst_server.pages.plan import plan_page, plan_text
from analyst_server.pages.predicted import duration
from analyst_server.pages.report import by_party, compared, report_page, report_text, where_it_went
from analyst_server.services.planning import Plan, Scenario, SumsScenario, plan
from analyst_server.services.planning_sums import plan_sums
from analyst_server.services.predicting import predict
from analyst_server.services.report_answers import Report
from metering.explanation import (
    Control,
    Explanation,
    PartyExplanation,
    RoundBytes,
    RoundExplanation,
    as_json,
)
from protocol.messages import PrivacyRecord

PLAN = plan(Scenario(100, 1000, 1000, 784, 100, 25_000_000))
ALIGNMENT = {
    "concordance_gap": 0.05,
    "party_gaps": {"hospital-a": 0.05, "hospital-b": 0.01},
    "span_angles": {"hospital-a": (20.0, 60.0), "hospital-b": (1.0, 2.0)},
}
SVG = "{http://www.w3.org/2000/svg}"


def wire() -> RoundBytes:
    """Two parties, every term of the explanation different."""
    parties = []
    for number, name in enumerate(("hospital-a", "hospital-b")):
        formula = 1000 + number
        uplink = Explanation(
            formula + 30 - 4 + 5, formula_bytes=formula, labels_bytes=30, encoding_bytes=-4, framing_bytes=5
        )
        downlink = Explanation(2000 + 7, formula_bytes=2000, tls_bytes=7)
        anchor = Explanation(64, formula_bytes=400, encoding_bytes=-336)
        parties.append(
            PartyExplanation(name, uplink, downlink, anchor, Control(90, 50, 30, 10), Control(8, 8))
        )
    return as_json(RoundExplanation(tuple(parties), "kernel"))


def report(**changed: Any) -> Report:
    whole: Any = {
        "collaboration_id": "c0" * 16,
        "title": "Readmission",
        "state": "released",
        "failure": None,
        "uplink": "rows",
        "alignment": "isotropic",
        "anchor": {"kind": "haar", "rows": 4},
        "features": 4,
        "latent_dim": 2,
        "downlink": "change-of-basis-and-model",
        "results": {"hold_out_scores": {"accuracy": 0.912}, "alignment": ALIGNMENT},
        "parties": [
            {
                "party": "hospital-a",
                "rows": 30,
                "late_consumer": False,
                "uplink_formula_bytes": 272.0,
                "uplink_payload_bytes": 302,
                "downlink_formula_bytes": 80.0,
                "received_at": 1_800_000_000,
                "privacy": PrivacyRecord(permute_rows=True, drop_below=0.25).model_dump(),
            }
        ],
        "member_scores": [],
        "wire": wire(),
        "history": [],
        **changed,
    }
    found: Report = whole
    return found


class Reader(HTMLParser):
    """The tags, attributes and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


SUMS_PLAN = plan_sums(SumsScenario(5, 30, 256, cohort=True))
PREDICTION = predict(PLAN.scenario, model=None) if isinstance(PLAN.scenario, Scenario) else None
PAGES = {
    "plan": plan_page(PLAN, PREDICTION),
    "plan of sums": plan_page(SUMS_PLAN, None),
    "report": report_page(report()),
}


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (9_999, "10.0 kB"), (99_960, "100 kB"),
     (10_087_136_000, "10.1 GB"), (20e9, "20.0 GB"), (999_499, "999 kB"), (999_500, "1.00 MB"),
     (-4096, "-4.10 kB")],
)  # fmt: skip
def test_a_size_has_three_digits(count: float, said: str) -> None:
    assert size(count) == said


def test_exact_counts_are_grouped_and_ratios_are_short() -> None:
    assert (exact(1234567.0), ratio(0.99893868), ratio(None)) == ("1,234,567", "0.9989", "")


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_loads_nothing_and_runs_nothing(name: str) -> None:
    found = Reader(PAGES[name])
    assert not {"script", "link", "img", "iframe", "object", "embed", "base", "form"} & set(found.tags)
    names = {attribute for attribute, _ in found.attributes}
    assert not {
        attribute for attribute in names if attribute.startswith("on") or attribute in ("src", "href")
    }
    assert "url(" not in PAGES[name]
    assert "@import" not in PAGES[name]
    style = re.search("<style>(.*)</style>", PAGES[name], re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert ("content", f"default-src 'none'; style-src 'sha256-{digest}'") in found.attributes


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_closes_what_it_opens_and_names_its_language(name: str) -> None:
    text = PAGES[name]
    assert ("lang", "en") in Reader(text).attributes
    for tag in ("table", "thead", "tbody", "tr", "th", "td", "main", "figure", "p", "h1", "h2"):
        assert len(re.findall(rf"<{tag}[ >]", text)) == text.count(f"</{tag}>"), tag
    assert text.count("<caption>") == text.count("<table>")


def test_a_title_is_text_and_never_markup() -> None:
    text = report_page(report(title="<script>alert(1)</script>", failure='<b onclick="x">'))
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<b " not in text


def test_the_report_says_what_a_party_did_to_its_rows() -> None:
    words = "rows of which the projection drops less than 0.25 left out; rows permuted"
    assert f"hospital-a: {words}" in report_text(report())
    assert f"hospital-a says of its rows: {words}." in Reader(report_page(report())).texts


def test_the_report_says_who_is_a_late_consumer() -> None:
    late: Any = {**report()["parties"][0], "rows": 0, "late_consumer": True}
    shown = report(parties=[*report()["parties"], late])
    assert [line.endswith("late consumer") for line in report_text(shown).splitlines()[1:3]] == [False, True]
    assert "hospital-a, late consumer" in Reader(report_page(shown)).texts


def test_the_report_says_what_an_institution_has_measured() -> None:
    score = {"rows": 57, "metric": "roc_auc", "together": 0.875, "alone": 0.75}
    gain = {"gain_low": 0.0626, "gain_high": 0.1876}
    scored = report(member_scores=[{"party": "hospital-a", **score, **gain, "received_at": 1}])
    words = (
        "ROC-AUC together 87.5 %, alone 75.0 %, gained +12.5 points (95 % interval +6.3 to +18.8), on 57 rows"
    )
    assert f"hospital-a has measured: {words}" in report_text(scored)
    assert f"hospital-a: {words}." in Reader(report_page(scored)).texts


@pytest.mark.parametrize(
    ("together", "words"),
    [(0.7, "lost 5.0 points"), (0.7496, "gained +0.0 points"), (0.75, "gained +0.0 points")],
)
def test_what_was_lost_is_not_called_a_gain(together: float, words: str) -> None:
    score = {"rows": 57, "metric": "roc_auc", "together": together, "alone": 0.75}
    gain = {"gain_low": -0.1, "gain_high": 0.1}
    scored = report(member_scores=[{"party": "hospital-a", **score, **gain, "received_at": 1}])
    assert f"alone 75.0 %, {words} (95 %" in report_text(scored)


def test_an_institution_of_too_few_rows_has_no_interval() -> None:
    score = {"rows": 9, "metric": "roc_auc", "together": 0.875, "alone": 0.75}
    gain = {"gain_low": -1.0, "gain_high": 1.0}
    scored = report(member_scores=[{"party": "hospital-a", **score, **gain, "received_at": 1}])
    words = "alone 75.0 %, gained +12.5 points (too few rows for an interval), on 9 rows"
    assert words in report_text(scored)
    assert words in report_page(scored)


def test_an_institution_without_a_model_of_its_own_has_gained_nothing_that_it_could_tell() -> None:
    score = {"rows": 1057, "metric": "accuracy", "together": 1.0, "alone": None}
    gain = {"gain_low": None, "gain_high": None}
    scored = report(member_scores=[{"party": "hospital-a", **score, **gain, "received_at": 1}])
    assert "hospital-a has measured: accuracy together 100.0 %, on 1,057 rows" in report_text(scored)


def test_the_report_says_what_the_alignment_found() -> None:
    for text in (report_text(report()), report_page(report())):
        assert "concordance gap: 5.00e-02; furthest from the others: hospital-a" in text


def test_a_round_of_anchor_predictions_is_held_against_its_own_formula() -> None:
    forgetting = report(downlink="anchor-predictions")
    for text in (report_text(forgetting), report_page(forgetting)):
        assert "a k q / 8" in text
        assert "(4)" not in text.replace("(3) to (6)", "")
    assert "(4)" in report_text(report())


def test_the_plan_says_the_figures_of_the_paper() -> None:
    for text in (plan_text(PLAN, None), " ".join(Reader(plan_page(PLAN, None)).texts)):
        for figure in ("10,087,136,000", "10.1 GB", "20.0 GB", "5.04", "0.504"):
            assert figure in text


def test_the_plan_says_what_is_predicted_and_for_which_machine() -> None:
    assert PREDICTION is not None
    for text in (plan_text(PLAN, PREDICTION), " ".join(Reader(plan_page(PLAN, PREDICTION)).texts)):
        for said in (
            "the benchmarks' machine",
            "odc prepare, without attacks",
            "not predicted",
            "MiB",
            "flops",
        ):
            assert said in text
    for text in (plan_text(SUMS_PLAN, None), " ".join(Reader(plan_page(SUMS_PLAN, None)).texts)):
        assert "predicted for rounds of rows alone" in text


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(None, "not predicted"), (0.0123, "0.012 s"), (3.21, "3.2 s"), (119, "120 s"), (121, "2 min"),
     (5000, "83 min"), (7500, "2.1 h"), (4e6, "1,100 h")],
)  # fmt: skip
def test_a_predicted_time_has_two_digits(seconds: float | None, said: str) -> None:
    assert duration(seconds) == said


def test_the_chart_is_an_image_with_a_title_and_a_description() -> None:
    svg = drawing(PLAN)
    assert svg.get("role") == "img"
    labels = (svg.get("aria-labelledby") or "").split()
    assert [svg.find(f"*[@id='{label}']").tag for label in labels] == ["title", "desc"]  # type: ignore[union-attr]
    assert "5.04 rounds" in (svg.findtext("desc") or "")


def drawing(found: Plan) -> ET.Element:
    chart = break_even_chart(found)
    return ET.fromstring(chart[chart.index("<svg") : chart.index("</svg>") + 6])  # noqa: S314  # our own


@pytest.mark.parametrize("share", [1.0, 0.5, 0.1])
def test_the_chart_marks_the_break_even_where_the_lines_cross(share: float) -> None:
    """The circle lies on the line of formula (6) and on that of federated averaging."""
    svg = drawing(plan(Scenario(100, 1000, 1000, 784, 100, 25_000_000, participation=(share,))))
    (circle,) = svg.iter("circle")
    plot = svg.find("g")
    assert plot is not None
    solid = [line for line in plot.findall("line") if line.get("stroke-width") == "2.5"]
    formula, _, averaging = (
        {key: float(line.get(key, "")) for key in ("x1", "y1", "x2", "y2")} for line in solid
    )
    x, y = float(circle.get("cx", "")), float(circle.get("cy", ""))
    assert y == pytest.approx(formula["y1"], abs=0.2)
    slope = (averaging["y2"] - averaging["y1"]) / (averaging["x2"] - averaging["x1"])
    assert averaging["y1"] + slope * (x - averaging["x1"]) == pytest.approx(y, abs=1)


def test_nothing_is_drawn_outside_the_chart() -> None:
    for found in (PLAN, plan(Scenario(2, 10**6, 8, 8, 2, 10, rounds=5)), plan(Scenario(2, 0, 1, 1, 1, 1))):
        svg = drawing(found)
        _, _, width, height = map(float, (svg.get("viewBox") or "").split())
        for line in svg.iter("line"):
            assert all(0 <= float(line.get(key, "")) <= width for key in ("x1", "x2"))
            assert all(0 <= float(line.get(key, "")) <= height + 90 for key in ("y1", "y2"))


def test_the_report_adds_parties_up_and_keeps_the_ratio() -> None:
    rows = {row.what: row for row in compared(wire(), report()["downlink"])}
    assert (rows["uplink"].formula_bytes, rows["uplink"].ours_bytes) == (2001, 2001 + 62)
    assert rows["uplink"].ratio == pytest.approx(2063 / 2001)
    assert (rows["control"].ours_bytes, rows["control"].ratio) == (180, None)
    kinds = ("uplink", "downlink", "anchor", "control", "joining and listing")
    assert sum(rows[kind].ours_bytes for kind in kinds) == rows["the whole round"].ours_bytes
    assert sum(row.ours_bytes for row in by_party(wire())) == rows["the whole round"].ours_bytes


def test_the_report_of_sums_names_their_formula() -> None:
    of_sums = report(uplink="sums", alignment="none")
    for text in (report_text(of_sums), " ".join(Reader(report_page(of_sums)).texts)):
        assert "4 p (p + 1)" in text
        assert "formula (3)" not in text
    assert "4 p (p + 1)" not in report_text(report())


def test_the_lines_of_the_report_add_up_to_what_was_measured() -> None:
    *terms, (words, measured) = where_it_went(wire())
    assert words == "measured"
    for column, total in enumerate(measured):
        assert sum(counts[column] for _, counts in terms) == total


def test_the_report_says_formula_ours_and_ratio() -> None:
    for text in (report_text(report()), " ".join(Reader(report_page(report())).texts)):
        for figure in ("2,001", "2,063", "1.031", "0.912", "hospital-b", "labels"):
            assert figure in text


def test_a_round_nobody_measured_is_reported_without_its_bytes() -> None:
    waiting = report(wire=None, results=None, parties=[], state="enrolling")
    assert report_text(waiting) == "Readmission: enrolling, alignment isotropic, l = 2"
    assert "Nothing was measured yet." in report_page(waiting)


def test_who_counted_is_said() -> None:
    below = report(wire={**wire(), "counter": "transport"})
    assert "TCP_INFO" in report_page(report())
    assert "transport below TLS" in report_page(below)
    assert "counted by the transport" in report_text(below)


def test_scores_of_an_earlier_version_are_shown_with_a_warning() -> None:
    said = "on held-out rows: accuracy 0.912 (of all parties pooled, by an earlier version: may be far"
    assert said in report_text(report())
    assert said in report_page(report())


def test_a_round_too_small_to_score_says_so() -> None:
    results = {"hold_out_scores": None, "alignment": {**ALIGNMENT, "concordance_gap": 0.0}}
    assert "too few to score" in report_page(report(results=results))
