"""Findings: kept up to a bound, counted beyond it, never long."""

import pytest

from flintmq.forensics.verify.codes import DEFECTS
from flintmq.forensics.verify.findings import KEPT_DEFECTS, KEPT_NOTES, TEXT_LIMIT, Findings


def test_a_defect_has_its_codes_cost():
    found = Findings()
    found.defect("log-gap", "/f", 3, expected="a", found="b")
    found.defect("log-gap", "/f", None, expected="a", found="b")
    assert [defect.cost for defect in found.defects] == 2 * [DEFECTS["log-gap"].cost]
    assert (found.defect_count, found.defect_counts) == (2, {"log-gap": 2})


def test_unknown_codes_are_errors_of_ours():
    with pytest.raises(KeyError):
        Findings().defect("no-such-code", "/f", 0, expected="", found="")
    with pytest.raises(AssertionError):
        Findings().note("no-such-code", "")


def test_what_is_kept_is_bounded():
    found = Findings()
    for number in range(KEPT_DEFECTS + 5):
        found.defect("unit-wrong", "/f", number, expected="e", found="f")
    for number in range(KEPT_NOTES + 5):
        found.note("abort", str(number))
    assert (len(found.defects), found.defect_count) == (KEPT_DEFECTS, KEPT_DEFECTS + 5)
    assert (len(found.notes), found.note_counts["abort"]) == (KEPT_NOTES, KEPT_NOTES + 5)


def test_texts_are_cut():
    found = Findings()
    found.defect("unit-wrong", "/f", 0, expected="e" * 1000, found="f" * 1000)
    assert {len(found.defects[0].expected), len(found.defects[0].found)} == {TEXT_LIMIT}
    found.note("abort", "x" * TEXT_LIMIT)
    assert found.notes[0].text == "x" * TEXT_LIMIT
