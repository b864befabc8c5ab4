"""Many stores: those that go and return, that hang, that are one log twice."""

import json
import logging
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import flintmq
from flintmq import Message, MessageStore
from flintmq.config.keys import StoreConfig
from flintmq.errors import ConfigError, NotAStoreError, UnfinishedError, UsageError
from flintmq.forensics.store_figures import StoreFigures, StoreWatch
from flintmq.ha import Follower
from flintmq.metrics.background import BackgroundCall, _Running
from flintmq.metrics.stores import StoresWatch
from flintmq.storage.files.filesystem import REAL
from flintmq.store.layout import following
from flintmq.store.layout.following import FILE_NAME
from tests.compat.stores import Golden
from tests.metrics.conftest import BROKERS
from tests.support.prometheus import Samples, only, samples
from tests.support.threads import at_once


def ups(text: str) -> dict[str, float]:
    """Broker -> flintmq_store_up."""
    return {broker: value for (broker,), value in only(samples(text), "flintmq_store_up", "node_id").items()}


def groups_of(text: str, broker: str) -> set[str]:
    rows = only(samples(text), "rocketmq_consumer_lag_messages", "node_id", "consumer_group", "topic")
    return {group for node, group, _ in rows if node == broker}


def fill(path: Path, count: int) -> None:
    with MessageStore(path, dev=True) as store:
        for number in range(count):
            store.put(Message("T", b"%d" % number))
        store.commit_offset("g", "T", 0, 1)


def test_a_store_that_goes_and_returns(cluster: Path, caplog: pytest.LogCaptureFixture) -> None:
    watch = StoresWatch(f"{cluster}/*/store", StoreConfig())
    assert ups(watch.text()) == dict.fromkeys(BROKERS, 1) and not watch.failures
    before = watch.text()
    shutil.move(cluster / "broker-b", cluster.parent / "away")
    with caplog.at_level(logging.INFO, "flintmq.metrics"):
        for _ in range(3):
            gone = watch.text()
            assert ups(gone) == {"broker-a": 1, "broker-b": 0, "库存": 1}
    assert len(caplog.messages) == 1 and "is its disk mounted" in caplog.messages[0], "logged once"
    assert groups_of(gone, "broker-b") == set() and groups_of(gone, "broker-a") == groups_of(before, "broker-a")
    shutil.move(cluster.parent / "away", cluster / "broker-b")
    assert ups(watch.text()) == dict.fromkeys(BROKERS, 1)
    assert groups_of(watch.text(), "broker-b") == groups_of(before, "broker-b")
    assert len(caplog.messages) == 2 and "read again" in caplog.messages[1]


def test_a_broker_that_comes_is_seen(cluster: Path, golden: Callable[[str], Golden]) -> None:
    watch = StoresWatch(f"{cluster}/{{broker}}/store", StoreConfig())
    watch.text()
    shutil.copytree(golden("delay").path, cluster / "new" / "store")
    assert ups(watch.text())["new"] == 1 and watch.stores == 4


@pytest.mark.parametrize("pattern", ["*/store", "{broker}/store", "{broker}/st*"])
def test_a_disk_that_is_not_mounted_at_the_first_look(
    cluster: Path, pattern: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever restarts the exporter after a reboot must not lose the alert."""
    (cluster / "unmounted" / "store").mkdir(parents=True)
    (cluster / "empty").mkdir()
    (cluster / "lost+found" / "store").mkdir(parents=True)
    (cluster / "file").write_text("x")
    watch = StoresWatch(f"{cluster}/{pattern}", StoreConfig())
    gone = {"unmounted": 0} if pattern.endswith("st*") else {"unmounted": 0, "empty": 0}
    assert ups(watch.text()) == ups(watch.text()) == {**dict.fromkeys(BROKERS, 1), **gone}
    assert len(caplog.messages) == len(gone) and all("is its disk mounted?" in line for line in caplog.messages)
    assert f"{cluster}/unmounted/store: no commitlog/ there" in caplog.text
    shutil.copytree(cluster / "broker-a" / "store", cluster / "unmounted" / "store", dirs_exist_ok=True)
    assert ups(watch.text()) == {**dict.fromkeys(BROKERS, 1), **gone, "unmounted": 1}


def test_where_nothing_is_mounted_the_first_place_is_named(cluster: Path) -> None:
    with pytest.raises(NotAStoreError, match="broker-a/disk: no commitlog/ there, of broker 'broker-a'; is its disk"):
        flintmq.store_metrics(f"{cluster}/{{broker}}/disk")


def test_a_store_of_a_list_that_is_missing(cluster: Path, caplog: pytest.LogCaptureFixture) -> None:
    (cluster / "file").write_text("x")
    text = flintmq.store_metrics([f"{cluster}/broker-a/store", cluster / "absent", cluster / "file"])
    assert ups(text) == {"store": 1, "absent": 0, "file": 0}
    assert len(caplog.messages) == 2


def test_what_is_wrong_at_the_first_look_is_an_error(cluster: Path) -> None:
    for given in (cluster / "nothing", f"{cluster}/x*/store", [], [cluster / "a", cluster / "b"]):
        with pytest.raises(NotAStoreError):
            flintmq.store_metrics(given)
    for given in (f"{cluster}/{{broker}}/{{broker}}", cluster / "no.toml"):
        with pytest.raises(UsageError):
            flintmq.store_metrics(given)
    with pytest.raises(ConfigError, match="fileReservedTime"):
        flintmq.store_metrics(cluster / "broker-a" / "store", set={"fileReservedTim": 1})


def test_a_listing_that_fails_later_leaves_what_is_known(cluster: Path, caplog: pytest.LogCaptureFixture) -> None:
    manifest = cluster / "cluster.toml"
    manifest.write_text('[[stores]]\nstore = "broker-a/store"\nbroker = "a"\n')
    watch = StoresWatch(manifest, StoreConfig())
    assert ups(watch.text()) == {"a": 1}
    manifest.write_text("[[stores")
    assert ups(watch.text()) == {"a": 1} and "not TOML" in caplog.text


def test_a_store_that_does_not_answer_holds_up_nobody(
    cluster: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    go, hangs, real, real_wait = threading.Event(), threading.Event(), StoreWatch.look, BackgroundCall._wait

    def look(self: StoreWatch) -> StoreFigures:
        if self.member.broker == "broker-b":
            hangs.set()
            assert go.wait(300)
        return real(self)

    def wait(self: BackgroundCall[object], running: _Running[object], deadline: float) -> object:
        """Who answers has the time that a busy machine takes for it."""
        watched = getattr(self._function, "__self__", None)
        is_late = isinstance(watched, StoreWatch) and watched.member.broker == "broker-b"
        return real_wait(self, running, deadline if is_late else deadline + 60)

    monkeypatch.setattr(StoreWatch, "look", look)
    monkeypatch.setattr(BackgroundCall, "_wait", wait)
    watch = StoresWatch(f"{cluster}/*/store", StoreConfig(), first_seconds=0.2, seconds=0.2)
    for _ in range(2):
        text = watch.text()
        assert hangs.wait(60) and not go.is_set()
        assert ups(text) == {"broker-a": 1, "broker-b": 0, "库存": 1} and groups_of(text, "broker-a")
    [said] = [record for record in caplog.records if record.name == "flintmq.metrics"]
    assert "does its disk hang" in said.getMessage()
    assert [type(error) for error in watch.failures.values()] == [UnfinishedError]
    go.set()
    watch._patience = 60, 60
    assert ups(watch.text()) == dict.fromkeys(BROKERS, 1)


def test_any_error_is_that_of_one_store(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = StoreWatch.look

    def look(self: StoreWatch) -> StoreFigures:
        if self.member.broker == "broker-a":
            raise ZeroDivisionError("a mistake of ours")
        return real(self)

    monkeypatch.setattr(StoreWatch, "look", look)
    assert ups(flintmq.store_metrics(f"{cluster}/*/store")) == {"broker-a": 0, "broker-b": 1, "库存": 1}


def test_a_master_and_its_slave_count_once(tmp_path: Path) -> None:
    master, slave = tmp_path / "m", tmp_path / "s"
    fill(master, 10)
    shutil.copytree(master, slave)
    fill(slave, 2)
    manifest = tmp_path / "cluster.toml"
    entry = '[[stores]]\nstore = "{}"\nbroker = "a"\nbroker_id = {}\n'
    manifest.write_text(entry.format("m", 0) + entry.format("s", 1))
    watch = StoresWatch(manifest, StoreConfig())
    found = samples(watch.text())
    assert only(found, "flintmq_store_up", "node_id", "store") == {("a", str(master)): 1, ("a", str(slave)): 1}
    assert only(found, "rocketmq_consumer_lag_messages", "consumer_group") == {("g",): 11}, "the slave goes further"
    fill(master, 5)  # which makes them two logs
    text = watch.text()
    assert set(only(samples(text), "flintmq_store_up", "store").values()) == {0}
    assert all(isinstance(error, UsageError) for error in watch.failures.values()) and len(watch.failures) == 2
    shutil.rmtree(slave)
    assert only(samples(watch.text()), "rocketmq_consumer_lag_messages", "consumer_group") == {("g",): 14}


def test_looks_at_the_same_time(cluster: Path) -> None:
    watch, texts = StoresWatch(f"{cluster}/*/store", StoreConfig(), seconds=60), []
    at_once(*[lambda: texts.append(watch.text())] * 6)
    assert [ups(text) for text in texts] == [dict.fromkeys(BROKERS, 1)] * 6


# -- The metrics of a copy that a follower keeps, seen from another process's side: by its files -----------------------

KEYS = {"mappedFileSizeCommitLog": 1 << 20}
NAMES = ("connected", "lag_seconds", "behind_bytes", "last_contact_timestamp_seconds")


def figures(store: Path) -> dict[str, float]:
    """The figures of the copy, by the last part of their names."""
    found: Samples = samples(flintmq.store_metrics(store))
    shown = {name: only(found, f"flintmq_follower_{name}", "store") for name in NAMES}
    return {name: values[str(store),] for name, values in shown.items() if values}


def until(store: Path, holds: Callable[[dict[str, float]], bool]) -> dict[str, float]:
    """The figures once something holds."""
    limit = time.monotonic() + 30
    while not holds(found := figures(store)):
        assert time.monotonic() < limit, found
        time.sleep(0.1)
    return found


def test_a_copy_that_is_followed_lost_and_stopped(tmp_path: Path) -> None:
    begin, copy = time.time(), tmp_path / "copy"
    with flintmq.MessageStore(tmp_path / "m", KEYS, ha_listen=("127.0.0.1", 0)) as master:
        assert master.ha is not None
        master.put(flintmq.Message("T", b"one"))
        with Follower(copy, "{}:{}".format(*master.ha.address), config=KEYS) as follower:
            assert follower.wait_caught_up(30)
            now = until(copy, lambda found: found.get("connected") == 1 and found["lag_seconds"] == 0)
            assert now["behind_bytes"] == 0 and begin - 1 <= now["last_contact_timestamp_seconds"] <= time.time()
            master.close()
            lost = until(copy, lambda found: found["connected"] == 0)
            assert 0 < lost["lag_seconds"] <= time.time() - begin and "behind_bytes" not in lost
    ended = figures(copy)
    assert ended["connected"] == 0 and ended["lag_seconds"] >= lost["lag_seconds"]
    assert not figures(tmp_path / "m")
    with flintmq.MessageStore(copy, KEYS):
        pass
    assert not figures(copy), "it is a master now"


def test_a_note_that_is_old_is_not_believed_and_the_brokers_end_counts(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    with flintmq.MessageStore(tmp_path / "m", KEYS, ha_listen=("127.0.0.1", 0)) as master:
        assert master.ha is not None
        master.put(flintmq.Message("T", b"one"))
        Follower(copy, "{}:{}".format(*master.ha.address), config=KEYS, once=True).run()
    note = following.read(str(copy), REAL)
    assert note is not None
    with flintmq.MessageStore(copy, {**KEYS, "brokerRole": "SLAVE"}) as store:
        now = time.time_ns() // 1_000_000
        following.write(str(copy), note._replace(at_ms=now, connected=True, caught_up=True), REAL)
        assert figures(copy)["connected"] == 1 and figures(copy)["lag_seconds"] == 0
        following.write(str(copy), note._replace(at_ms=now - 60_000, connected=True, caught_up=True), REAL)
        assert figures(copy)["connected"] == 0 and figures(copy)["lag_seconds"] > 0
        ahead = note._replace(at_ms=now, connected=True, master_end=store.raw.end + 123)
        following.write(str(copy), ahead, REAL)
        assert figures(copy)["behind_bytes"] == 123
    assert figures(copy)["connected"] == 0, "nobody has it open"
    (copy / FILE_NAME).write_bytes(b"{")
    assert figures(copy) == {"connected": 0}
    state = json.loads((copy / "flintmq.follow").read_text())
    (copy / "flintmq.follow").write_text(json.dumps({**state, "begin": -1}))
    assert figures(copy) == {}, "verify says what is wrong with it"


def test_followers_of_a_store_from_inside(tmp_path: Path) -> None:
    with flintmq.MessageStore(tmp_path / "m", KEYS, ha_listen=("127.0.0.1", 0)) as master:
        assert master.ha is not None
        master.put(flintmq.Message("T", b"one"))
        found = samples(flintmq.engine_metrics(master.stats(), followers=master.ha.followers()))
        assert list(found["flintmq_listener_followers"].values()) == [0]
        assert "flintmq_listener_unsent_bytes" not in found
        address = "{}:{}".format(*master.ha.address)
        with (
            Follower(tmp_path / "replica", address, config=KEYS, ack=True) as replica,
            Follower(tmp_path / "tap", address, config=KEYS) as tap,
        ):
            assert replica.wait_caught_up(30) and tap.wait_caught_up(30)
            stats = master.stats()
            found = samples(flintmq.engine_metrics(stats, followers=master.ha.followers()))
            assert list(found["flintmq_listener_followers"].values()) == [2]
            assert set(only(found, "flintmq_listener_unsent_bytes", "follower").values()) == {0}
            lacks = sorted(only(found, "flintmq_listener_unacknowledged_bytes", "follower").values())
            assert lacks == [0, stats.log_end - 1], "a tap repeats its first report"
        assert "flintmq_listener_followers" not in flintmq.engine_metrics(master.stats())
