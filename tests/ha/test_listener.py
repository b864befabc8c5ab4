"""A store that followers copy: right ones, wrong ones, slow ones; what they get, and what they cost."""

import errno
import hashlib
import json
import logging
import os
import random
import re
import select
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import ConfigError, StoreAccessError, UsageError
from flintmq.ha import listener as listener_module
from flintmq.ha import master_line
from flintmq.ha.listener import HaListener
from flintmq.ha.stored_log import StoredLog
from flintmq.message import Message
from flintmq.store.listening import ListenOptions, LogPart
from flintmq.store.message_store import MessageStore
from flintmq.testing import slow_read
from tests.compat.replication import FOLDER, GoldenMaster
from tests.ha.lines import LIMIT_S, Line
from tests.support.loopback import SMALL_BUFFER
from tests.support.threads import within

HERE = ("127.0.0.1", 0)
SIZE = 4096
KEYS: dict[str, Any] = {"mappedFileSizeCommitLog": SIZE, "mappedFileSizeConsumeQueue": 200}


def open_listening(root: Path, config: dict[str, Any] | None = None, **options: Any) -> MessageStore:
    """A store of small files that listens at any free port of this machine."""
    return MessageStore(root, config=KEYS | (config or {}), ha_listen=HERE, **options)


def put(store: MessageStore, count: int, size: int = 100) -> int:
    """Put messages; return the log's end."""
    for number in range(count):
        result = store.put(Message(f"T{number % 2}", b"%05d" % number + bytes(size), keys=f"k{number}"))
    return int(result.physical_offset + result.size)


def log_bytes(root: Path) -> bytes:
    """All bytes of the log, which begins at 0."""
    return slow_read.log_bytes(root)[0]


def address_of(store: MessageStore) -> tuple[str, int]:
    assert store.ha is not None
    return store.ha.address


def states(store: MessageStore) -> list[str]:
    assert store.ha is not None
    return [one.state for one in store.ha.followers()]


@pytest.fixture(autouse=True)
def _quick_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(master_line, "REFUSED_S", 0.1)


class Source:
    """A log without a store: files of one size, of which those below `low` are gone."""

    def __init__(self, folder: Path, size: int = 1 << 16, file_size: int = 1 << 16) -> None:
        self.file_size, self.low, self.high, self.folder = file_size, 0, size, folder
        self.data = random.Random(1).randbytes(size)
        for start in range(0, size, file_size):
            (folder / f"log{start}").write_bytes(self.data[start : start + file_size])
        self.holds = 0

    def begin(self) -> int:
        return self.low

    def end(self) -> int:
        return self.high

    def open(self, offset: int) -> LogPart | None:
        start = offset - offset % self.file_size
        if start < self.low:
            return None
        fd = os.open(self.folder / f"log{start}", os.O_RDONLY)
        self.holds += 1

        def release() -> None:
            os.close(fd)
            self.holds -= 1

        return LogPart(fd, start, self.file_size, release)


@pytest.fixture
def listen(tmp_path: Path) -> Iterator[Callable[..., tuple[HaListener, Source]]]:
    """listen(size=..., file_size=..., options=..., **keys) -> a listener that runs, and its log."""
    with ExitStack() as stack:

        def start(
            size: int = 1 << 16, file_size: int = 1 << 16, options: dict[str, Any] | None = None, **keys: Any
        ) -> tuple[HaListener, Source]:
            source = Source(tmp_path, size, file_size)
            made = HaListener(ListenOptions(HERE, **(options or {})), source, StoreConfig.from_keys(keys))
            stack.callback(made.close)
            made.start()
            return made, source

        yield start


QUICK = {"haSendHeartbeatInterval": 60}
BY_DESIGN = {  # first report -> what ours does instead of the master's heartbeats for ever, which help nobody (D17)
    "beyond": "one heartbeat, as there, and the line is closed",
    "negative": "the line is closed",
}


def _sessions(version: str) -> list[dict[str, Any]]:
    recorded = json.loads((FOLDER / f"master-sessions{version}.json").read_text(encoding="utf-8"))
    assert len(recorded["sessions"]) == 14
    return list(recorded["sessions"])


def _digest(frame: tuple[int, int, bytes]) -> dict[str, Any]:
    return {"offset": frame[0], "size": frame[1], "sha1": hashlib.sha1(frame[2]).hexdigest()}


@pytest.mark.parametrize("kind", ["own", "stored"])
def test_the_recorded_master_s_frames(master: GoldenMaster, kind: str, tmp_path: Path):
    """Every first report of the recorded sessions gets the frames that RocketMQ sent, but where BY_DESIGN says so."""
    end, compared, differ = len(master.log), 0, []
    with ExitStack() as stack:
        if kind == "own":
            copied = shutil.copytree(master.path, tmp_path / "store")
            store = MessageStore(copied, config=master.config | QUICK, ha_listen=HERE)
            stack.callback(store.close)
            address = address_of(store)
        else:
            config = StoreConfig.from_keys(QUICK)
            served = HaListener(ListenOptions(HERE), StoredLog(master.path, config), config)
            stack.callback(served.close)
            served.start()
            address = served.address
        for session in _sessions(master.version):
            reports, expected = session["reports"], session["frames"]
            wanted = [{k: frame[k] for k in ("offset", "size", "sha1")} for frame in expected]
            with Line(address, *reports) as line:
                if reports[-1] > end or reports[-1] < 0:
                    got = line.hung_up()
                    heartbeat = struct.pack(">qi", reports[-1], 0)
                    assert got == (heartbeat if reports[-1] > end else b"")
                    differ.append("beyond" if reports[-1] > end else "negative")
                    assert not [frame for frame in wanted if frame["size"]], "nor did the master send any of its log"
                    continue
                found = [line.frame() for _ in wanted]
                assert [_digest(frame) for frame in found if frame is not None] == wanted, reports
                assert not line.closed and wanted
                compared += 1
    assert compared == 10 and sorted(differ) == ["beyond", "beyond", "negative", "negative"]
    assert set(differ) == set(BY_DESIGN)


def test_a_follower_gets_what_is_put_meanwhile(tmp_path: Path):
    with open_listening(tmp_path) as store:
        end = put(store, 40)
        with Line(address_of(store), 1) as line:
            data = b"\0" + line.up_to(end)
            for _ in range(5):
                end = put(store, 30)
                data += line.up_to(end)
        assert data == log_bytes(tmp_path)[:end]
        assert end > 5 * SIZE


def test_a_record_is_sent_soon(tmp_path: Path):
    """The first record after a while wakes the listener; a sleep of its own is 50 ms."""
    with open_listening(tmp_path) as store:
        with Line(address_of(store), put(store, 1)) as line:
            taken = []
            for _ in range(9):
                time.sleep(0.07)  # dispatch and the listener sleep
                before = time.perf_counter()
                store.put(Message("T", b"x"))
                assert line.frame() is not None
                taken.append(time.perf_counter() - before)
    assert sorted(taken)[4] < 0.02, taken


def test_a_new_follower_gets_the_last_file_or_the_whole_log(tmp_path: Path):
    for which in ("last", "first"):
        with open_listening(tmp_path / which, ha_new_slave=which) as store:
            end = put(store, 50)
            with Line(address_of(store), 0) as line:
                assert len(line.up_to(end)) == (end if which == "first" else end % SIZE)


def test_an_empty_store_has_followers(tmp_path: Path):
    with open_listening(tmp_path) as store, Line(address_of(store), 0) as line:
        assert within(lambda: states(store) == ["transfer"])
        end = put(store, 3)
        assert line.up_to(end) == log_bytes(tmp_path)[:end]


def test_only_what_is_on_disk_is_sent(tmp_path: Path):
    """ha_durable_only; without it records go at once, as upstream."""
    lazy = {"flushIntervalCommitLog": 100_000, "flushCommitLogThoroughInterval": 100_000}
    for durable_only in (True, False):
        with open_listening(tmp_path / str(durable_only), lazy, ha_durable_only=durable_only) as store:
            end = put(store, 3)
            with Line(address_of(store), 0) as line:
                frame = line.frame(0.3)
                assert (frame is None) is durable_only
                store.flush()
                if durable_only:
                    assert len(line.up_to(end)) == end


def test_records_in_the_pool_are_sent_once_the_file_has_them(tmp_path: Path):
    far = {"commitIntervalCommitLog": 100_000, "commitCommitLogThoroughInterval": 100_000}
    pool = {"transientStorePoolEnable": "true", "wakeCommitWhenPutMessage": "false"}
    with open_listening(tmp_path, far | pool) as store:
        end = put(store, 3)
        with Line(address_of(store), 0) as line:
            assert line.frame(0.3) is None
            assert store._parts.commits is not None and store._parts.commits.commit_once()
            assert line.up_to(end) == log_bytes(tmp_path)[:end]


def test_frames_are_no_larger_than_the_batch(listen: Callable[..., tuple[HaListener, Source]]):
    served, source = listen(haTransferBatchSize=1000)
    with Line(served.address, 1) as line:
        sizes = [line.frame() for _ in range(66)]
        assert [frame[1] for frame in sizes if frame] == [1000] * 65 + [535]
        assert b"".join(frame[2] for frame in sizes if frame) == source.data[1:]


def test_the_most_in_a_second(listen: Callable[..., tuple[HaListener, Source]]):
    served, source = listen(haFlowControlEnable=True, maxHaTransferByteInSecond=40_000)
    before = time.monotonic()
    with Line(served.address, 1) as line:
        assert line.up_to(source.high) == source.data[1:]
    assert 0.9 < time.monotonic() - before < LIMIT_S


def test_heartbeats_come_while_nothing_else_does(listen: Callable[..., tuple[HaListener, Source]]):
    served, source = listen(haSendHeartbeatInterval=50)
    with Line(served.address, source.high) as line:
        assert [line.frame() for _ in range(3)] == [(source.high, 0, b"")] * 3
        assert not line.closed


def test_a_silent_follower_is_hung_up_on(listen: Callable[..., tuple[HaListener, Source]]):
    served, source = listen(haHousekeepingInterval=150)
    before = time.monotonic()
    with Line(served.address) as waiting, Line(served.address, source.high) as line, Line(served.address) as slow:
        slow.send(b"\0\0\0")
        assert [waiting.hung_up(), line.hung_up(), slow.hung_up()] == [b""] * 3
        assert 0.1 < time.monotonic() - before < LIMIT_S
    assert served.followers() == []


def test_followers(tmp_path: Path):
    """What a program learns of the followers that there are."""
    with open_listening(tmp_path, {"haMaxGapNotInSync": 1000}) as store:
        end = put(store, 30)
        assert store.ha is not None
        with (
            Line(address_of(store)) as waiting,
            Line(address_of(store), 1) as far,
            Line(address_of(store), end) as near,
        ):
            far.up_to(end)
            assert within(lambda: states(store) == ["wait", "transfer", "transfer"])
            assert within(lambda: store.ha and store.ha.followers()[1].sent == end)
            found = {one.address: one for one in store.ha.followers()}
            assert [found[one.address][2:5] for one in (waiting, far, near)] == [
                (-1, -1, False), (end, 1, False), (end, end, True),
            ]  # fmt: skip
            far.report(end - 1000)
            assert within(lambda: store.ha and all(one.in_sync for one in store.ha.followers()[1:]))
        assert within(lambda: states(store) == [])


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        bytes(range(128, 256)) * 64,
        b"\x16\x03\x01" + bytes(600),  # the beginning of TLS
        struct.pack(">q", -1),
        struct.pack(">q", (1 << 63) - 1),
        struct.pack(">qq", 100, 1 << 16 | 1),
        random.Random(3).randbytes(5000),
    ],
)
def test_rubbish(listen: Callable[..., tuple[HaListener, Source]], data: bytes):
    served, _ = listen(haHousekeepingInterval=500)
    with Line(served.address) as line:
        line.send(data)
        assert len(line.hung_up()) <= 12
    assert within(lambda: served.followers() == [])


@pytest.mark.parametrize("lie", [1 << 40, (1 << 16) + 1, 99, -1])
def test_a_liar_is_hung_up_on(listen: Callable[..., tuple[HaListener, Source]], lie: int):
    served, source = listen()
    with Line(served.address, 100) as line:
        line.up_to(source.high)
        line.report(lie)
        assert line.hung_up() == b""


def test_idle_connections_cost_nothing(tmp_path: Path):
    """40 that say nothing, and 20 that send rubbish: puts and a right follower do not notice."""
    with open_listening(tmp_path, {"haHousekeepingInterval": 1000}) as store, ExitStack() as stack:
        put(store, 1)
        for _ in range(40):
            stack.enter_context(Line(address_of(store)))
        for number in range(20):
            stack.enter_context(Line(address_of(store))).send(random.Random(number).randbytes(64))
        with Line(address_of(store), 0) as line:
            end = put(store, 100)
            assert line.up_to(end)[-50:] == log_bytes(tmp_path)[end - 50 : end]
            line.report(end)
            assert within(lambda: len(states(store)) == 1), "and they are hung up on"


def test_a_follower_that_does_not_read_holds_up_nobody(tmp_path: Path):
    """It costs the header of a frame, is kept as long as it reports, and goes on where it was."""
    with MessageStore(tmp_path, config={"mappedFileSizeCommitLog": 1 << 22}, ha_listen=HERE) as store:
        assert store.ha is not None
        with Line(address_of(store), 0, receive_buffer=SMALL_BUFFER) as slow:
            end = put(store, 2000, 8000)
            sent = store.ha.followers()[0].sent
            with Line(address_of(store), 1) as line:
                assert len(line.up_to(end)) == end - 1
            assert within(lambda: store.ha and 0 < store.ha.followers()[0].sent < end)
            assert sent <= store.ha.followers()[0].sent
            listener: Any = store.ha
            kept = [len(one.head) for one in listener._lines.values()]
            assert max(kept) <= 12
            assert len(slow.up_to(end)) == end


def test_a_flood_of_reports_is_read_in_small_pieces(listen: Callable[..., tuple[HaListener, Source]]):
    served, source = listen()
    with Line(served.address, source.high) as line:
        for _ in range(50):
            line.report(*[source.high] * 10_000)
        with Line(served.address, 100) as other:
            assert other.up_to(source.high) == source.data[100:]
        assert within(lambda: len(served.followers()) == 1) and not line.closed


def test_what_a_peer_sends_is_not_logged(
    listen: Callable[..., tuple[HaListener, Source]], caplog: pytest.LogCaptureFixture
):
    served, _ = listen()
    with caplog.at_level(logging.DEBUG, "flintmq.ha"), Line(served.address) as line:
        line.send(b"\x1b[31mEVIL\r\n\x07\x07\x07\x07\x07\x07")
        line.hung_up()
        assert within(lambda: "is hung up on" in caplog.text)
    assert "EVIL" not in caplog.text and "\x1b" not in caplog.text
    assert re.search(
        r"127\.0\.0\.1:\d+ is hung up on: its first report is \d+, and the log has 0 to 65536", caplog.text
    )


def test_a_follower_behind_a_deleted_file(
    listen: Callable[..., tuple[HaListener, Source]], caplog: pytest.LogCaptureFixture
):
    """The file that it is sent is held, and sent to its end; that the next one has gone ends its line."""
    served, source = listen(size=1 << 24, file_size=1 << 22)
    with Line(served.address, 1, receive_buffer=SMALL_BUFFER) as line:
        assert within(lambda: served.followers() and served.followers()[0].sent > 1)
        time.sleep(0.1)
        sent = served.followers()[0].sent
        assert sent < 1 << 23, "the sockets hold no more"
        held = sent - sent % source.file_size
        source.low = held + 2 * source.file_size
        body = line.up_to(held + source.file_size)
        assert body == source.data[1 : held + source.file_size]
        assert line.hung_up() == b""
    assert f"needs log offset {held + source.file_size}, and that file was deleted" in caplog.text
    assert within(lambda: source.holds == 0)


def test_a_follower_holds_the_file_that_it_is_sent(tmp_path: Path):
    """As a reader does: retention leaves it mapped and open until the follower has all of it."""
    with open_listening(tmp_path) as store:
        put(store, 60)
        files = store._parts.files
        first = files.files[0]
        with Line(address_of(store), 1) as line:
            listener: Any = store.ha
            assert within(lambda: listener._lines and next(iter(listener._lines.values())).part is not None)
            end = put(store, 1)
            line.up_to(end)
            held = files.files[-1]
            assert within(lambda: (first._holders, held._holders) == (1, 2)), "the file that it is in"
        assert within(lambda: held._holders == 1)


def test_a_file_that_shrinks_under_the_listener(listen: Callable[..., tuple[HaListener, Source]]):
    """Another process cut it: the line ends, and nothing else."""
    served, source = listen()
    os.truncate(source.folder / "log0", 1000)
    with Line(served.address, 900) as line:
        got = line.hung_up()
        assert got == struct.pack(">qi", 900, 32768) + source.data[900:1000]
    with Line(served.address, source.high) as line:
        assert within(lambda: len(served.followers()) == 1)
    assert within(lambda: served.followers() == [] and source.holds == 0)


@pytest.mark.parametrize(
    ("networks", "comes"),
    [((), True), (("127.0.0.0/8",), True), (("10.1.2.0/24", "127.0.0.1"), True), (("10.1.2.0/24", "::1/128"), False)],
)
def test_networks(listen: Callable[..., tuple[HaListener, Source]], networks: tuple[str, ...], comes: bool):
    served, source = listen(options={"allow": networks})
    with Line(served.address) as line:
        if comes:
            line.report(source.high - 1)
            assert line.frame() == (source.high - 1, 1, source.data[-1:])
        else:
            assert line.hung_up() == b"" and served.followers() == []


def test_who_is_refused_is_told_of_now_and_then(
    listen: Callable[..., tuple[HaListener, Source]], caplog: pytest.LogCaptureFixture
):
    """Whoever tries again for ever, or from many addresses, does not fill the log."""
    served, _ = listen(options={"allow": ("10.1.2.0/24",)})
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            with Line(served.address) as line:
                assert line.hung_up() == b""
        for number in range(500):
            served._tell_refused((f"h{number}", 1))
        told = [line.getMessage() for line in caplog.records if "not in an allowed network" in line.getMessage()]
    assert sum(line.startswith("127.0.0.1:") for line in told) == 1 and len(told) == 64


def test_a_mapped_address_is_that_of_its_network(tmp_path: Path):
    """Who comes over IPv4 to a socket of IPv6 is written ::ffff:127.0.0.1 there."""
    source = Source(tmp_path)
    served = HaListener(ListenOptions(("::1", 0), ("10.0.0.0/8", "::1")), source, StoreConfig())
    served.start()
    try:
        assert served._may_come("::1") and served._may_come("::ffff:10.1.2.3") and not served._may_come("fe80::1%eth0")
        with Line(served.address, source.high - 1) as line:
            assert line.frame() is not None
    finally:
        served.close()


def test_at_most_so_many(listen: Callable[..., tuple[HaListener, Source]]):
    """Beyond that the oldest that never reported goes, else the new one."""
    served, source = listen(options={"connections": 3})
    with ExitStack() as stack:

        def line(*reports: int) -> Line:
            count = len(served.followers())
            one = stack.enter_context(Line(served.address, *reports))
            assert within(lambda: len(served.followers()) != count or count == 3)
            return one

        first, silent, other = line(source.high), line(), line()
        new = line(source.high)
        assert silent.hung_up() == b""
        newer = line(source.high)
        assert other.hung_up() == b""
        assert within(lambda: [one.state for one in served.followers()] == ["transfer"] * 3)
        late = line(source.high)
        assert late.hung_up() == b""
        assert {one.address for one in served.followers()} == {first.address, new.address, newer.address}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ha_listen": ("", 10912)}, "names no host"),
        ({"ha_listen": ("127.0.0.1", 70000)}, "is no port"),
        ({"ha_listen": ("127.0.0.1", "10912")}, "is no port"),
        ({"ha_listen": ("192.0.2.1", 0)}, "give another address"),
        ({"ha_listen": ("no such host", 0)}, "give another address"),
        ({"ha_listen": "127.0.0.1:10912"}, "ha_listen"),
        ({"ha_allow": ["10.1.2.3/8"]}, "ha_allow"),
        ({"ha_allow": ["here"]}, "ha_allow"),
        ({"ha_allow": ["::ffff:127.0.0.0/104"]}, "ha_allow: an IPv4 network in IPv6"),
        ({"ha_new_slave": "all"}, "ha_new_slave"),
        ({"ha_count": "socket"}, "ha_count"),
        ({"ha_connections": 0}, "ha_connections"),
        ({"services": False}, "services"),
    ],
)
def test_options_that_cannot_be(tmp_path: Path, options: dict[str, Any], said: str):
    given = {"ha_listen": HERE} | options
    with pytest.raises(UsageError, match=re.escape(said)):
        MessageStore(tmp_path / "store", config=KEYS, **given)
    with MessageStore(tmp_path / "store", config=KEYS) as store:  # it is not locked
        assert store.ha is None


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"haTransferBatchSize": (4 << 20) - 11}, "haTransferBatchSize"),
        ({"haTransferBatchSize": 0}, "haTransferBatchSize"),
    ],
)
def test_keys_that_cannot_be_kept(tmp_path: Path, keys: dict[str, Any], said: str):
    with pytest.raises(ConfigError, match=said):
        open_listening(tmp_path, keys)
    with MessageStore(tmp_path, config=KEYS | keys) as store:
        assert store.ha is None


def test_a_port_that_is_taken(tmp_path: Path):
    with open_listening(tmp_path / "a") as store:
        with pytest.raises(UsageError, match="in use"):
            MessageStore(tmp_path / "b", config=KEYS, ha_listen=address_of(store))


def test_other_addresses_get_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    source = Source(tmp_path)
    for host, allow, warned in (("127.0.0.1", (), 0), ("0.0.0.0", ("10.0.0.0/8",), 0), ("0.0.0.0", (), 1)):
        caplog.clear()
        HaListener(ListenOptions((host, 0), allow), source, StoreConfig()).close()
        assert caplog.text.count("without a password") == warned


def test_the_port_is_free_after_close(tmp_path: Path):
    store = open_listening(tmp_path)
    address = address_of(store)
    line = Line(address, put(store, 1))
    store.close()
    assert line.hung_up() == b""
    with socket.create_server(address):
        pass
    line.close()
    with pytest.raises(ConnectionRefusedError):
        Line(address)


def test_a_listener_may_be_closed_before_its_store(tmp_path: Path):
    with open_listening(tmp_path) as store:
        assert store.ha is not None
        with Line(address_of(store), put(store, 1)) as line:
            assert within(lambda: states(store) == ["transfer"])
            store.ha.close()
            store.ha.close()
            assert line.hung_up() == b"" and states(store) == []
        put(store, 5)


def test_one_thread_serves_all(tmp_path: Path):
    with open_listening(tmp_path) as store, ExitStack() as stack:
        before = threading.active_count()
        for _ in range(32):
            stack.enter_context(Line(address_of(store), 0))
        assert within(lambda: states(store) == ["transfer"] * 32)
        assert threading.active_count() == before
        assert [thread.name for thread in threading.enumerate()].count("flintmq-ha") == 1


def test_a_follower_that_has_gone_before_it_is_accepted(listen: Callable[..., tuple[HaListener, Source]]):
    served, source = listen()
    for _ in range(20):
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
            one.connect(served.address)
    with Line(served.address, source.high - 1) as line:
        assert line.frame() is not None


def test_no_descriptor_is_left(listen: Callable[..., tuple[HaListener, Source]], monkeypatch: pytest.MonkeyPatch):
    """Nobody is accepted for a while, and the others are served."""
    monkeypatch.setattr(listener_module, "PAUSE_S", 0.2)
    served, source = listen()
    with Line(served.address, 100) as line:
        line.up_to(source.high)

        class Full:
            def accept(self) -> None:
                self.asked = True
                raise OSError(errno.EMFILE, "Too many open files")

            def __getattr__(self, name: str) -> Any:
                return getattr(real, name)

        real, full = served._server, Full()
        listener: Any = served
        key = listener._selector.get_key(real)
        listener._server = full
        listener._selector._fd_to_key[key.fd] = key._replace(fileobj=full)
        monkeypatch.setattr(listener._selector, "unregister", lambda one: type(listener._selector).unregister(listener._selector, real if one is full else one))  # fmt: skip  # noqa: E501
        with Line(served.address, source.high - 1) as late:
            assert within(lambda: getattr(full, "asked", False))
            listener._server = real
            line.report(source.high)
            assert within(lambda: served.followers()[0].acknowledged == source.high)
            assert late.frame() is not None, "accepted after the pause"


def test_an_error_ends_one_line_and_no_other(
    listen: Callable[..., tuple[HaListener, Source]], caplog: pytest.LogCaptureFixture
):
    served, source = listen()
    real, errors = source.open, [ValueError("of a test"), StoreAccessError("log: may not be read"), OSError(5, "disk")]

    def fails(offset: int) -> LogPart | None:
        if errors:
            raise errors.pop()
        return real(offset)

    source.open = fails  # type: ignore[method-assign]
    with Line(served.address, source.high) as other:
        for _ in range(3):
            with Line(served.address, 100) as line:
                assert line.hung_up() == b""
        with Line(served.address, 100) as line:
            assert line.up_to(source.high) == source.data[100:]
        assert not other.more(0.01) and not other.closed
    for said in ("an error in the listener", "log: may not be read", "the line broke (disk)"):
        assert said in caplog.text


def test_an_error_of_the_whole_thread_is_logged(
    listen: Callable[..., tuple[HaListener, Source]], caplog: pytest.LogCaptureFixture
):
    served, source = listen()
    real, errors = source.end, [ValueError("of a test")]
    with Line(served.address, source.high) as line:
        assert within(lambda: [one.state for one in served.followers()] == ["transfer"])

        def fails() -> int:
            if errors and threading.current_thread().name == "flintmq-ha":
                raise errors.pop()
            return real()

        source.end = fails  # type: ignore[method-assign]
        assert within(lambda: not errors)
        line.report(source.high)
        assert not line.more(0.05) and not line.closed
    assert "goes on after an error" in caplog.text


FORKING = """
import os, socket, sys, time
from flintmq import Message, MessageStore
store = MessageStore(sys.argv[1], dev=True, ha_listen=("127.0.0.1", 0))
store.put(Message("T", b"x"))
line = socket.create_connection(store.ha.address)
line.sendall(bytes(8))
line.recv(4096)
child = os.fork()
if not child:
    line.close()
    sys.stdin.readline()  # until the test has looked
    os._exit(0)
address = store.ha.address
line.sendall(bytes(8))
store.put(Message("T", b"y"))
assert line.recv(4096), "the parent goes on"
store.close()
line.settimeout(5)
try:
    while line.recv(4096):
        pass
except ConnectionResetError:  # the report had not been read when the line was closed
    pass
# closed: no copy of the socket is open in the child
socket.create_server(address).close()
print("free")
sys.stdout.flush()
os.waitpid(child, 0)
"""


def test_a_forked_child_keeps_no_socket(tmp_path: Path):
    done = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", FORKING, str(tmp_path / "store")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert done.stdout is not None
        # The child has the pipe too, so without a limit a parent that failed would be waited for without end.
        said = select.select([done.stdout], [], [], 60)[0] and done.stdout.readline()
    finally:
        out, err = done.communicate("\n", timeout=20)
    assert (said, done.returncode, err) == ("free\n", 0, "")


def test_a_store_that_does_not_listen_has_no_part_of_it(tmp_path: Path):
    code = (
        "import sys; from flintmq import Message, MessageStore\n"
        f"with MessageStore({str(tmp_path)!r}, dev=True) as store: store.put(Message('T', b'x'))\n"
        "assert not [name for name in sys.modules if name.startswith('flintmq.ha')]\n"
        "assert store.ha is None"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
