"""Verify in the background: its progress, its findings, its stop."""

import html
import json
import re
import shutil
import time
from pathlib import Path

import pytest

from flintmq.errors import UsageError
from flintmq.message import Message
from flintmq.store.message_store import MessageStore
from flintmq.ui import health
from tests.cli.conftest import Run, run  # noqa: F401
from tests.ui.conftest import SMALL, Asker, TestClient, digests


def check(client: TestClient, action: str = "start") -> None:
    answer = client.post("/0/health", data={"action": action, "key": client.ui.key})
    assert answer.status_code == 303 and answer.headers["location"] == "/0/health"
    client.ui.checks[0].wait(60)


def test_a_sound_store(ask: Asker, run: Run, shop: Path):  # noqa: F811
    client, before = ask(shop), digests(shop)
    assert "Not checked yet" in client.get("/0/health").text
    check(client)
    assert "No defects" in client.get("/0/health").text
    assert client.get("/0/health?format=json").text == run("verify", shop, "--json").out
    assert digests(shop) == before


def test_a_finding_has_its_bytes_and_its_mend(ask: Asker, run: Run, tmp_path: Path):  # noqa: F811
    root = tmp_path / "store"
    with MessageStore(root, config=SMALL) as store:
        for number in range(20):
            store.put(Message("T", b"body %d" % number))
    log = next((root / "commitlog").iterdir())
    data = bytearray(log.read_bytes())
    data[data.index(b"body 7")] ^= 0xFF
    log.write_bytes(data)
    client = ask(root)
    client.ui.settings = ["--set", "maxIndexNum=256"]  # as the server was given it
    check(client)
    page = client.get("/0/health").text
    assert "record-damaged" in page and f"flintmq salvage {root} --in-place --set maxIndexNum=256" in page
    found = client.get("/0/finding?number=0").text
    assert "this writes" in found and f"flintmq salvage {root} --in-place --set maxIndexNum=256" in found
    assert client.get("/0/health?format=json").text == run("verify", root, "--json").out
    defects = client.ui.checks[0].findings.defects
    assert f"the check found {len(defects)} defect" in client.get("/").text
    for number, defect in enumerate(defects):
        found = client.get(f"/0/finding?number={number}")
        assert found.status_code == 200 and defect.code in found.text
    assert client.get(f"/0/finding?number={len(defects)}").status_code == 404


def test_a_lost_unit_leads_to_its_place_in_the_queue_and_to_its_message(ask: Asker, damaged: Path):
    client = ask(damaged)
    check(client)
    codes = [one.code for one in client.ui.checks[0].findings.defects]
    page = client.get(f"/0/finding?number={codes.index('unit-missing')}").text
    link = re.search(r'href="(/0/queue[^"]+)">The queue from there on', page)
    assert link is not None and "offset=40" in link[1]
    assert "consumers pass over it" in client.get(html.unescape(link[1])).text
    page = client.get("/0/message?topic=Orders&queue=0&offset=40").text
    assert "stored, and passed over" in page and "<b>delivered</b>" not in page


def test_a_check_that_was_stopped_does_not_hide_what_a_whole_one_found(ask: Asker, damaged: Path, monkeypatch):
    client = ask(damaged)
    check(client)
    count = client.ui.checks[0].findings.defect_count
    real = health.verify
    monkeypatch.setattr(health, "verify", lambda *words, stop, **more: real(*words, stop=lambda: True, **more))
    check(client)
    assert client.ui.checks[0].found.stopped is not None and count == 2
    assert "found 2 defects" in client.get("/0/health").text and "the check found 2 defects" in client.get("/").text


def test_a_running_check_shows_how_far_it_is_and_stops(ask: Asker, tmp_path: Path, monkeypatch):
    root = tmp_path / "store"
    with MessageStore(root, config=SMALL) as store:
        store.put(Message("T", b"x"))

    def slowly(root, config, progress, stop, findings):
        progress(3 << 20, 4 << 20)
        while not stop():
            time.sleep(0.01)
        raise UsageError("stopped by the test")

    monkeypatch.setattr(health, "verify", slowly)
    client = ask(root)
    client.post("/0/health", data={"action": "start", "key": client.ui.key})
    while not client.ui.checks[0].total:
        time.sleep(0.01)
    page = client.get("/0/health").text
    assert "75 %" in page and 'http-equiv="refresh"' in page
    assert json.loads(client.get("/0/health?format=json").text)["running"] is True
    check(client, "stop")
    assert "stopped by the test" in client.get("/0/health").text


@pytest.mark.parametrize("by", ["another", "longer", "copy", "empty", "none"])
def test_a_check_is_not_shown_as_that_of_a_store_that_took_its_place(
    ask: Asker,
    damaged: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    by: str,
):
    monkeypatch.setattr("flintmq.ui.stores.FRESH_S", 0.0)
    root = Path(shutil.copytree(damaged, tmp_path / "store"))
    client = ask(root)
    check(client)
    assert "found 2 defects" in client.get("/").text and client.get("/0/finding?number=0").status_code == 200
    (tmp_path / "away").mkdir()
    for one in [] if by == "none" else [root] if by == "copy" else list(root.iterdir()):  # the directory may stay
        one.rename(tmp_path / "away" / one.name)
    if by == "copy":
        shutil.copytree(damaged, root)
    elif by != "none":
        with MessageStore(root, config=SMALL) as store:
            for number in range({"another": 3, "longer": 2000, "empty": 0}[by]):
                store.put(Message("T", bytes(300), keys=f"k{number}"))
    page, is_same = client.get("/0/health").text, by == "none"
    assert ("2 defects" in page) is ("2 defects" in client.get("/").text) is is_same
    assert ("was of another store" in page) is not is_same
    assert (client.get("/0/finding?number=0").status_code == 200) is is_same
    assert ('"kind":"progress"' in client.get("/0/health?format=json").text) is not is_same
    check(client)
    assert "was of another store" not in client.get("/0/health").text


def test_a_check_during_which_the_store_is_replaced_is_of_neither(ask: Asker, tmp_path: Path, monkeypatch):
    monkeypatch.setattr("flintmq.ui.stores.FRESH_S", 0.0)
    root = tmp_path / "store"
    real = health.verify

    def replaced(path, *words, **more):
        root.rename(tmp_path / "away")
        with MessageStore(root, config=SMALL) as store:
            store.put(Message("T", b"of the other", keys="k"))
        return real(path, *words, **more)

    with MessageStore(root, config=SMALL) as store:
        store.put(Message("T", b"x"))
    client = ask(root)
    monkeypatch.setattr(health, "verify", replaced)
    check(client)
    assert "No defects" not in client.get("/0/health").text


def test_a_check_of_a_store_that_is_written_meanwhile_is_shown(ask: Asker, tmp_path: Path, monkeypatch):
    monkeypatch.setattr("flintmq.ui.stores.FRESH_S", 0.0)
    with MessageStore(tmp_path / "store", config=SMALL) as store:
        client = ask(tmp_path / "store")
        check(client)
        assert "No defects" in client.get("/0/health").text
        store.put(Message("T", b"one"))
        assert "No defects" in client.get("/0/health").text
        check(client)
        store.put(Message("T", b"two"))
        assert "No defects" in client.get("/0/health").text
    assert "No defects" in client.get("/0/health").text
