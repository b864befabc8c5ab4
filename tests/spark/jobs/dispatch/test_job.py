"""A dispatch in rounds gives the bytes of a local rebuild, and of Java, wherever a round ends."""

import shutil
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import ConfigError, CorruptStoreError, FlintError, StoreLockedError, UsageError
from flintmq.forensics.rebuild import rebuild
from flintmq.format import checkpoint
from flintmq.message import Message
from flintmq.spark.jobs.dispatch import job
from flintmq.spark.jobs.dispatch.job import dispatch
from flintmq.storage.files.dispatch_lock import DispatchLock, at_rest
from flintmq.store.commitlog.end_of_log import read_facts
from flintmq.store.view import open_store
from tests.compat.stores import Golden
from tests.robustness.hostile.test_links import BATCH, LINKS, content, linked, sound  # noqa: F401 - a fixture
from tests.spark.jobs.dispatch.dispatching import check_rebuilt, derived, differing, tasks_as_calls
from tests.support.engine import KEYS, open_small, put_all, stored, units
from tests.support.makers import hurt_body

CONFIG = StoreConfig.from_keys(KEYS | BATCH)


@pytest.fixture(autouse=True)
def in_process(monkeypatch):
    tasks_as_calls(monkeypatch)


def settings(store: Golden) -> tuple[StoreConfig, str]:
    return StoreConfig.from_keys(store.config), store.expect.get("rebuild", ["", "5.3.3"])[1]


def run(root: Path, into: Path, config: StoreConfig | None = None, peer: str = "5.3.3", **rest):
    return dispatch(None, str(root), str(into), config, peer, once=True, **rest)


@pytest.mark.parametrize(("ranges", "rounds_of"), [(1, 1 << 30), (4, 1)])
def test_golden_stores_come_out_as_a_rebuild_makes_them(golden_store, tmp_path, monkeypatch, ranges, rounds_of):
    tasks_as_calls(monkeypatch, ranges)
    config, peer = settings(golden_store)
    made = run(golden_store.path, tmp_path / "into", config, peer, max_bytes=rounds_of)
    expected = rebuild(str(golden_store.path), str(tmp_path / "local"), config, peer)
    assert differing(tmp_path / "into", tmp_path / "local") == []
    assert (made.records, made.units, made.keys, made.queues, made.index_files) == (
        expected.records, expected.units, expected.keys, expected.queues, expected.index_files,
    )  # fmt: skip
    assert made.rounds >= ranges // 2 and made.log_bytes == expected.log_bytes
    # Java's own bytes, where its files have nothing that the log alone does not give.
    exact = golden_store.expect.get
    if exact("consumequeue", "exact") == "exact":
        for kind in ("consumequeue", "consumequeue_ext"):
            assert _below(tmp_path / "into", kind) == _below(golden_store.path, kind), kind
    if exact("index", "exact") == "exact":  # RocketMQ names index files by the clock
        ours, javas = _below(tmp_path / "into", "index"), _below(golden_store.path, "index")
        assert list(ours.values()) == list(javas.values())


@pytest.mark.parametrize("name", ["basic", "rolled", "cqext"])
def test_a_log_on_object_storage(golden, objects, tmp_path, monkeypatch, name):
    tasks_as_calls(monkeypatch, 3)
    store = golden(name)
    config, peer = settings(store)
    url = objects.put(store.path, f"dispatch/{name}")
    there = StoreConfig.from_keys({**store.config, **objects.keys})
    made = dispatch(None, url, str(tmp_path / "into"), there, peer, once=True, max_bytes=1)
    rebuild(str(store.path), str(tmp_path / "local"), config, peer)
    assert differing(tmp_path / "into", tmp_path / "local") == [] and made.rounds > 1


def test_no_link_below_the_directory_is_followed(sound, tmp_path, monkeypatch):  # noqa: F811
    """Each link of the engine's table that a dispatch could meet; a round before made all that is there."""
    tasks_as_calls(monkeypatch, twice=False)
    root, made = tmp_path / "store", tmp_path / "made"
    shutil.copytree(sound, root)
    run(root, made, CONFIG)
    with open_small(root, enableConsumeQueueExt="true") as store:
        put_all(store, 40, 60, size=100)
        store.put_batch([Message("B", b"x"), Message("B", b"y")])
    told = {}
    for number, link in enumerate(["", *(link for link in LINKS if "queue" in link or "index" in link)]):
        into, victim = tmp_path / str(number) / "into", tmp_path / str(number) / "victim"
        shutil.copytree(made, into)
        if link:
            linked(link, into, victim)
        before = content(victim) if link else None
        try:
            run(root, into, CONFIG)
        except (FlintError, OSError) as error:
            told[link] = str(error)
        assert not link or content(victim) == before, link
    assert "" not in told and len(told) >= 6, told
    assert all("link" in text and "\n" not in text for text in told.values()), told


def _below(root: Path, kind: str) -> dict[str, bytes]:
    return {name: data for name, data in derived(root).items() if name.startswith(kind + "/")}


@pytest.mark.parametrize("items", [2, 3, 7, 50])
def test_index_files_end_anywhere(golden, tmp_path, monkeypatch, items):
    """In the middle of rounds and of records; the last one may be exactly full, and gets an empty one behind it."""
    store = golden("flags")
    config = StoreConfig.from_keys({**store.config, "maxIndexNum": items, "maxHashSlotNum": 5})
    root = store.copy(tmp_path, "index")
    tasks_as_calls(monkeypatch, 9)
    rebuild(str(root), str(tmp_path / "local"), config)
    for part in (1, 4, 99):  # rounds until the job is stopped; the next run does the rest
        stop, into = threading.Event(), tmp_path / f"into{part}"

        def count(done, part=part, stop=stop):
            if done.rounds >= part:
                stop.set()

        run(root, into, config, max_bytes=1, stop=stop, on_round=count)
        run(root, into, config, max_bytes=1)
        assert differing(into, tmp_path / "local") == []


def test_a_store_that_is_written_meanwhile(tmp_path, monkeypatch):
    """An engine with dispatch="external" writes, the job dispatches into the store itself, readers use its queues."""
    tasks_as_calls(monkeypatch, 2)
    root, stop = tmp_path / "store", threading.Event()
    failed: list[BaseException] = []
    config = StoreConfig.from_keys(KEYS)

    def follow():
        try:
            dispatch(None, str(root), str(root), config, interval_s=0.01, stop=stop)
        except BaseException as error:
            failed.append(error)

    with open_small(root, dispatch="external") as store:
        thread = threading.Thread(target=follow)
        thread.start()
        for n in range(12):
            put_all(store, 25, 25 * n, queue_id=n % 3)
        stop.set()
        thread.join(60)
        assert failed == [] and not thread.is_alive()
    with open_store(root, set=KEYS) as view:
        for queue in range(3):
            bodies = [view.get("T", queue, n).body[:6] for n in range(100)]
            assert bodies == [b"%06d" % n for n in range(300) if n // 25 % 3 == queue]
        assert [m.queue_offset for m in view.query("T", "k299")] == [99]
    check_rebuilt(root, root, tmp_path / "local", config)


def test_a_round_that_dies_amid_an_index_file_makes_it_anew(golden, tmp_path, monkeypatch):
    """A file with keys cannot be gone on with twice: the second attempt says so."""
    store = golden("basic")
    config, peer = settings(store)
    tasks_as_calls(monkeypatch, 12, twice=True)
    made = run(store.path, tmp_path / "into", config, peer, max_bytes=1)
    assert made.rounds > 8
    check_rebuilt(store.path, tmp_path / "into", tmp_path / "local", config, peer)


def test_what_others_made_is_not_touched(golden, tmp_path):
    store = golden("basic")
    config, peer = settings(store)
    copy = store.copy(tmp_path)
    before = derived(copy)
    with pytest.raises(UsageError, match="consumequeue, index exist there and were not made by dispatch"):
        run(copy, copy, config, peer)
    with pytest.raises(UsageError, match="is another store"):
        run(store.path, copy, config, peer)
    assert derived(copy) == before
    run(copy, copy, config, peer, anew=True)
    check_rebuilt(copy, copy, tmp_path / "local", config, peer)


def test_one_dispatcher_at_a_time(golden, tmp_path):
    (tmp_path / "into").mkdir()
    lock = DispatchLock(str(tmp_path / "into"))
    with pytest.raises(StoreLockedError, match=r"into: process \d+ on .* dispatches into it; stop that one"):
        run(golden("basic").path, tmp_path / "into")
    lock.release()
    run(golden("basic").path, tmp_path / "into", *settings(golden("basic")))


def test_a_store_that_dispatches_itself_is_refused(tmp_path):
    with open_small(tmp_path / "store") as store:
        put_all(store, 20)
        with pytest.raises(StoreLockedError, match='dispatches itself; open it with dispatch="external"'):
            run(tmp_path / "store", tmp_path / "store", anew=True)
        assert store.wait_dispatched(60)
        run(tmp_path / "store", tmp_path / "into", StoreConfig.from_keys(KEYS))
    check_rebuilt(tmp_path / "store", tmp_path / "into", tmp_path / "local", StoreConfig.from_keys(KEYS))


def test_an_engine_that_dispatches_waits_for_the_job_to_end(tmp_path):
    stored(tmp_path, 3, dispatch="external")
    lock = DispatchLock(str(tmp_path))
    with pytest.raises(StoreLockedError, match='writes its queues and index; stop that one, or open with dispatch="ex'):
        open_small(tmp_path)
    open_small(tmp_path, dispatch="external").close()
    lock.release()
    open_small(tmp_path).close()


def test_the_engine_goes_on_where_the_job_ended_and_the_job_again(tmp_path, monkeypatch):
    """Turns of both on one store: what the other one wrote behind the committed offset is written again, the same."""
    tasks_as_calls(monkeypatch, 2)
    root, config = tmp_path / "store", StoreConfig.from_keys(KEYS)
    for turn in range(3):
        stored(root, 40, 80 * turn, dispatch="external")
        run(root, root, config)
        with open_small(root) as store:
            assert store.get("T", 0, 80 * turn + 39).messages[0].body[:6] == b"%06d" % (80 * turn + 39)
            put_all(store, 40, 80 * turn + 40)
            assert store.wait_dispatched(60)
    run(root, root, config)
    check_rebuilt(root, root, tmp_path / "local", config)


def test_damage_is_named_and_nothing_is_half_done(golden, tmp_path, monkeypatch):
    store = golden("basic")
    config, peer = settings(store)
    path, into = store.copy(tmp_path), tmp_path / "into"
    row = next(row for row in store.rows[500:] if row["body_length"] > 8)
    file, position = hurt_body(path, row["physical_offset"])
    tasks_as_calls(monkeypatch, 12)
    for _ in range(2):
        with pytest.raises(CorruptStoreError, match=f"{file.name}, position {position}"):
            run(path, into, config, peer, max_bytes=1)
    committed = derived(into)
    hurt_body(path, row["physical_offset"])
    assert committed.keys() == derived(into).keys()
    run(path, into, config, peer)
    check_rebuilt(path, into, tmp_path / "local", config, peer)


def test_another_log_is_refused(tmp_path):
    config = StoreConfig.from_keys(KEYS)
    for name, count in (("one", 30), ("two", 40), ("short", 10)):
        stored(tmp_path / name, count, topic=name)
    run(tmp_path / "one", tmp_path / "into", config)
    for name in ("two", "short"):  # a file of the shorter log reaches as far, so there is room for the record
        with pytest.raises(
            UsageError, match=r"not the log that .* was dispatched from up to offset .* is another record .* or none: "
        ):
            run(tmp_path / name, tmp_path / "into", config)
    run(tmp_path / "two", tmp_path / "into", config, anew=True)
    check_rebuilt(tmp_path / "two", tmp_path / "into", tmp_path / "local", config)


def test_another_shape_is_refused(golden, tmp_path):
    store = golden("basic")
    config, peer = settings(store)
    root = store.copy(tmp_path, "index")  # which would show the number, too
    run(root, tmp_path / "into", config, peer)
    with pytest.raises(ConfigError, match="was made with peer 5.3.3, not 5.4.0; give the same, or --anew"):
        run(root, tmp_path / "into", config, "5.4.0")
    with pytest.raises(ConfigError, match="was made with maxIndexNum 2000, not 7"):
        run(root, tmp_path / "into", config.with_keys({"maxIndexNum": 7}), peer)
    run(root, tmp_path / "into")  # what is there tells


def test_the_beginning_of_the_log_may_go(tmp_path, monkeypatch):
    """Queue and index files follow as the engine lets them; what went before it was dispatched is told."""
    tasks_as_calls(monkeypatch, 3)
    root, into, config = tmp_path / "store", tmp_path / "into", StoreConfig.from_keys(KEYS)
    with open_small(root, dispatch="external") as store:
        put_all(store, 200)
        run(root, into, config)
        assert len(derived(into)) > 8
        logs = sorted((root / "commitlog").iterdir())
        for log in logs[: len(logs) // 2]:
            log.unlink()
        begin = int(logs[len(logs) // 2].name)
        put_all(store, 60, 200)
        done = run(root, into, config)
        assert "log_lost" not in done.notes
        assert begin > 0 and _first(into, "consumequeue") > 0 and _first(into, "index") > 0
    with open_store(root) as log:
        kept = {m.queue_offset: m.physical_offset for m in log.messages()}
    units = {}
    for name, data in _below(into, "consumequeue").items():
        base = int(name.rpartition("/")[2]) // 20
        units |= {base + n: int.from_bytes(data[20 * n : 20 * n + 8], "big") for n in range(len(data) // 20)}
    assert {offset: units[offset] for offset in kept} == kept


def _first(into: Path, kind: str) -> int:
    """How many of the files that a rebuild of everything would have are gone."""
    names = sorted(path.name for path in (into / kind).rglob("*") if path.is_file())
    return int(names[0]) if kind == "consumequeue" else 20 - len(names)


def test_damage_at_the_end_comes_after_what_is_sound(tmp_path):
    root, into, config = tmp_path / "store", tmp_path / "into", StoreConfig.from_keys(KEYS)
    with open_small(root) as store:
        last = put_all(store, 30)[-1]
    path, position = hurt_body(root, last.physical_offset)
    for _ in range(2):
        with pytest.raises(CorruptStoreError, match=f"{path.name}, position {position}"):
            run(root, into, config)
    assert sum(any(data[n : n + 20]) for data in _below(into, "consumequeue").values()
               for n in range(0, len(data), 20)) == 29  # fmt: skip


def test_a_torn_tail_is_looked_at_again(golden, tmp_path):
    store, into = golden("basic"), tmp_path / "into"
    config, peer = settings(store)
    root = store.copy(tmp_path)
    (root / "abort").touch()
    (root / "checkpoint").unlink()
    row = store.rows[-1]
    path = max(p for p in (root / "commitlog").iterdir() if int(p.name) <= row["physical_offset"])
    whole, half = path.read_bytes(), row["physical_offset"] - int(path.name) + 120
    path.write_bytes(whole[:half] + bytes(len(whole) - half))
    assert run(root, into, config, peer).records == len(store.rows) - 1
    path.write_bytes(whole)
    assert run(root, into, config, peer).records == 1
    check_rebuilt(root, into, tmp_path / "local", config, peer)


def test_what_goes_before_it_is_dispatched_is_told(tmp_path):
    root, into, config = tmp_path / "store", tmp_path / "into", StoreConfig.from_keys(KEYS)
    with open_small(root, dispatch="external") as store:
        put_all(store, 30)
        run(root, into, config)
        put_all(store, 200, 30)
        logs = sorted((root / "commitlog").iterdir())
        for log in logs[: len(logs) // 2]:
            log.unlink()
        done = run(root, into, config)
    assert done.notes["log_lost"] == 1 and done.notes["hole"] == 1
    with open_store(into.parent / "store") as log:
        kept = {m.queue_offset for m in log.messages()}
    data = b"".join(data for name, data in sorted(_below(into, "consumequeue").items()))
    base = int(min(_below(into, "consumequeue")).rpartition("/")[2]) // 20
    units = {base + n // 20 for n in range(0, len(data), 20) if int.from_bytes(data[n : n + 8], "big")}
    assert kept <= units and len(units - kept) <= 30


def stopped(root: Path) -> str:
    """How the store stopped: what RocketMQ sees, and what we see."""
    facts = read_facts(str(root))
    words = "abort" if (root / "abort").exists() else "no abort"
    return f"{words}, {'lagging' if facts.lagging else 'clean' if facts.clean else 'unclean'}"


def test_d6_abort_of_a_store_whose_queues_lag_goes_when_the_job_has_completed_them(tmp_path):
    root, config = tmp_path / "store", StoreConfig.from_keys(KEYS)
    stored(root, 30, dispatch="external")
    assert stopped(root) == "abort, lagging"
    run(root, tmp_path / "into", config)
    assert stopped(root) == "abort, lagging", "its own queues are not there"
    run(root, root, config)
    assert stopped(root) == "no abort, clean"
    with open_small(root, dispatch="external") as store:
        put_all(store, 30, 30)
        run(root, root, config)
        assert stopped(root) == "abort, unclean", "of the store that runs"
    assert stopped(root) == "no abort, clean", "by the close, which found none behind"
    stored(root, 30, 60, dispatch="external")
    assert stopped(root) == "abort, lagging"
    run(root, root, config)
    (root / "abort").write_bytes(b"4242")  # RocketMQ's, which was killed
    run(root, root, config)
    assert (root / "abort").read_bytes() == b"4242"


def test_an_engine_that_is_closed_beside_the_job_leaves_abort_to_it(tmp_path):
    root, config, stop = tmp_path / "store", StoreConfig.from_keys(KEYS), threading.Event()
    seen: list[str] = []

    def close(done):
        store.close()
        seen.append(stopped(root))
        more = open_small(root, dispatch="external")  # and another one comes, and goes
        put_all(more, 5, 30)
        seen.append(stopped(root))
        more.close()
        seen.append(stopped(root))
        stop.set()

    store = open_small(root, dispatch="external")
    put_all(store, 30)
    dispatch(None, str(root), str(root), config, interval_s=0.0, stop=stop, on_round=lambda d: seen or close(d))
    assert seen == ["abort, lagging", "abort, unclean", "abort, lagging"]
    assert stopped(root) == "no abort, clean", "the last round took what the second one put"
    check_rebuilt(root, root, tmp_path / "local", config)


@pytest.mark.parametrize("has_mark", [True, False])
def test_abort_stays_if_an_engine_wrote_after_the_last_round(tmp_path, has_mark):
    """Whoever wrote last need not have left a mark: the log itself is asked where it ends."""
    root, config = tmp_path / "store", StoreConfig.from_keys(KEYS)

    def write(_: object) -> None:
        stored(root, 5, 30, dispatch="external")
        if not has_mark:
            (root / "flintmq.mark").unlink()

    stored(root, 30, dispatch="external")
    dispatch(None, str(root), str(root), config, once=True, on_round=write)
    assert stopped(root) == "abort, lagging"
    run(root, root, config)
    assert stopped(root) == "no abort, clean"


@pytest.mark.parametrize("anew", [False, True])
def test_a_job_that_dies_leaves_no_store_that_looks_whole(tmp_path, monkeypatch, anew):
    """It cuts queues that the engine had made whole, and is killed."""
    root, config = tmp_path / "store", StoreConfig.from_keys(KEYS)
    stored(root, 30, dispatch="external")
    run(root, root, config)
    stored(root, 30, 30)
    assert stopped(root) == "no abort, clean"
    before = derived(root)
    with monkeypatch.context() as dies:
        dies.setattr(job, "stage_range", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(root, root, config, anew=anew)
    assert derived(root) != before and stopped(root) == "abort, lagging"
    facts = read_facts(str(root))
    assert (facts.mark.dispatched, facts.mark.indexed) == (-1, None) and facts.mark.flushed is not None
    claimed = checkpoint.decode((root / "checkpoint").read_bytes())
    assert claimed.logics_timestamp == 0 < claimed.physic_timestamp
    if anew:
        with open_small(root) as store:
            assert store.wait_dispatched(60)
        assert derived(root) == before
    else:
        run(root, root, config)
        rebuild(str(root), str(tmp_path / "local"), config)
        assert differing(root, tmp_path / "local") == []
    assert stopped(root) == "no abort, clean"


def test_an_engine_leaves_abort_after_a_job_that_died_with_its_keys_not_in_place(tmp_path, monkeypatch):
    root, config = tmp_path / "store", StoreConfig.from_keys(KEYS)
    stored(root, 30, dispatch="external")
    with monkeypatch.context() as dies:
        dies.setattr(job, "brought_in", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(root, root, config)
    assert len(units(root)) == 30 and not list(root.glob("index/*"))
    open_small(root, dispatch="external").close()
    assert stopped(root) == "abort, lagging"
    run(root, root, config)
    open_small(root, dispatch="external").close()
    assert stopped(root) == "no abort, clean"
    check_rebuilt(root, root, tmp_path / "local", config)


def test_of_units_that_a_job_may_have_cut_beside_the_engine_nothing_is_claimed(tmp_path, monkeypatch):
    """Else RocketMQ would dispatch again from the time of the last life that dispatched itself."""
    root, config = tmp_path / "store", StoreConfig.from_keys(KEYS)
    stored(root, 30)
    stored(root, 1, 30, dispatch="external")
    times = [checkpoint.decode((root / "checkpoint").read_bytes()).logics_timestamp]
    with open_small(root, dispatch="external"), monkeypatch.context() as dies:
        dies.setattr(job, "stage_range", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(root, root, config, anew=True)
    times.append(checkpoint.decode((root / "checkpoint").read_bytes()).logics_timestamp)
    assert stopped(root) == "abort, lagging" and times[0] > 0 == times[1]
    with open_small(root) as store:
        assert store.wait_dispatched(60)
    check_rebuilt(root, root, tmp_path / "local", config)


def test_a_job_that_is_refused_leaves_a_clean_store_as_it_was(tmp_path):
    root = tmp_path / "store"
    stored(root, 30)
    with pytest.raises(UsageError, match="were not made by dispatch"):
        run(root, root, StoreConfig.from_keys(KEYS))
    assert stopped(root) == "no abort, clean"


def test_an_engine_waits_while_a_dispatcher_looks_at_abort(tmp_path):
    """Else it would find the one that it just made removed."""
    with open_small(tmp_path, dispatch="external") as store:
        put_all(store, 3)
        with at_rest(str(tmp_path)) as resting:
            assert not resting
    opened: list[str] = []

    def start():
        with open_small(tmp_path, dispatch="external"):
            opened.append(stopped(tmp_path))

    thread = threading.Thread(target=start)
    with at_rest(str(tmp_path)) as resting:
        assert resting
        thread.start()
        thread.join(0.3)
        assert thread.is_alive() and stopped(tmp_path) == "abort, lagging"
    thread.join(30)
    assert opened == ["abort, unclean"]


@pytest.mark.parametrize(
    "named", [{"max_bytes": 0}, {"interval_s": -1.0}, {"interval_s": float("nan")}, {"interval_s": float("inf")}]
)
def test_arguments_are_checked(golden, tmp_path, named):
    with pytest.raises(UsageError, match=f"{next(iter(named))}="):
        run(golden("basic").path, tmp_path / "into", **named)
    assert not (tmp_path / "into").exists()


@pytest.mark.parametrize("name", ["once", "anew"])
def test_a_switch_is_true_or_false(tmp_path: Path, name: str):
    """The text "no" would be a yes: all that was dispatched would be removed."""
    words: dict[str, Any] = {name: "no"}
    with pytest.raises(TypeError, match=f"^{name} is of type str; give True or False"):
        dispatch(cast(Any, None), "from", str(tmp_path / "into"), **words)
    assert not (tmp_path / "into").exists()
