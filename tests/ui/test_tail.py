"""New messages by events: what comes, what passes, what a sleeping reader costs."""

import json
import time
from pathlib import Path

import pytest

from flintmq.cli.body_option import Bodies
from flintmq.cluster.members import find_members
from flintmq.config.keys import StoreConfig
from flintmq.message import Message
from flintmq.store.message_store import MessageStore
from flintmq.ui import tail
from flintmq.ui.server import UiServer
from labs import ui_tail
from tests.ui.conftest import SMALL, Asker
from tests.ui.test_server import PAGE


def followed(root: Path, tag: str = "", text: str = "") -> tail.TailFeed:
    ui = Ui_of(root)
    found = tail.TailFeed(ui.stores.all[0], "T", tag, text)
    assert found.ready.wait(20)
    return found


def Ui_of(root: Path):
    from flintmq.ui.app import Ui

    return Ui(find_members(str(root), StoreConfig()), StoreConfig(), Bodies(False))


def taken(one: tail.TailFeed, count: int) -> tuple[list[bytes], int]:
    bodies, passed, until = [], 0, time.monotonic() + 20
    while len(bodies) + passed < count and time.monotonic() < until:
        rows, more = one.take()
        bodies += [row.body for row in rows]
        passed += more
        time.sleep(0.05)
    return bodies, passed


def test_new_messages_come_and_old_ones_do_not(tmp_path: Path):
    with MessageStore(tmp_path / "store", config=SMALL) as store:
        store.put(Message("T", b"old"))
        one = followed(tmp_path / "store", tag="A", text="wanted")
        try:
            store.put(Message("T", b"wanted 1", tags="A"))
            store.put(Message("T", b"wanted by another tag", tags="B"))
            store.put(Message("T", b"not", tags="A"))
            store.put(Message("Other", b"wanted", tags="A"))
            store.put(Message("T", b"wanted 2", tags="A"))
            assert taken(one, 2) == ([b"wanted 1", b"wanted 2"], 0)
        finally:
            one.stop.set()


def test_what_nobody_takes_is_counted_not_kept(tmp_path: Path):
    with MessageStore(tmp_path / "store", config=SMALL) as store:
        store.put(Message("T", b"old"))
        one = followed(tmp_path / "store")
        try:
            for number in range(1000):
                store.put(Message("T", b"%d" % number))
            until = time.monotonic() + 20
            while one._came < 1000 and time.monotonic() < until:
                time.sleep(0.05)
            rows, passed = one.take()
            assert [row.body for row in rows] == [b"%d" % n for n in range(1000 - tail.ROWS, 1000)]
            assert passed == 1000 - tail.ROWS
        finally:
            one.stop.set()


def test_events_are_json_without_markup(tmp_path: Path):
    import socket

    with MessageStore(tmp_path / "store", config=SMALL) as store:
        store.put(Message("T", b"old"))
        with UiServer(Ui_of(tmp_path / "store"), "127.0.0.1", 0) as server:
            with socket.create_connection(("127.0.0.1", server.port), 20) as line:
                line.sendall(PAGE.format("/0/tail/events?topic=T").encode())
                got = b""
                while b'"rows": []' not in got:
                    got += line.recv(65536)
                store.put(Message("T", b"\n\ndata: forged\n\n</script>", keys="k"))
                until = time.monotonic() + 20
                while b"forged" not in got and time.monotonic() < until:
                    got += line.recv(65536)
    events = [line for line in got.decode().splitlines() if line.startswith("data: ")]
    row = json.loads(events[-1][6:])["rows"][0]
    assert row["body"] == "\\n\\ndata: forged\\n\\n</script>" and row["keys"] == "k"
    assert row["href"].startswith("/0/message?topic=T&queue=0&offset=1&at=")


@pytest.mark.parametrize(("most", "wrong"), [(60.0, 0), (0.0, 1)])
def test_a_short_run_under_a_fast_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], most: float, wrong: int
):
    monkeypatch.setattr(ui_tail, "LATE_S", most)
    assert ui_tail.run(str(tmp_path), 0.1, 1000, 2) == wrong
    minute, whole = capsys.readouterr().out.splitlines()
    assert minute.startswith("minute 1: new rows ") and "; 0 events" not in minute
    assert int(whole.split()[0]) > 1000


def test_what_was_not_looked_at_is_said(ask: Asker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with MessageStore(tmp_path / "store", config=SMALL) as store:
        for number in range(200):
            store.put(Message("T", b"%d" % number, tags="rare" if number < 5 else "often"))
    client = ask(tmp_path / "store")
    page = client.get("/0/tail?topic=T&tag=rare").text
    assert ">4</td>" in page and "not looked at" not in page
    monkeypatch.setattr("flintmq.forensics.topic_tail.LOOKED_BACK", 30)
    page = client.get("/0/tail?topic=T&tag=rare").text
    assert ">4</td>" not in page and "Older messages were not looked at" in page
    page = client.get("/0/tail?topic=T&text=199").text
    assert page.count('class="body"') == 1 and "Of the newest 20, those whose bodies, as stored, hold the text" in page
