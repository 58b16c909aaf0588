"""Charts are well-formed, say what they show, keep to their frame, and take no text for markup."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from pages.charts import Bar, Curve, Interval, bars, calibration, curves, intervals, ticks

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>\"&'"


def drawn(chart: str) -> ET.Element:
    """Return the figure, parsed strictly."""
    return ET.fromstring(str(chart).replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1))  # noqa: S314  # ours


def charts(label: str) -> list[str]:
    return [
        bars(
            label,
            label,
            [(label, [Bar(3, "--ours", label), Bar(0, "--formula", "0 B")])],
            [("--ours", label)],
        ),
        intervals(label, label, [Interval(label, 0.7, 0.6, 0.9, label)], (0.5, 1), lambda at: f"{at}"),
        calibration(label, label, [(0.1, 0.2, 10), (0.9, 0.8, 30)]),
        curves(label, label, [Curve(label, [(0, 0), (1, 1)])], (label, label), diagonal="up"),
    ]


@pytest.mark.parametrize("chart", range(4))
def test_a_text_is_never_markup(chart: int) -> None:
    figure = drawn(charts(HOSTILE)[chart])
    drawn_with = {"svg", "rect", "line", "circle", "text", "polyline"}
    tags = {element.tag.removeprefix(SVG) for element in figure.iter()}
    assert tags <= {"figure", "figcaption", *drawn_with}
    svg = figure.find(f"{SVG}svg")
    assert svg is not None
    assert svg.get("aria-label") == f"{HOSTILE}: {HOSTILE}"
    assert figure.findtext("figcaption") == HOSTILE


def test_the_longest_bar_fills_the_frame_and_the_others_are_in_proportion() -> None:
    figure = drawn(bars("t", "s", [("a", [Bar(10, "--ours", "10")]), ("b", [Bar(5, "--ours", "5")])]))
    widths = [float(rect.get("width", 0)) for rect in figure.iter(f"{SVG}rect")]
    assert widths[1] == pytest.approx(widths[0] / 2, abs=0.1)


def test_values_stand_at_their_place_and_never_outside() -> None:
    rows = [Interval(str(value), value, None, None, "") for value in (0.5, 0.75, 1, 7, -7)]
    figure = drawn(intervals("t", "s", rows, (0.5, 1), str))
    half, middle, one, above, below = (float(dot.get("cx", 0)) for dot in figure.iter(f"{SVG}circle"))
    assert middle == pytest.approx((half + one) / 2, abs=0.1)
    assert (above, below) == (one, half)


def test_nothing_to_draw_is_drawn() -> None:
    assert drawn(bars("t", "s", [])) is not None
    assert drawn(intervals("t", "s", [], (1, 1), str)) is not None
    assert drawn(calibration("t", "s", [])) is not None
    assert drawn(curves("t", "s", [], ("x", "y"))) is not None


def test_a_curve_goes_through_its_points_and_stays_in_its_square() -> None:
    lines = [Curve("all", [(0, 0), (0.5, 1), (1, 1)]), Curve("one", [(0, 0), (1, 1)], is_main=False)]
    figure = drawn(curves("t", "s", lines, ("x", "y")))
    (frame,) = [one for one in figure.iter(f"{SVG}rect") if one.get("fill") == "none"]
    left, top, side = (float(frame.get(name, 0)) for name in ("x", "y", "width"))
    points = [(float(one.get("cx", 0)), float(one.get("cy", 0))) for one in figure.iter(f"{SVG}circle")]
    assert points == [(left, top + side), (left + side / 2, top), (left + side, top)]


@pytest.mark.parametrize("top", [0.003, 1, 7, 10, 999, 12_345_678])
def test_ticks_are_round_and_end_below_the_top(top: float) -> None:
    found = ticks(top)
    assert found[0] == 0
    assert 3 <= len(found) <= 8
    assert top / 2 < found[-1] <= top * (1 + 1e-9)
