"""`flintmq spark diff` of two stores says what `flintmq diff` says."""

from pathlib import Path

import pytest

from flintmq import Message, MessageStore
from tests.cli.conftest import Run


@pytest.mark.spark
def test_two_stores(run: Run, tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    for folder, count in ((a, 5), (b, 4)):
        with MessageStore(folder) as store:
            for number in range(count):
                store.put(Message("Orders", b"%d" % number, keys=f"k{number}", born_timestamp=1_700_000_000_000))
    for words in ((), ("--by", "message"), ("--json",)):
        here, there = run("diff", a, b, *words), run("spark", "diff", a, b, *words, "--master", "local[2]")
        assert there.out == here.out and there.code == here.code == 1
    assert "only-in-a" in run("diff", a, b, "--by", "message").out
    assert run("spark", "diff", a, a).code == run("diff", a, a).code == 2
    missing = run("spark", "diff", a, tmp_path / "missing")
    assert missing.code == run("diff", a, tmp_path / "missing").code != 0 and missing.err.count("\n") == 1


def test_what_is_wrong_is_said_before_spark_starts(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flintmq.cli.lake.spark.diff.spark_job", None)
    with MessageStore(tmp_path / "a"):
        pass
    for other, text in ((tmp_path / "a", "are one store"), (tmp_path / "missing", "does not exist")):
        refused = run("spark", "diff", tmp_path / "a", other)
        assert refused.code == 2 and text in refused.err
    (tmp_path / "table" / "_delta_log").mkdir(parents=True)
    for words in (("diff",), ("spark", "diff")):
        refused = run(*words, tmp_path / "table", tmp_path / "a")
        assert refused.code == 2 and "is a table of exports; give its store first" in refused.err
