"""Commits: each batch once, whatever dies."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

import flintmq
from flintmq.config.keys import StoreConfig
from flintmq.errors import StoreError, StoreLockedError, UsageError
from flintmq.format.properties import parse_bytes
from flintmq.message import Message
from flintmq.spark.jobs.replay.exactly_once import WriterIds, WriterTail
from flintmq.spark.sink import commit as sink
from flintmq.spark.sink.commit import STAGED, BadFile, commit, discard, stage
from flintmq.spark.sink.options import SinkOptions
from flintmq.spark.sink.query import tag
from flintmq.spark.sink.rows import judge
from flintmq.storage.files.filesystem import REAL
from flintmq.store.append.unique_keys import UniqueKeys
from flintmq.store.message_store import MessageStore
from tests.spark.sink.test_rows import rows
from tests.support.engine import put_messages

CONFIG = StoreConfig.from_keys({"mappedFileSizeCommitLog": 1 << 16, "maxHashSlotNum": 100, "maxIndexNum": 400})


def ready(batch: Any, config: StoreConfig) -> Any:
    """Rows as a task stages them: with unique keys, which are made anew each time."""
    filled, bad = judge(batch, config, (), UniqueKeys(REAL))
    assert not bad
    return filled


def staged(root: Path, *bodies: list[bytes]) -> list[str]:
    """Files of a batch, each of a task."""
    return [stage(str(root), iter([ready(rows(topic=["T"] * len(each), body=each), CONFIG)]))[0] for each in bodies]


def options(root: Path, query: str | None = "q") -> SinkOptions:
    return SinkOptions(str(root), query, None, CONFIG, "5.3.3")


def bodies(root: Path) -> list[bytes]:
    with flintmq.open_store(root) as store:
        return [message.body for message in store.messages()]


def ids(root: Path) -> list[str | None]:
    with flintmq.open_store(root) as store:
        return [message.msg_id for message in store.messages()]


def left(root: Path) -> list[str]:
    return os.listdir(root / STAGED)


def test_a_batch_is_there_once_in_order(tmp_path: Path) -> None:
    commit(options(tmp_path), 0, staged(tmp_path, [b"1", b"2"], [b"3"]))
    commit(options(tmp_path), 0, staged(tmp_path, [b"3"], [b"1", b"2"]))
    commit(options(tmp_path, "other"), 0, staged(tmp_path, [b"4"]))
    commit(options(tmp_path), 1, [])
    commit(options(tmp_path), 1, staged(tmp_path, [b"never"]))
    assert bodies(tmp_path) == [b"1", b"2", b"3", b"4"] and left(tmp_path) == []
    for _ in range(2):
        commit(options(tmp_path, None), None, staged(tmp_path, [b"unnamed"]))
    assert bodies(tmp_path)[4:] == [b"unnamed"] * 2 and left(tmp_path) == []


@pytest.mark.parametrize("stop", [0, 1, 5, 8, 9])
@pytest.mark.parametrize("query", ["q", None])
def test_a_commit_that_died_is_finished_from_its_own_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int, query: str | None
) -> None:
    """Spark computes the batch again, here in another order: what is there counts, and is there once."""
    want = [b"%d" % number for number in range(9)]
    real = sink.put_all

    def dying(store: Any, messages: list[Message], what: Any) -> None:
        if stop:
            real(store, messages[:stop], what)
        raise KeyboardInterrupt

    monkeypatch.setattr(sink, "put_all", dying)
    first = staged(tmp_path, want)
    keys = [
        parse_bytes(m.properties_bytes or b"")["UNIQ_KEY"]
        for each, _ in sink._rows(str(tmp_path), *first)
        for m in each
    ]
    with pytest.raises(KeyboardInterrupt):
        commit(options(tmp_path, query), 3 if query else None, first)
    discard(str(tmp_path), first)  # Spark's abort
    assert left(tmp_path) == first
    monkeypatch.setattr(sink, "put_all", real)
    put_messages(tmp_path, [Message("Foreign", b"between")], CONFIG)
    if query:
        commit(options(tmp_path), 3, staged(tmp_path, want[::-1]))
    else:
        commit(options(tmp_path, "another"), 0, [])
    found, given = bodies(tmp_path), ids(tmp_path)
    assert found.pop(stop) == b"between" and found == want and left(tmp_path) == []
    assert given.pop(stop) not in keys and given == keys, "those that were staged first"


def test_what_was_staged_in_vain_goes(tmp_path: Path) -> None:
    files = staged(tmp_path, [b"1"], [b"2"])
    discard(str(tmp_path), files[:1])
    assert left(tmp_path) == files[1:]
    assert stage(str(tmp_path), iter([])) == ("", 0)

    def failing() -> Any:
        yield ready(rows(topic=["T"], body=[b"x"]), CONFIG)
        raise ValueError

    with pytest.raises(ValueError):
        stage(str(tmp_path), failing())
    assert left(tmp_path) == files[1:]


def test_a_store_that_is_open_refuses(tmp_path: Path) -> None:
    with MessageStore(tmp_path, CONFIG), pytest.raises(StoreLockedError):
        commit(options(tmp_path), 0, [])


# -- rows that the store refuses, and batches that cannot be finished --------------------------------------------------

SMALL_FILES = {"mappedFileSizeCommitLog": 1 << 17, "mappedFileSizeConsumeQueue": 2000}
BIG = bytes(200_000)


def small(root: Path) -> Path:
    """A store whose files are smaller than the configuration that a sink is given says."""
    put_messages(root, [Message("T", b"first")], StoreConfig.from_keys(SMALL_FILES))
    return root


def unlooked(root: Path, *bodies: list[bytes], make: Any = ready) -> list[str]:
    """Files of a batch that were looked at by the rules of another store: with log files of 1 GiB."""
    given = [make(rows(topic=["T"] * len(each), body=each), StoreConfig()) for each in bodies]
    return [stage(str(root), iter([each]))[0] for each in given]


def of(root: Path, query: str | None = "q", **named: Any) -> SinkOptions:
    return SinkOptions(str(root), query, None, StoreConfig(), "5.3.3", **named)


def test_a_refused_row_fails_its_own_commit_and_nobody_elses(tmp_path: Path) -> None:
    root = small(tmp_path / "s")
    for _ in range(3):
        files = unlooked(root, [b"small", BIG, b"after"])
        with pytest.raises(UsageError, match=r"row 1 of staged file .*, topic 'T', queue 0: its record .* 131072"):
            commit(of(root), 0, files)
        discard(str(root), files)
        commit(of(root, None), None, unlooked(root, [b"good"]))
    assert bodies(root) == [b"first", b"good", b"good", b"good"] and left(root) == []
    assert WriterIds(str(root)).of("") == {}
    commit(of(root), 0, unlooked(root, [b"small", b"after"]))
    assert bodies(root)[4:] == [b"small", b"after"]


def begun_by_01(root: Path, query: str, stored: list[bytes], *files: str, batch: int | None = 0) -> None:
    """What 0.1 left behind: a ledger that says that a commit runs, and what it stored of it."""
    with MessageStore(root, StoreConfig.from_keys(SMALL_FILES), unique_keys=False) as store:  # 0.1 gave none
        begin = store.recovered.state.end
        for body in stored:
            store.put(Message("T", body))
    WriterIds(str(root)).set(f"sink {query}", {"batch": batch, "files": list(files), "log_end": begin, "running": True})


@pytest.mark.parametrize("stored", [[], [b"small"], [b"small", b"after", b"after"]])
def test_a_store_that_01_left_stuck_takes_the_batch_anew(tmp_path: Path, stored: list[bytes], caplog: Any) -> None:
    root = small(tmp_path / "s")
    begun_by_01(
        root,
        "q",
        stored,
        *unlooked(root, [b"small", BIG, b"after"], make=lambda batch, config: judge(batch, config)[0]),
    )
    commit(of(root, "other"), 0, unlooked(root, [b"theirs"]))
    assert "batch 0 of q was begun and cannot be finished: " in caplog.text
    caplog.clear()
    for number in (1, 2):
        commit(of(root, "other"), number, unlooked(root, [b"theirs"]))
    assert "cannot be finished" not in caplog.text  # it is told once
    wrong = unlooked(root, [b"another", b"beginning"]) if stored else []
    with pytest.raises(StoreError, match="cannot be finished.*--forget q"):
        commit(of(root), 0 if stored else 1, wrong)
    discard(str(root), wrong)
    commit(of(root), 0, unlooked(root, [b"small", b"after"]))
    commit(of(root), 0, unlooked(root, [b"small", b"after"]))
    found = bodies(root)[1:]
    assert sorted(found) == sorted([b"theirs"] * 3 + (stored if len(stored) > 1 else [b"small", b"after"]))
    assert left(root) == [] and not WriterIds(str(root)).of("sink q")["sink q"]["running"]


@pytest.mark.parametrize("harm", ["missing", "cut short", "expired"])
def test_what_cannot_be_finished_stops_its_own_query_only(
    tmp_path: Path, harm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = small(tmp_path / "s")
    [file] = unlooked(root, [b"a", b"b"])
    begun_by_01(root, "q", [b"a"], file)
    if harm == "missing":
        (root / STAGED / file).unlink()
    elif harm == "cut short":
        os.truncate(root / STAGED / file, 100)
    else:
        monkeypatch.setattr(WriterTail, "expired", "it has expired")
    for _ in range(2):
        commit(of(root, None), None, unlooked(root, [b"theirs"]))
        with pytest.raises(StoreError, match=r"batch 0 of q was begun and cannot be finished: .*flintmq spark sink"):
            commit(of(root), 0, unlooked(root, [b"a", b"b"]))
    assert bodies(root) == [b"first", b"a", b"theirs", b"theirs"]


def test_staged_files_that_a_ledger_names_are_never_swept(tmp_path: Path) -> None:
    """However old they are. Those of attempts of the same query that died go with its next commit."""
    root = small(tmp_path / "s")
    files = unlooked(root, [b"a"], [b"b"], [b"old"])
    os.utime(root / STAGED / files[0], (1, 1))
    os.utime(root / STAGED / files[2], (1, 1))
    begun_by_01(root, "q", [], files[0])
    WriterIds(str(root)).set("sink q", {**WriterIds(str(root)).of("sink q")["sink q"], "stuck": "told"})
    schema = ready(rows(topic=["T"], body=[b"dead"]), StoreConfig())
    dead, foreign = (stage(str(root), iter([schema]), tag(query))[0] for query in ("mine", "theirs"))
    commit(of(root, "mine"), 0, files[1:2])
    assert sorted(left(root)) == sorted([files[0], foreign]) and dead not in left(root)
    commit(of(root), 0, [])
    assert bodies(root) == [b"first", b"b", b"a"]


def test_bad_rows_come_out_once_whatever_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, out = small(tmp_path / "s"), tmp_path / "bad"

    def attempt() -> None:
        with BadFile(str(root), tag("q")) as file:
            file.write('{"reason": "r"}\n')
        given = ready(rows(topic=["T"], body=[b"a"]), StoreConfig())
        commit(of(root, bad_rows=str(out)), 0, [stage(str(root), iter([given]), tag("q"))[0]], [file.name])

    real = sink.sync_folder
    for broken in ("sync_folder", "put_all", "_publish", "_remove"):
        with monkeypatch.context() as patch:
            patch.setattr(sink, broken, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                attempt()
    assert sink.sync_folder is real
    attempt()
    assert bodies(root) == [b"first", b"a"] and left(root) == []
    [file] = out.iterdir()
    assert file.read_text() == '{"reason": "r"}\n' and file.name.startswith("q-") and "-batch0-0.jsonl" in file.name


# -- who writes --------------------------------------------------------------------------------------------------------


def checkpoint(path: Path, query: str) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "metadata").write_text(json.dumps({"id": query}))
    return path


def stream(root: Path, place: str | Path, number: int, body: bytes, query: str | None = None) -> None:
    commit(of(root, None, stream=True, checkpoint=str(place)), number, unlooked(root, [body]), query=query)


def test_a_query_is_the_id_in_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, place = small(tmp_path / "s"), checkpoint(tmp_path / "c p", "one")
    monkeypatch.chdir(tmp_path)
    for number in range(3):
        stream(root, place, number, b"old %d" % number)
    spelled = [place, "c p", f"file:{tmp_path}/c%20p", f"file://{tmp_path}/c%20p", f"{place}/"]
    for other in spelled:
        stream(root, other, 2, b"again")
    place.rename(tmp_path / "moved")
    stream(root, tmp_path / "moved", 2, b"again")
    stream(root, "hdfs://host/cp", 2, b"again", query="one")  # Spark tells it, wherever the checkpoint is
    stream(root, "", 2, b"again", query="one")
    checkpoint(place, "two")  # removed, and begun anew
    for number in range(2):
        stream(root, place, number, b"new %d" % number)
    assert bodies(root)[1:] == [b"old 0", b"old 1", b"old 2", b"new 0", b"new 1"]
    with pytest.raises(UsageError, match="which query.*queryId"):
        stream(root, "hdfs://host/cp", 3, b"nobody's")
    commit(of(root, None, stream=True, checkpoint="hdfs://host/cp"), 3, [])


@pytest.mark.parametrize(
    ("last", "first", "younger", "same"),
    [(5, 6, False, True), (5, 5, False, True), (5, 0, False, False), (5, 0, True, False), (0, 0, False, True),
     (0, 0, True, False), (0, 1, False, True), (0, 1, True, True), (5, 3, True, False)],
)  # fmt: skip
@pytest.mark.parametrize("running", [False, True])
def test_what_01_noted_is_taken_over_by_the_same_query(
    tmp_path: Path, last: int, first: int, younger: bool, same: bool, running: bool
) -> None:
    """By the numbers of batches; where they cannot tell, by which is older, the query or the note."""
    root, place = small(tmp_path / "s"), checkpoint(tmp_path / "cp", "id")
    files = unlooked(root, [b"last"])
    begun_by_01(root, str(place), [] if running else [b"last"], *files, batch=last)
    ledger = WriterIds(str(root))
    value = ledger.of("sink ")[f"sink {place}"]
    if not running:
        ledger.set(f"sink {place}", {**value, "running": False, "files": []})
    now = os.stat(root / "flintmq.puts").st_mtime_ns
    os.utime(place / "metadata", ns=(now, now + 10**9 * (1 if younger else -1)))
    stream(root, f"file:{place}", first, b"next")
    again = same and first == last
    assert bodies(root)[1:] == [b"last"] + ([] if again else [b"next"])
    names = set(WriterIds(str(root)).of("sink "))
    assert names == ({"sink id"} if same else {"sink id", f"sink {place}"})
