"""Pictures are well-formed and show the values they are given."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from flintmq.testing.picture import BARS, HEIGHT, WIDTH, spark_line, stacked_areas

SVG = "{http://www.w3.org/2000/svg}"


def points(element: ET.Element) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in element.attrib["points"].split())]


def test_a_line_of_blocks() -> None:
    assert spark_line([0, 5, 10]) == BARS[0] + BARS[3] + BARS[7]
    assert spark_line([]) == ""
    assert spark_line([0, 0]) == BARS[0] * 2


def test_areas_stand_on_one_another() -> None:
    root = ET.fromstring(stacked_areas("A & <B>", ["a", "b", "c"], {"one<": [1, 2, 3], "two": [3, 2, 0]}))
    assert root.tag == SVG + "svg"
    lower, upper = (points(element) for element in root.iter(SVG + "polygon"))
    assert lower[:3] == list(reversed(upper[3:]))
    assert [y for _, y in upper[:2]] == [upper[0][1]] * 2  # 1 + 3 and 2 + 2 are as high
    assert upper[2] == lower[2]
    texts = [element.text for element in root.iter(SVG + "text")]
    assert {"A & <B>", "one<", "two", "a", "b", "c", "0"} <= set(texts)


@pytest.mark.parametrize("top", [0, 1, 7, 99, 12_345, 10**9])
def test_everything_lies_within_the_picture(top: int) -> None:
    root = ET.fromstring(stacked_areas("t", [str(i) for i in range(100)], {"x": [top * i // 99 for i in range(100)]}))
    for element in root.iter(SVG + "polygon"):
        assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points(element))
    ticks = [int(e.text.replace(",", "")) for e in root.iter(SVG + "text") if e.get("text-anchor") == "end" and e.text]
    assert ticks[0] == 0
    assert ticks[-1] >= top
    assert 2 <= len(ticks) <= 7


def test_one_minute_alone() -> None:
    root = ET.fromstring(stacked_areas("t", ["00:00"], {"x": [5]}))
    assert len(list(root.iter(SVG + "polygon"))) == 1
