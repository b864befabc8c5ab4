"""Mutants in forked processes: which module they are of, what counts as dead, and that nothing of them is left."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from labs.mutants import forked, scores


def test_a_process_that_ends_is_told_by_its_code_and_one_that_does_not_is_ended():
    others = forked.children()
    for code in (0, 1, 3):
        child = os.fork()
        if not child:
            os._exit(code)
        assert forked.wait(child, 10_000, others) == code
    child = os.fork()
    if not child:
        while True:
            time.sleep(1)
    assert forked.wait(child, 5, others) is None
    with pytest.raises(ChildProcessError):
        os.waitpid(child, 0)


def test_only_what_came_after_is_ended():
    """Tests run in a process that has other children: Spark's Java, servers."""
    with subprocess.Popen(["sleep", "60"]) as other:
        others = forked.children()
        assert other.pid in others
        with subprocess.Popen(["sleep", "60"]) as late:
            child = os.fork()
            if not child:
                os._exit(0)
            assert forked.wait(child, 10_000, others) == 0
            assert other.poll() is None and late.pid not in forked.children()
        other.terminate()


def test_a_loop_ends_by_the_time_that_it_takes_of_the_processor():
    others = forked.children()
    child = os.fork()
    if not child:
        forked.spend(0)
        while True:
            pass
    assert forked.wait(child, 100_000, others) == -24


def test_mutants_of_a_module_are_tried_with_its_tests(tmp_path: Path):
    """By its command line, with tests made here: one kills what it looks at, the other looks at nothing."""
    tests = tmp_path / "test_here.py"
    tests.write_text(
        "from flintmq.format import checkpoint\n"
        "def test_decode():\n"
        "    assert checkpoint.decode(bytes(7) + b'\\1' + bytes(4088)).physic_timestamp == 1\n"
        "def test_of_something_else():\n    assert checkpoint.CHECKPOINT\n"
    )
    report = tmp_path / "report.json"
    words = [sys.executable, "-m", "labs.mutants.forked", "format/checkpoint", str(report), str(tests)]
    done = subprocess.run(words, cwd=forked.ROOT, env=scores.environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    outcome = json.loads(report.read_text())
    assert set(outcome) == set(forked.mutated("format/checkpoint").mutant_names)
    reached = {name for name in outcome if name.startswith("x_decode__")}
    assert {outcome[name] for name in outcome if name not in reached} <= {"no test"}
    assert "no test" not in {outcome[name] for name in reached} and "died of 1" in outcome.values()


def test_without_a_mutant_all_tests_must_pass(tmp_path: Path):
    tests = tmp_path / "test_here.py"
    tests.write_text("def test_it():\n    assert 1 == 2\n")
    words = [
        sys.executable,
        "-m",
        "labs.mutants.forked",
        "format/checkpoint",
        str(tmp_path / "r"),
        str(tests),
    ]
    done = subprocess.run(words, cwd=forked.ROOT, env=scores.environment(), capture_output=True, text=True)
    assert done.returncode == forked.BASELINE_FAILED and "without a mutant this fails" in done.stdout
