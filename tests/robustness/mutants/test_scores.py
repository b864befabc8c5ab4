"""The sums over mutmut's results: what counts as killed, as equivalent, as alive; and that all modules have tests."""

import json
from pathlib import Path

import pytest

from labs.mutants import scores
from labs.mutants.scores import ROOT, Equivalent, Score, equivalents, modules, part_of
from labs.torture import figures


def test_every_module_has_the_tests_that_it_is_tried_with():
    assert len(modules()) == len(set(modules())) > 30
    assert {part_of(module) for module in modules()} == {"format", "storage", "recovery"}
    for module in modules():
        assert (ROOT / "src" / "flintmq" / f"{module}.py").is_file(), module
        assert scores.tests_of(module) and all((ROOT / test).is_file() for test in scores.tests_of(module)), module


def test_every_equivalent_mutant_has_a_module_and_a_reason():
    for one in equivalents():
        assert one.module in modules() and len(one.reason) > 10, one


def test_equivalents_do_not_count_and_survivors_do():
    alive = [
        {"name": "a", "function": "encode", "old": "return 1", "new": "return 2"},
        {"name": "b", "function": "Class.method", "old": 'raise E("x")', "new": "raise E(None)"},
    ]
    given = [Equivalent("format/text", "encode", "return 1", r"return \d", "because of the numbers")]
    one = scores.score("format/text", {"mutants": 11, "survivors": alive}, given)
    assert (one.mutants, [x["name"] for x in one.alive], one.equivalent, one.percent) == (11, ["b"], 1, 90.0)
    assert scores.score("format/record", {"mutants": 11, "survivors": alive}, given).equivalent == 0, "another module's"
    assert Score(1, [], 1).percent == 100.0


def test_each_module_has_a_row_and_the_page_names_those_with_survivors():
    lives = {"name": "b", "function": "f", "old": "", "new": ""}
    found = scores.series({"format/text": Score(10, [lives], 0), "format/record": Score(40, [], 2)}, [])
    assert found.rows == [
        ["format/text", "format", 10, 9, 0, 1, 90.0],
        ["format/record", "format", 40, 38, 2, 0, 100.0],
    ]
    assert found.note == "Some are alive in `format/text`."


def test_modules_that_changed_since_are_named_and_not_summed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    page, kept = tmp_path / "page.md", tmp_path / "kept.json"
    page.write_text("<!-- mutmut: begin -->\nold\n<!-- mutmut: end -->\n")
    of = scores.fingerprint("format/text")
    results = {"format/text": of | {"mutants": 7, "survivors": []}}
    results["format/record"] = {"source": "another", "tests": "", "mutants": 99, "survivors": []}
    kept.write_text(json.dumps(results))
    monkeypatch.setattr(scores, "PAGE", page)
    monkeypatch.setattr(scores, "KEPT", kept)
    monkeypatch.setattr(figures, "LABS", tmp_path)
    figures.place("mutmut").parent.mkdir(parents=True)
    assert scores.main(["--write", "format/text", "format/record"]) == 0
    assert "format/record" not in capsys.readouterr().out
    text = page.read_text()
    assert "\n7 mutants, 7 killed, 0 equivalent, 0 alive. " in text
    assert "Not in the sums, as they changed since they were tried: `format/record`.\n<!--" in text
    assert scores.main(["--write", "format/text"]) == 0
    assert "Not in the sums" not in page.read_text()


def test_a_module_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        scores.main(["format/nothing"])
    assert ended.value.code == 2 and "no module format/nothing" in capsys.readouterr().err
