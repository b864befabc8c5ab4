import json
from pathlib import Path

from flintmq import Message, MessageStore
from flintmq.storage.files.filesystem import REAL
from flintmq.store.layout import followed
from tests.cli.conftest import Run
from tests.compat.stores import Golden
from tests.support.makers import hurt_body


def stale(golden, tmp_path: Path) -> tuple[Golden, Path]:  # type: ignore[no-untyped-def]
    """The golden store with a stale tail, and a copy of it to be recovered."""
    store = golden("stale")
    return store, store.copy(tmp_path)


def test_a_dry_run_says_what_would_be_cut_and_writes_nothing(run: Run, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store, copy = stale(golden, tmp_path)
    before = sorted(path.name for path in copy.rglob("*"))
    result = run("recover", copy, "--dry-run", *store.sets)
    assert result.out.splitlines() == [
        "log ends  at offset 37575 (stale tail)",
        "decision  the last stop was clean",
        "decision  4 records after the log's end would be copied to quarantine/ and truncated",
    ]
    assert sorted(path.name for path in copy.rglob("*")) == before and result.code == 0


def test_a_dry_run_names_files_that_would_go(run: Run, tmp_path: Path) -> None:
    """The file that a crashed store had made ahead, and one behind a log that is cut."""
    root = tmp_path / "s"
    with MessageStore(root, config={"mappedFileSizeCommitLog": 4096}) as store:
        store.put_many([Message("T", bytes(500))] * 5)
    (root / "abort").write_bytes(b"1")
    spare = root / "commitlog" / f"{4096:020d}"
    spare.write_bytes(bytes(4096))
    words = ("recover", root, "--dry-run", "--json", "--set", "mappedFileSizeCommitLog=4096")
    told = f"{spare}, which holds nothing yet (it was made ahead), would be removed"
    assert json.loads(run(*words).out)["decisions"][-1] == told
    spare.write_bytes(bytes(4000) + b"x" * 96)
    assert (
        json.loads(run(*words).out)["decisions"][-1]
        == f"{spare}, which holds bytes after the log's end, would be removed"
    )
    assert spare.exists()


def test_a_dry_run_of_a_copy_says_what_its_start_does(run: Run, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Its master sends again what is cut, and the transfer goes on in the empty files."""
    store, copy = stale(golden, tmp_path)
    last = max((copy / "commitlog").iterdir())
    size = last.stat().st_size
    followed.write(str(copy), followed.Followed("127.0.0.1:1", 0, size), REAL)
    (copy / "abort").write_bytes(b"1")
    spare = copy / "commitlog" / f"{int(last.name) + size:020d}"
    spare.write_bytes(bytes(size))
    told = run("recover", copy, "--dry-run", *store.sets).out
    done = run("recover", copy, *store.sets, "--json")
    assert f"log ends  at offset {json.loads(done.out)['end']} " in told
    assert "quarantine" not in told and "would be removed" not in told
    assert "records after the log's end would be truncated; they come again from the master" in told
    assert not (copy / "quarantine").exists() and not spare.exists(), "a clean stop removes it"


def test_recovering_cuts_the_tail_for_good(run: Run, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store, copy = stale(golden, tmp_path)
    result = run("recover", copy, "--json", *store.sets)
    found = json.loads(result.out)
    assert (result.code, found["end"], found["verdict"]) == (0, 37575, "stale tail")
    assert len(list((copy / "quarantine").iterdir())) >= 4
    verified = run("verify", copy, *store.sets)
    assert verified.code == 0 and "no defects" in verified.out
    rows = [json.loads(line)["physical_offset"] for line in run("scan", copy, "--json").out.splitlines()]
    assert rows == [row["physical_offset"] for row in store.rows]
    assert "end of the log" in run("recover", copy, *store.sets).out


def test_damage_is_refused_and_nothing_is_touched(run: Run, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store = golden("basic")
    copy = store.copy(tmp_path)
    row = store.rows[-40]
    file, _ = hurt_body(copy, row["physical_offset"])
    before = {path: path.stat().st_mtime_ns for path in copy.rglob("*") if path.is_file() and path.name != "lock"}
    for flags in ((), ("--dry-run",)):
        result = run("recover", copy, *store.sets, *flags)
        if flags:  # tells where the log ends; damage in the middle is verify's matter
            continue
        assert result.code == 1 and file.name in result.err
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_what_is_no_store_is_not_made_one(run: Run, tmp_path: Path) -> None:
    assert run("recover", tmp_path / "nothing").code == 2
    assert not (tmp_path / "nothing").exists()


def test_a_log_that_is_not_there_is_told_and_opens_by_a_word(run: Run, tmp_path: Path) -> None:
    """Its disk is not mounted. A new message is not taken for one that was consumed."""
    root = tmp_path / "s"
    with MessageStore(root, dev=True) as store:
        store.put_many([Message("T", b"x")] * 3)
        store.wait_dispatched(60)
        store.commit_offset("g", "T", 0, 3)
    (root / "commitlog").rename(tmp_path / "unmounted")
    for there in (False, True):
        for words in (("--dry-run",), ()):
            result = run("recover", root, *words)
            assert result.code == 1 and "commitlog" in result.err and "--accept-lost-log" in result.err
            assert len(result.err.splitlines()) == 1 and result.out == ""
        assert (root / "commitlog").exists() == there
        (root / "commitlog").mkdir(exist_ok=True)
    told = run("recover", root, "--dry-run", "--accept-lost-log")
    assert told.code == 0 and "accepted as lost" in told.out
    assert run("recover", root, "--accept-lost-log").code == 0
    with MessageStore(root, dev=True) as store:
        assert (store.consumer_offset("g", "T", 0), store.put(Message("T", b"y")).queue_offset) == (0, 0)
    assert run("recover", root).code == 0


def test_the_word_makes_no_store_where_none_is(run: Run, tmp_path: Path) -> None:
    assert run("recover", tmp_path, "--accept-lost-log").code == 2
    assert not list(tmp_path.iterdir())
