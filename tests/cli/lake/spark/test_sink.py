from pathlib import Path

from flintmq import MessageStore
from flintmq.spark.jobs.replay.exactly_once import WriterIds
from tests.cli.conftest import Run


def test_what_is_listed_and_forgotten(run: Run, tmp_path: Path) -> None:
    root = tmp_path / "s"
    with MessageStore(root, dev=True):
        pass
    assert run("spark", "sink", root).out == "no query or replay has put anything\n"
    stuck = {"batch": 3, "files": ["f.arrow"], "log_end": 77, "running": True, "stuck": "a file is missing"}
    WriterIds(str(root)).set("sink one\x1b[31m", stuck)
    WriterIds(str(root)).set("sink two", {"batch": 9, "files": [], "log_end": 5, "running": False, "checkpoint": "/cp"})
    listed = run("spark", "sink", root)
    assert listed.code == 1 and "stuck   " in listed.out and "a file is missing" in listed.out
    assert "done    two  batch 9\n        checkpoint /cp\n" in listed.out and "\x1b" not in listed.out
    [row] = run("spark", "sink", root, "--json").rows
    assert [(giver["state"], giver["batch"]) for giver in row["givers"]] == [("stuck", 3), ("done", 9)]
    gone = run("spark", "sink", root, "--forget", "one\x1b[31m")
    assert gone.code == 0 and "WARNING" in gone.out and "after log offset 77" in gone.out
    assert run("spark", "sink", root).code == 0
    assert run("spark", "sink", root, "--forget", "three").code == 2
    assert run("spark", "sink", tmp_path / "none").code != 0
