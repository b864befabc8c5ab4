"""Searches: what is found, by what, and what was left out."""

import html
import json
import re
import shlex
import sys
import zlib
from pathlib import Path

import pytest

from flintmq.errors import UsageError
from flintmq.message import Message
from flintmq.store.message_store import MessageStore
from flintmq.store.view import open_store
from flintmq.ui import search
from flintmq.ui.asked import Ask
from tests.cli.conftest import Run, run  # noqa: F401
from tests.ui.conftest import SMALL, Asker, TestClient


def hits(client: TestClient, **values: str) -> list[search.Hit | search.SoFar | search.SearchEnding]:
    page = search.search(client.ui, None, Ask(values))
    return list(page.words["hits"])


def offsets(
    found: list[search.Hit | search.SoFar | search.SearchEnding], topic: str = "Orders"
) -> list[tuple[int, int]]:
    return [
        (hit.message.queue_id, hit.message.queue_offset)
        for hit in found
        if isinstance(hit, search.Hit) and hit.message.topic == topic
    ]


def test_a_key_is_found_by_the_index_and_once(ask: Asker, shop: Path):
    found = hits(ask(shop), q="order-42")
    assert [hit.how for hit in found if isinstance(hit, search.Hit)] == ["index"]
    assert found[0].message.keys == "order-42"
    assert isinstance(found[-1], search.SearchEnding) and found[-1].whole and "1 message found" in found[-1].text


def test_the_json_of_a_search_has_what_its_page_finds(ask: Asker, tmp_path: Path):
    with MessageStore(tmp_path / "store", config=SMALL) as store:
        for keys, body in (("carla", b"of carla"), ("other", b"to carla"), ("carla", b"alone"), ("x", b"y")):
            store.put(Message("T", body, keys=keys))
    client = ask(tmp_path / "store")
    shown = [hit.message.queue_offset for hit in hits(client, q="carla") if isinstance(hit, search.Hit)]
    lines = client.get("/search?q=carla&format=json").text.splitlines()
    assert sorted(json.loads(line)["queue_offset"] for line in lines) == sorted(shown) == [0, 1, 2]
    assert len(client.get("/search?q=carla&limit=2&format=json").text.splitlines()) == 2
    for odd, count in (("q=+carla+&limit=0", 1), ("since=0", 4), ("q=", 0)):
        assert len(client.get(f"/search?{odd}&format=json").text.splitlines()) == count, odd


def test_ids_of_three_kinds(ask: Asker, tmp_path: Path):
    with MessageStore(tmp_path / "store", config=SMALL) as store:
        store.put(Message("T", b"first", keys="k"))
        store.put(Message("T", b"retried", properties={"ORIGIN_MESSAGE_ID": "7F0000010000"}))
    with open_store(tmp_path / "store") as view:
        one = view.get("T", 0, 0)
    client = ask(tmp_path / "store")
    for text, how in ((one.msg_id, "auto"), (one.offset_msg_id, "auto"), (one.offset_msg_id.lower(), "key")):
        found = hits(client, q=text, how=how)
        assert [hit.message.body for hit in found if isinstance(hit, search.Hit)] == [b"first"], text
    found = hits(client, q="ORIGIN_MESSAGE_ID=7F0000010000", how="property")
    assert [hit.message.body for hit in found if isinstance(hit, search.Hit)] == [b"retried"]


def test_text_topic_tag_and_time(ask: Asker, shop: Path):
    client = ask(shop)
    # of 600 orders every fifth has the note, of which every third is `created`
    assert len(offsets(hits(client, q="白茶", how="text", limit="1000"))) == 120
    assert len(offsets(hits(client, q="白茶", how="text", tag="created", limit="1000"))) == 40
    assert not offsets(hits(client, q="白茶", how="text", topic="Payments"))
    assert len(offsets(hits(client, topic="Payments", limit="1000"), "Payments")) == 60
    assert not offsets(hits(client, topic="Payments", until="2001-01-01"), "Payments")
    assert len(offsets(hits(client, q="region=cn", how="property", limit="1000"))) == 200


def test_a_limit_is_said(ask: Asker, shop: Path):
    found = hits(ask(shop), topic="Orders", limit="5")
    assert len(offsets(found)) == 5
    assert isinstance(found[-1], search.SearchEnding) and not found[-1].whole and "there are more" in found[-1].text


def test_the_next_ones_follow_where_a_page_ended(ask: Asker, run: Run, shop: Path):  # noqa: F811
    client, place = ask(shop), "/search?topic=Orders&limit=250"
    found: list[str] = []
    while place:
        page = client.get(place).text
        command = shlex.split(html.unescape(re.findall(r'<code id="command-1">(.*?)</code>', page)[0]))[1:]
        lines = client.get(f"{place}&format=json").text
        assert lines == run(*command, "--json").out
        found += [json.loads(line)["keys"] for line in lines.splitlines()]
        assert len(re.findall('class="keys"', page)) == lines.count("\n")
        more = re.search(r'rel="next" href="([^"]+)"', page)
        place = html.unescape(more[1]) if more else ""
    assert found == [f"order-{number}" for number in range(600)]


def test_a_search_goes_on_where_its_time_ended(ask: Asker, shop: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(search, "SECONDS", -1.0)
    client = ask(shop)
    ending = hits(client, q="no-such", how="text", begin="5000")[-1]
    assert isinstance(ending, search.SearchEnding) and ending.how == "text" and ending.begin is not None
    assert 5000 <= ending.begin <= client.ui.stores.all[0].view().max_physical_offset
    for begin in ("1", str((1 << 63) - 1)):
        assert client.get(f"/search?q=order-599&how=key&begin={begin}").status_code == 200


def test_what_is_lost_is_said_of_what_was_searched(ask: Asker, damaged: Path):
    client = ask(damaged)
    found = hits(client, q="order-30")
    with open_store(damaged) as view:
        at = view.get("Orders", 0, 26)
    where = at.physical_offset + at.size
    lost = [one for one in found if isinstance(one, search.UnreadableHit)]
    assert [(one.offset, one.reason) for one in lost] == [(where, "body CRC is wrong")]
    page = client.get("/search?q=order-30").text
    assert f"the index has this key at log offset {where}, where no record can be read" in page
    orders = (hit for hit in hits(client, topic="Orders", limit="60") if isinstance(hit, search.Hit))
    passed = {hit.message.keys: hit.passed_over for hit in orders}
    assert passed.pop("order-45") and len(passed) > 50 and not any(passed.values())
    assert "consumers pass over it" in client.get("/search?q=order-45").text


def test_topics_are_offered_if_they_are_few(ask: Asker, shop: Path, monkeypatch: pytest.MonkeyPatch):
    page = ask(shop).get("/search").text
    assert '<option value="Orders">' in page and '<option value="订单通知">' in page
    monkeypatch.setattr(search, "TOPICS_OFFERED", 2)
    assert '<option value="Orders">' not in ask(shop).get("/search").text


def test_nothing_is_said(ask: Asker, shop: Path):
    page = ask(shop).get("/search?q=no-such-thing").text
    assert "nothing found in the keys and ids of" in page and "the bodies, as stored, of" in page


def test_damage_is_said(ask: Asker, tmp_path: Path):
    with MessageStore(tmp_path / "store", config=SMALL) as store:
        for number in range(20):
            store.put(Message("T", b"body %d" % number))
    log = next((tmp_path / "store" / "commitlog").iterdir())
    data = bytearray(log.read_bytes())
    data[data.index(b"body 7")] ^= 0xFF
    log.write_bytes(data)
    found = hits(ask(tmp_path / "store"), q="body", how="text")
    assert len(offsets(found, "T")) == 19
    assert not found[-1].whole and "1 place could not be read" in found[-1].text


def test_a_store_that_cannot_be_read_does_not_hide_the_others(ask: Asker, shop: Path, tmp_path: Path):
    with MessageStore(tmp_path / "b", config=SMALL) as store:
        store.put(Message("T", b"x"))
    client = ask(tmp_path / "b", shop)
    for file in (tmp_path / "b" / "commitlog").iterdir():
        file.unlink()
    (tmp_path / "b" / "commitlog").rmdir()
    found = hits(client, q="order-1", how="key")
    endings = [one for one in found if isinstance(one, search.SearchEnding)]
    assert [one.whole for one in endings] == [False, True] and len(offsets(found)) == 1


def test_too_many_searches_are_refused(ask: Asker, shop: Path):
    client = ask(shop)
    running = [search.search(client.ui, None, Ask({"q": "a", "how": "text"})).words["hits"] for _ in range(4)]
    for one in running:
        next(one)
    with pytest.raises(UsageError, match="as many searches"):
        hits(client, q="a")
    running[0].close()
    assert hits(client, q="a")


def test_a_search_ends_in_time(ask: Asker, shop: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(search, "SECONDS", 0.0)
    found = hits(ask(shop), q="x", how="text")
    assert isinstance(found[-1], search.SearchEnding) and not found[-1].whole and "stopped after" in found[-1].text


def test_zones_left_out_are_said(ask: Asker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("flintmq.store.commitlog.zones.ZONE_BYTES", 1 << 16)
    monkeypatch.setattr("flintmq.store.commitlog.zones.are_worth_it", lambda log: True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FLINTMQ_ZONE_MAPS")
    with MessageStore(tmp_path / "store", config=SMALL) as store:
        for number in range(4000):
            store.put(Message("T", bytes(500), keys=f"k{number}"))
    client = ask(tmp_path / "store")
    hits(client, q="k3999", how="key")  # makes the zones
    found = hits(client, q="k3999", how="key")
    assert "left out: their zones say" in found[-1].text, found[-1]


def test_a_topic_that_no_store_has_is_said_with_a_near_one(ask: Asker, run: Run, shop: Path, tmp_path: Path):  # noqa: F811
    with MessageStore(tmp_path / "other", config=SMALL) as store:
        store.put(Message("Others", b"x"))
    for stores in ([shop], [shop, tmp_path / "other"]):
        client = ask(*stores)
        for words in ("q=order-7&", "", "q=x&how=text&", "since=2000-01-01&"):
            page = html.unescape(client.get(f"/search?{words}topic=order").text)
            assert "topic 'order': there is no such topic" in page and ">topic Orders</a>" in page, page
            answer = json.loads(client.get(f"/search?{words}topic=order&format=json").text)
            assert (answer["exit_code"], answer["error"]) == (
                7,
                "MessageNotFoundError",
            ) and "there is no such topic" in answer["message"], answer
        assert "there is no such topic" in client.get("/search?topic=zzzzzzz").text
        for place in ("q=nothing&topic=Orders", "q=order-7&topic=Payments", "q=nothing"):
            assert "no such topic" not in client.get(f"/search?{place}").text, place
            assert '"exit_code"' not in client.get(f"/search?{place}&format=json").text, place
    assert "no such topic" not in client.get("/search?topic=Others").text  # of the second store
    assert "no such topic" in client.get("/search?topic=Others&store=1").text
    assert run("scan", shop, "--topic", "order").code == 7


def test_a_topic_of_which_only_the_log_knows_is_none_that_is_not_there(ask: Asker, tmp_path: Path):
    with MessageStore(tmp_path / "store", config=SMALL) as store:
        store.put(Message("Gone", b"x"))
        store.delete_topic("Gone")
    page = ask(tmp_path / "store").get("/search?topic=Gone").text
    assert "1 message found" in page and "no such topic" not in page


def test_compressed_bodies_that_were_left_out_are_said(ask: Asker, tmp_path: Path, monkeypatch):
    packed = zlib.compress(b"find me, packed")
    sent = [(b"find me", 0), (packed, 1), (b"no ZLIB", 1), (packed[:-5], 1), (b"\x28\xb5\x2f\xfd", 1 | 2 << 8)]
    sent += [(b"", 1 | 5 << 8), (b"find me, too", 0)]
    with MessageStore(tmp_path / "store", config=SMALL) as store:
        for body, flag in sent:
            store.put(Message("T", body, sys_flag=flag))
        store.put(Message("Other", b"no ZLIB", sys_flag=1))
    client = ask(tmp_path / "store")
    for name in ("compression", "backports"):
        monkeypatch.setitem(sys.modules, name, None)
    for how, words in (("text", "find me"), ("auto", "find me"), ("auto", "find")):
        found = hits(client, q=words, how=how, topic="T", unpack="1")
        assert offsets(found, "T") == [(0, 0), (0, 1), (0, 6)]
        assert not found[-1].whole and "; 4 compressed bodies left out, from offset " in found[-1].text, found[-1]
        assert "the body is no ZLIB stream" in found[-1].text  # the first of them
    line = client.get("/search?q=find&how=text&topic=Other&unpack=1&format=json").json()
    assert line["exit_code"] == 1 and "as stored, from offset " in line["message"]
    found = hits(client, q="order", how="key", topic="T", unpack="1")
    assert found[-1].whole and "left out" not in found[-1].text
    found = hits(client, q="find me", how="text", topic="T")
    assert offsets(found, "T") == [(0, 0), (0, 6)] and "the bodies, as stored, of" in found[-1].text
