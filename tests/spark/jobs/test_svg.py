"""Plots are well-formed, hold what they should, and let nothing through."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from flintmq.spark.jobs import svg

HOSTILE = "<script>alert('x')</script>&\""


def test_stacked_columns_are_as_high_as_their_values() -> None:
    plot = ET.fromstring(svg.stacked("t", ["a", "b"], {"one": [1, 0], "two": [3, 2]}))
    boxes = [box for box in plot.iter("rect") if (box.get("class") or "").startswith("f")]
    heights = [(box.get("class"), float(box.get("height") or 0)) for box in boxes]
    unit = heights[0][1]
    assert [name for name, _ in heights] == ["f0", "f1", "f1"]
    assert [height / unit for _, height in heights] == pytest.approx([1, 3, 2], rel=0.01)
    titles = [title.text for title in plot.iter("title")]
    assert titles == ["a\none: 1\ntwo: 3\nall: 4", "b\ntwo: 2\nall: 2"]


def test_lines_have_gaps() -> None:
    plot = ET.fromstring(svg.lines("t", list("abcde"), {"x": [1.0, 2.0, None, 5.0, None]}))
    assert len(list(plot.iter("polyline"))) == 1 and len(list(plot.iter("circle"))) == 1


@pytest.mark.parametrize("labels", [[], ["a"], [str(i) for i in range(500)]])
def test_any_number_of_columns(labels: list[str]) -> None:
    ET.fromstring(svg.stacked("t", labels, {"x": [0.0] * len(labels)}))
    ET.fromstring(svg.lines("t", labels, {"x": [None] * len(labels)}))


def test_texts_are_escaped() -> None:
    plot = svg.stacked(HOSTILE, [HOSTILE], {HOSTILE: [1.0]})
    for text in (plot, svg.legend([HOSTILE]), svg.alone(HOSTILE, plot, [HOSTILE])):
        assert "<script" not in text
    ET.fromstring(svg.alone(HOSTILE, plot, [HOSTILE]))


def test_steps_reach_the_top_in_round_numbers() -> None:
    assert svg.steps(7) == [0, 2, 4, 6, 8]
    assert svg.steps(0.03) == [0, 0.01, 0.02, 0.03]
    for top in (0, 1e-9, 1, 99, 100, 101, 12345.6, 1e15):
        found = svg.steps(top)
        assert found[-1] >= top and 2 <= len(found) <= 7


def test_short_numbers_and_times() -> None:
    assert [svg.short(value) for value in (0, 950, 1500, 2e7, 3e9)] == ["0", "950", "1.5k", "20M", "3G"]
    assert svg.clock([0, 500], 500) == ["00:00:00.000", "00:00:00.500"]
    assert svg.clock([0, 3_600_000], 3_600_000) == ["00:00", "01:00"]
    assert svg.clock([0, 30 * 86_400_000], 86_400_000) == ["1970-01-01", "1970-01-31"]
