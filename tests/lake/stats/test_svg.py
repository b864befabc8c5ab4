"""Plots are well-formed, hold what they should, and let nothing through."""

import itertools
import xml.etree.ElementTree as ET

import pytest

from flintmq.lake.stats import svg

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
    document = svg.document(HOSTILE, plot, [HOSTILE])
    for text in (plot, document):
        assert "<script" not in text and "&lt;script" in text
    assert [each.text for each in ET.fromstring(document).iter() if each.text == HOSTILE]


def test_steps_reach_the_top_in_round_numbers() -> None:
    assert svg.steps(7) == [0, 2, 4, 6, 8]
    assert svg.steps(0.03) == [0, 0.01, 0.02, 0.03]
    for top in (0, 1e-9, 1, 99, 100, 101, 12345.6, 1e15):
        found = svg.steps(top)
        assert found[-1] >= top and 2 <= len(found) <= 7


def test_short_numbers_and_times() -> None:
    assert [svg.short(value) for value in (0, 950, 1500, 2e7, 3e9)] == ["0", "950", "1.5k", "20M", "3G"]


@pytest.mark.parametrize(
    ("step", "count", "first", "last", "about"),
    [
        (500, 3, "00.0", "01.0", "seconds of 1970-01-01 00:00 (UTC)"),
        (25, 3, "00.000", "00.050", "seconds of 1970-01-01 00:00 (UTC)"),
        (1000, 60, "00", "59", "seconds of 1970-01-01 00:00 (UTC)"),
        (1000, 61, "00:00", "01:00", "minutes:seconds of 1970-01-01, 00 h (UTC)"),
        (500, 121, "00:00.0", "01:00.0", "minutes:seconds of 1970-01-01, 00 h (UTC)"),
        (30_000, 121, "00:00:00", "01:00:00", "time of 1970-01-01 (UTC)"),
        (3_600_000, 2, "00:00", "01:00", "time of 1970-01-01 (UTC)"),
        (3_600_000, 25, "00:00", "00:00", "time, from 1970-01-01 00:00 on (UTC)"),
        (3_600_000, 49, "01 Jan 00:00", "03 Jan 00:00", "from 1970-01-01 on (UTC)"),
        (86_400_000, 31, "1970-01-01", "1970-01-31", "days (UTC)"),
    ],
)
def test_times_leave_out_what_all_share(step: int, count: int, first: str, last: str, about: str) -> None:
    times = svg.clock([step * i for i in range(count)], step)
    assert (times.labels[0], times.labels[-1], times.about) == (first, last, about)
    assert times.full[0].startswith("1970-01-01 00:00:00") and len(set(times.full)) == count


def test_no_times() -> None:
    assert svg.clock([], 1000) == svg.TimeAxis([], [], "")


def test_bytes_are_told_in_one_system() -> None:
    assert [svg.scale_of_bytes(top)[1] for top in (0, 1023, 1024, 1 << 20, 5 << 30, 1 << 60)] == [
        "B", "B", "KiB", "MiB", "GiB", "TiB"
    ]  # fmt: skip


@pytest.mark.parametrize("frame", [svg.WIDE, svg.NARROW])
@pytest.mark.parametrize("label", ["43.12", "23:59:59", "1970-01-31", "16 ms", "1,007 KiB", "x" * 40])
@pytest.mark.parametrize("count", [1, 4, 8, 20, 120])
def test_labels_are_neither_cut_nor_on_each_other(frame: svg.Frame, label: str, count: int) -> None:
    plot = ET.fromstring(svg.stacked("t", [label] * count, {"x": [1.0] * count}, frame=frame))
    half = svg.LETTER * len(label) / 2
    places = [float(text.get("x") or 0) for text in plot.iter("text") if text.get("text-anchor") == "middle"]
    assert places and places[-1] + half <= frame.width
    assert all(second - first >= 2 * half for first, second in itertools.pairwise(places))
