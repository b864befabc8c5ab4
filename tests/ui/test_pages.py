"""Each page shows what its command gives: its JSON is the command's, to the letter."""

import base64
import hashlib
import html
import json
import os
import re
import shlex
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import pytest

from flintmq.message import Message
from flintmq.store.message_store import MessageStore
from flintmq.store.view import open_store
from flintmq.ui.page import local_text
from tests.cli.conftest import Run, basic, run  # noqa: F401
from tests.compat.stores import Golden
from tests.support.object_server import Server
from tests.ui.conftest import SMALL, Asker, TestClient


def commands_of(page: str) -> list[list[str]]:
    """The commands that a page names, without `flintmq`."""
    found = re.findall(r'<code id="command-\d+">(.*?)</code>', page, re.S)
    return [shlex.split(html.unescape(one))[1:] for one in found]


BROKER_CONF = """
brokerName = broker a
fileReservedTime = 48
messageDelayLevel = 1s 5s 10s
mappedFileSizeCommitLog = 1048576
maxHashSlotNum = 99
osPageCacheBusyTimeOutMills = 700
namesrvAddr = elsewhere:9876
"""
"""Keys that act, one of them wrongly (--set says otherwise); one without effect; and one that is not the store's."""


@pytest.mark.parametrize("given", [False, True], ids=["plain", "--config and --set"])
def test_a_page_is_its_commands_json(ask: Asker, run: Run, shop: Path, tmp_path: Path, given: bool):  # noqa: F811
    conf = tmp_path / "broker a.conf"
    conf.write_text(BROKER_CONF)
    keys = {"maxHashSlotNum": "64", "maxIndexNum": "256"}
    client = ask(shop, keys=keys, broker_conf=conf) if given else ask(shop)
    client.post("/0/health", data={"action": "start", "key": client.ui.key})
    client.ui.checks[0].wait(60)
    places = [
        "/0/", "/0/topics", "/0/groups", "/0/group?name=billing", "/0/waiting", "/0/waiting?what=timers",
        "/0/topic?name=Orders", "/0/queue?topic=Orders&queue=1", "/0/health", "/0/retention",
        "/0/queue?topic=Orders&queue=0&offset=100", "/0/message?topic=Orders&queue=0&offset=7", "/0/bytes?at=0",
        "/search?q=order-7&how=key", "/search?q=sku-2&how=text&topic=Orders", "/search?q=region%3Dcn&how=property",
        "/0/tail?topic=Orders",
    ]  # fmt: skip
    for place in places:
        page = client.get(place)
        assert page.status_code == 200, (place, page.text)
        first, *others = [[word for word in one if word != "--follow"] for one in commands_of(page.text)]
        assert ("--set" in first) is given and ("maxHashSlotNum=64" in first) is given, first
        if place == "/0/tail?topic=Orders":
            first += ["--limit", "20"]
        if place != "/0/waiting":  # whose commands are one page
            for command in others:
                assert run(*command, "--json").code == 0, command
            others = []
        printed = "".join(run(*command, "--json").out for command in (first, *others))
        given_json = client.get(place + ("&" if "?" in place else "?") + "format=json").text
        if place == "/0/retention":  # it has the present time
            printed, given_json = (re.sub(r'"at":[0-9]+', "", text) for text in (printed, given_json))
            assert ('"reserved_hours":48' in printed) is given and ("--config" in first) is given
        assert given_json == printed, (place, first)
        assert given_json or place == "/0/waiting", place


ENDS = {
    "/0/topic?name=Payments": 0,
    "/0/queue?topic=Orders&queue=0&offset=20": 1,
    "/0/queue?topic=Orders&queue=1": 0,
    "/0/tail?topic=Orders": 0,  # whose newest messages are sound
    "/0/waiting?what=dead": 0,
    "/search?q=order-7&how=key": 1,
    "/search?topic=Orders&limit=5": 0,
    "/search?q=no-such&how=text": 1,
    "/search?q=no-such": 1,
    "/search?topic=NoSuch": 1,
}


@pytest.mark.parametrize("place", ENDS)
def test_json_ends_with_what_the_exit_code_says(ask: Asker, run: Run, damaged: Path, place: str):  # noqa: F811
    """Where the command ends with 1, as damage may hide some."""
    client = ask(damaged)
    [*_, command] = [[word for word in one if word != "--follow"] for one in commands_of(client.get(place).text)]
    done = run(*command, *(["--limit", "20"] if "/tail" in place else []), "--json")
    lines = client.get(f"{place}&format=json").text.splitlines()
    told = json.loads(lines.pop()) if done.code else {"exit_code": 0, "message": ""}
    assert (told["exit_code"], lines) == (done.code, done.out.splitlines()) and done.code == ENDS[place]
    assert told["message"].startswith("the answer may be incomplete: ") == bool(done.code)


def test_a_command_takes_names_that_begin_with_a_dash(
    ask: Asker,
    run: Run,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    with MessageStore("-store", config=SMALL) as store:
        for topic in ("-t", "--limit", "--"):
            for number in range(60):
                store.put(Message(topic, b"-body --limit %d" % number, keys=f"-k{number}", tags="-tag"))
        store.put(Message("%DLQ%-g", b"dead", keys="-dead"))
    client = ask("-store", keys={"maxIndexNum": "256"})
    places = ["/0/", "/0/bytes?at=0", "/0/waiting?what=dead&group=-g", "/0/health", "/0/retention"]
    for topic in ("-t", "--limit", "--"):
        place = f"topic={topic}&queue=0"
        places += [f"/0/topic?name={topic}", f"/0/queue?{place}", f"/0/queue?{place}&offset=2"]
        places += [f"/0/message?{place}&offset=7", f"/0/tail?topic={topic}&tag=-tag"]
        places += [f"/search?q=-k{number}&how=key&topic={topic}&tag=-tag" for number in (1, 2)]
        places += [f"/search?q=-b&how=text&topic={topic}", f"/search?q=--limit&how=text&topic={topic}"]
    client.post("/0/health", data={"action": "start", "key": client.ui.key})
    client.ui.checks[0].wait(60)
    for place in places:
        page = client.get(place)
        assert page.status_code == 200, (place, page.text)
        first, *others = [[word for word in one if word != "--follow"] for one in commands_of(page.text)]
        assert "maxIndexNum=256" in first, first
        for command in (first, *others):  # each has an argument that begins with a dash: the store
            at = command.index("--")
            more = ["--limit", "20"] if "/tail" in place else []
            done = run(*command[:at], *more, "--json", *command[at:])
            assert done.code == 0, (command, done.err)
            if command is first and "?" in place:
                assert client.get(f"{place}&format=json").text == done.out != "", (place, command)


def test_the_command_that_mends_takes_a_store_whose_name_begins_with_a_dash(
    ask: Asker,
    run: Run,  # noqa: F811
    damaged: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(damaged, "-store")
    client = ask("-store")
    client.post("/0/health", data={"action": "start", "key": client.ui.key})
    client.ui.checks[0].wait(60)
    mends = re.findall("Mend: <code>flintmq (.*?)</code>", client.get("/0/health").text)
    assert len(mends) == 2
    for text in mends:
        done = run(*shlex.split(html.unescape(text)), "--dry-run")
        assert done.code == 0, (text, done.err)
    words = commands_of(client.get("/0/finding?number=0").text)[-1]
    assert run(*words, "--dry-run").code == 0, words


def test_a_command_has_the_keys_of_the_file(ask: Asker, shop: Path, tmp_path: Path):
    conf = tmp_path / "broker.conf"
    conf.write_text(BROKER_CONF)
    client = ask(shop, keys={"maxHashSlotNum": "64"}, broker_conf=conf)
    of_file = ["brokerName=broker a", "fileReservedTime=48", "mappedFileSizeCommitLog=1048576", "maxHashSlotNum=99"]
    of_file += ["messageDelayLevel=1s 5s 10s", "osPageCacheBusyTimeOutMills=700"]
    words = [word for one in [*sorted(of_file), "maxHashSlotNum=64"] for word in ("--set", one)]
    conf.unlink()  # the pages are those of the start
    page = client.get("/0/").text
    assert commands_of(page) == [["inspect", str(shop), *words]]
    named = commands_of(client.get("/0/message?topic=Orders&queue=0&offset=7").text)
    assert named[-1][0] == "trace" and named[-1][-4:] == ["--config", str(conf), "--set", "maxHashSlotNum=64"]


def test_golden_messages_are_as_java_reads_them(ask: Asker, golden: Callable[[str], Golden]):
    store = golden("basic")
    client = ask(store.path)
    for row in store.live[:: max(len(store.live) // 40, 1)]:
        given = client.get("/0/message?" + urlencode({"at": row["physical_offset"], "format": "json"}))
        assert given.status_code == 200, given.text
        found = given.json()
        names = ("topic", "queue_id", "queue_offset", "properties", "msg_id", "offset_msg_id", "store_timestamp")
        assert {name: found[name] for name in names} == {name: row[name] for name in names}
        assert hashlib.sha1(base64.b64decode(found["body"])).hexdigest() == row["body_sha1"]


def test_every_golden_store_has_its_pages(ask: Asker, golden_store: Golden):
    client = ask(golden_store.path)
    for page in ("", "topics", "groups", "waiting", "retention", "health", "tail"):
        answer = client.get(f"/0/{page}")
        assert answer.status_code == 200 and "<h1>" in answer.text, (page, answer.text)
    rows = golden_store.live
    if rows:
        answer = client.get(f"/0/bytes?at={rows[-1]['physical_offset']}")
        assert answer.status_code == 200 and "Fields" in answer.text


def test_several_stores_are_as_inspect_prints_them(
    ask: Asker,
    run: Run,  # noqa: F811
    shop: Path,
    hostile: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("flintmq.ui.stores.FRESH_S", 0.0)
    one, other = (shutil.copytree(store, tmp_path / name) for store, name in ((shop, "a"), (hostile, "b")))
    client = ask(one, other)
    page = client.get("/")
    assert page.status_code == 200 and "2 stores" in page.text
    assert client.get("/?format=json").text == run("inspect", one, other, "--json").out
    found = client.get("/search?q=order-7&how=key&format=json").text
    assert found == run("scan", one, other, "--key", "order-7", "--json").out
    shutil.rmtree(other)
    page = client.get("/")
    assert page.status_code == 200 and "cannot be read" in page.text  # the one that is there is shown all the same
    assert client.get("/1/").status_code == 404


def test_a_row_shows_what_a_message_has(ask: Asker, shop: Path):
    client = ask(shop)
    cells = ["order-599", "shipped", "0 / 535", "&#34;order&#34;: 599"]
    for place in (
        "/0/topic?name=Orders",
        "/0/queue?topic=Orders&queue=0",
        "/0/tail?topic=Orders",
        "/search?q=order-599",
    ):
        page = client.get(place).text
        assert all(cell in page for cell in cells), place
        assert " object at 0x" not in page and "built-in" not in page


def test_a_message_says_who_has_passed_it(ask: Asker, shop: Path):
    client = ask(shop)
    early = client.get("/0/message?topic=Orders&queue=0&offset=7").text
    late = client.get("/0/message?topic=Orders&queue=0&offset=400").text
    assert early.count("has passed it") == 2 and "has not read it" not in early
    assert late.count("has passed it") == 1 and "has not read it</b>, 100 before it" in late


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("/0/message?topic=Orders&queue=0&offset=99999", "the queue from offset 535 on"),
        ("/0/message?topic=Orders&queue=9&offset=0", "there is no such queue"),
        ("/0/topic?name=Order", "topic Orders"),
        ("/0/queue?topic=Orders&queue=77", "its queues"),
        ("/0/group?name=nobody", "there is no group nobody"),
        ("/0/bytes?at=99999999", "first record"),
        ("/0/message?at=3", "bytes there"),
        ("/0/message?topic=Orders&queue=0&offset=7&at=0", "another log"),
        ("/7/", "no store of this number"),
        ("/0/nothing", "no such page"),
        ("/0/finding?number=0", "no such finding"),
    ],
)
def test_what_is_not_there_names_the_nearest(ask: Asker, shop: Path, place: str, says: str):
    answer = ask(shop).get(place)
    assert answer.status_code == 404 and says in html.unescape(answer.text), answer.text


@pytest.mark.parametrize(
    "place",
    [
        "/0/queue?topic=Orders&queue=-1", "/0/queue?topic=Orders&queue=x", "/0/queue?topic=Orders&time=yesterday",
        "/0/message?id=nonsense", "/0/bytes?at=1e9", "/search?how=magic", "/search?how=property&q=nosign",
        "/search?since=-1m&until=-2m", "/0/topic", "/search?q=a&limit=99999999999999999999",
        "/0/topic?name=" + "x" * 5000,
    ],
)  # fmt: skip
def test_a_wrong_value_is_said(ask: Asker, shop: Path, place: str):
    answer = ask(shop).get(place)
    assert answer.status_code == 400 and 'role="alert"' in answer.text, answer.text


def test_a_store_that_goes_comes_and_is_replaced(ask: Asker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("flintmq.ui.stores.FRESH_S", 0.0)
    root = tmp_path / "store"
    with MessageStore(root, config=SMALL) as store:
        for number in range(5):
            store.put(Message("Old", b"%d" % number))
    client = ask(root)
    page = client.get("/0/topic?name=Old").text
    link = html.unescape(re.search(r'href="(/0/message[^"]+offset=3[^"]*)"', page)[1])
    assert client.get(link).status_code == 200
    root.rename(tmp_path / "away")
    assert client.get(link).status_code == client.get("/").status_code == 404
    with MessageStore(root, config=SMALL) as store:
        for number in range(5):
            store.put(Message("Old", b"another %d, longer" % number))
    answer = client.get(link)
    assert answer.status_code == 404 and "another log" in answer.text


def test_no_page_mixes_a_log_with_the_one_that_was_there_before(ask: Asker, tmp_path: Path, monkeypatch):
    monkeypatch.setattr("flintmq.ui.stores.FRESH_S", 0.0)
    root, client = tmp_path / "store", ask(tmp_path / "store")
    for topic, count in (("Old", 5), ("New", 50)):  # records of one size: each begins where one of the other log does
        with MessageStore(root, config=SMALL) as store:
            for number in range(count):
                store.put(Message(topic, b"%03d" % number))
        shutil.rmtree(root / "consumequeue")  # so that pages read the log
        page = client.get(f"/0/topic?name={topic}").text
        assert f"{count} messages" in page and f"{count - 1:03d}" in page
        assert client.get("/0/topic?name=Old").status_code == (200 if topic == "Old" else 404)
        root.rename(tmp_path / topic)


def test_a_store_that_is_written_meanwhile(ask: Asker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("flintmq.ui.stores.FRESH_S", 0.0)
    with MessageStore(tmp_path / "store", config=SMALL) as store:
        store.put(Message("T", b"one"))
        client = ask(tmp_path / "store")
        assert "in use" in client.get("/").text
        store.put(Message("T", b"two"))
        assert store.wait_dispatched(60)
        assert client.get("/0/topic?name=T&format=json").text.count("\n") == 2


def test_a_store_in_a_bucket(ask: Asker, golden: Callable[[str], Golden], objects: Server):
    store = golden("basic")
    client = ask(objects.put(store.path, "ui/basic"), keys=objects.keys)
    row = store.live[7]
    place = urlencode({"topic": row["topic"], "queue": row["queue_id"], "offset": row["queue_offset"]})
    for page in (
        "",
        "topics",
        "groups",
        "waiting",
        "retention",
        "tail",
        f"message?{place}",
        f"queue?{place}",
        "bytes?at=0",
    ):
        answer = client.get(f"/0/{page}")
        assert answer.status_code == 200, (page, answer.text)
    assert client.get(f"/0/message?{place}&format=json").json()["physical_offset"] == row["physical_offset"]
    assert "<b>delivered</b>" in client.get(f"/0/message?{place}").text
    assert "1 message found" in client.get(f"/search?q={row['msg_id']}").text


def test_an_empty_store(ask: Asker, tmp_path: Path):
    with MessageStore(tmp_path / "store", config=SMALL):
        pass
    client = ask(tmp_path / "store")
    for page in ("", "topics", "groups", "waiting", "retention", "tail", "health"):
        assert client.get(f"/0/{page}").status_code == 200, page
    assert client.get("/0/bytes?at=0").status_code == client.get("/0/message?at=0").status_code == 404
    assert "nothing found" in client.get("/search?q=x").text


def test_bodies_of_all_kinds(ask: Asker, tmp_path: Path):
    deep, large = b"[" * 100_000, b'{"a": "' + b"x" * (4 << 20) + b'"}'
    bodies = [b"", b"\xff\xfe\x00", deep, large, "白茶".encode() * 30_000, b'{"a": [1, {"b": null}]}', b"[1,", b"NaN"]
    with MessageStore(
        tmp_path / "store", config={"mappedFileSizeCommitLog": 64 << 20, "maxMessageSize": 8 << 20}
    ) as store:
        for body in bodies:
            assert store.put(Message("T", body)).status.name == "PUT_OK"
    client = ask(tmp_path / "store")
    for number, body in enumerate(bodies):
        page = client.get(f"/0/message?topic=T&queue=0&offset={number}")
        assert page.status_code == 200 and len(page.text) < 400_000, number
        file = client.get(f"/0/body?topic=T&queue=0&offset={number}")
        assert file.content == body and file.headers["content-disposition"].startswith("attachment")
    assert '<b>b</b> <span class="word">null' in client.get("/0/message?topic=T&queue=0&offset=5").text


def test_ten_thousand_queues(ask: Asker, tmp_path: Path):
    keys = {**SMALL, "mappedFileSizeConsumeQueue": 400}
    with MessageStore(tmp_path / "store", config=keys) as store:
        for number in range(10_000):
            store.put(Message(f"topic-{number // 10}", b"x", queue_id=number % 10))
    client = ask(tmp_path / "store")
    begun = time.monotonic()
    page = client.get("/")
    print(f"first page of 10,000 queues: {time.monotonic() - begun:.2f} s")
    assert page.status_code == 200 and "10,000 queues" in page.text
    topics = client.get("/0/topics").text
    assert "The first 500 of 1,000 topics" in topics
    assert len(topics) < 400_000


def test_a_message_whose_unit_is_lost_says_that_nobody_gets_it(ask: Asker, shop: Path, tmp_path: Path):
    root = Path(shutil.copytree(shop, tmp_path / "store"))
    with open(root / "consumequeue" / "Orders" / "0" / f"{0:020d}", "r+b") as file:
        file.seek(20 * 40)
        file.write(bytes(20))
    client, says = ask(root), "consumers pass over it"
    lost = client.get("/0/message?topic=Orders&queue=0&offset=40").text
    assert says in lost and "its offset is after it" in lost and "has passed it" not in lost
    for offset in (39, 41):
        assert says not in client.get(f"/0/message?topic=Orders&queue=0&offset={offset}").text
    (root / "abort").touch()  # it runs, or was killed: the message may not be dispatched yet
    assert says not in ask(root).get("/0/message?topic=Orders&queue=0&offset=40").text


def rows_of(page: str) -> list[str]:
    """The rows of a page's tables, without markup."""
    return [html.unescape(re.sub("<[^>]+>", " ", row)) for row in re.findall("<tr>(.*?)</tr>", page, re.S)]


def test_a_queue_marks_the_rows_of_what_is_lost(ask: Asker, damaged: Path):
    client = ask(damaged)
    rows = rows_of(client.get("/0/queue?topic=Orders&queue=0&offset=26").text)
    assert "0 / 26" in rows[1] and "0 / 28" in rows[3]
    assert "no message can be read here:  body CRC is wrong" in rows[2]
    assert [row for row in rows if "consumers pass over it" in row] == [rows[15]] and "0 / 40" in rows[15]
    sound = client.get("/0/queue?topic=Orders&queue=1").text
    assert "pass over it" not in sound and "can be read here" not in sound


def test_bytes_lead_past_damage_on_both_sides(ask: Asker, damaged: Path, shop: Path):
    client = ask(damaged)
    with open_store(shop) as view:
        before, here = view.get("Orders", 0, 26).physical_offset, view.get("Orders", 0, 27)
    lost, next_at = here.physical_offset, here.physical_offset + here.size
    page = client.get(f"/0/bytes?at={lost}").text
    assert neighbours(page) == [before, next_at] and ">the message</a>" not in page
    after = client.get(f"/0/bytes?at={next_at}").text
    assert neighbours(after)[0] == lost and f"no record at {lost}" in after and ">the message</a>" in after
    assert ">the message</a>" in client.get("/0/bytes?at=0").text


def neighbours(page: str) -> list[int]:
    """The places to which the pages before and after lead."""
    return [int(at) for at in re.findall(r'rel="(?:prev|next)" href="/0/bytes\?at=(\d+)"', page)]


def test_bytes_that_are_cut_name_what_gives_the_rest(ask: Asker, tmp_path: Path):
    body = bytes(range(256)) * 300
    with MessageStore(tmp_path / "store", config=SMALL) as store:
        store.put(Message("T", body))
    client = ask(tmp_path / "store")
    page = client.get("/0/message?topic=T&queue=0&offset=0").text
    cut = re.search(r'The first 2\.0 KiB of 75\.0 KiB: <a href="([^"]+)">download all', page)
    assert cut is not None and client.get(html.unescape(cut[1])).content == body
    page = client.get("/0/bytes?at=0").text
    found = re.search(r"more bytes of this field: <code>xxd -s (\d+) -l (\d+) (\S+)</code>", page)
    assert found is not None
    with open(html.unescape(found[3]), "rb") as file:
        file.seek(int(found[1]))
        assert file.read(int(found[2])) == body[32:]


@pytest.mark.parametrize(
    ("place", "kept"),
    [
        ("/search?q=a%22b&topic=Orders&since=never&how=text", ['value="a&#34;b"', 'value="Orders"', 'value="never"']),
        ("/0/queue?topic=Orders&queue=1&time=never", ['value="never"', "Queue 1", "order-581"]),
        ("/0/waiting?what=x", ["Dead letters"]),
    ],
)
def test_a_wrong_value_leaves_the_form_and_the_tabs(ask: Asker, shop: Path, place: str, kept: list[str]):
    answer = ask(shop).get(place)
    assert answer.status_code == 400 and 'role="alert"' in answer.text
    assert all(one in answer.text for one in [*kept, ">Retention</a>"]), answer.text
    assert ask(shop).get(f"{place}&format=json").status_code == 400
    assert ">Retention</a>" in ask(shop).get("/search?store=9").text


def test_retention_leads_to_the_first_unread_message(ask: Asker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    with MessageStore(tmp_path / "store", config={**SMALL, "mappedFileSizeCommitLog": 4096}) as store:
        for number in range(60):
            store.put(Message("T", bytes(200), keys=f"k{number}"))
    written = {"offsetTable": {"T@late": {"0": 5}}}
    (tmp_path / "store" / "config" / "consumerOffset.json").write_text(json.dumps(written))
    for log in (tmp_path / "store" / "commitlog").iterdir():
        os.utime(log, (0, 1_700_000_000))
    client = ask(tmp_path / "store")
    page = client.get("/0/retention").text
    monkeypatch.undo()
    time.tzset()
    assert " CST on this machine" in page and local_text(10**17) == "–"
    link = re.search(r'href="(/0/queue[^"]+)" title="from the first one on that the group has not read"', page)
    assert link is not None and " / 5 " in rows_of(client.get(html.unescape(link[1])).text)[1]


def test_what_a_group_never_read_is_said(ask: Asker, tmp_path: Path):
    root = tmp_path / "store"
    with MessageStore(root, config={**SMALL, "mappedFileSizeCommitLog": 4096}) as store:
        for number in range(60):
            store.put(Message("T", bytes(200), keys=f"k{number}"))
    written = {"offsetTable": {"T@late": {"0": 3}, "T@all": {"0": 60}}}
    (root / "config" / "consumerOffset.json").write_text(json.dumps(written))
    min((root / "commitlog").iterdir()).unlink()
    with open_store(root) as view:
        gone = view.bounds("T", 0)[0] - 3
    assert gone > 5
    client = ask(root)
    assert f"{gone} messages were deleted before group late had read them" in client.get("/").text
    for place in ("/0/groups", "/0/group?name=late"):
        assert client.get(place).text.count(f"{gone} gone unread") == 1
    assert "gone unread" not in client.get("/0/group?name=all").text


def test_a_message_of_a_topic_that_was_made_again_is_where_its_link_leads(ask: Asker, tmp_path: Path):
    with MessageStore(tmp_path / "store", config=SMALL) as store:
        at = [store.put(Message("T", b"before %d" % n)).physical_offset for n in range(3)][1]
        store.delete_topic("T")
        store.create_topic("T", 1)
        for n in range(3):
            store.put(Message("T", b"after %d" % n))
    client = ask(tmp_path / "store")
    for place, body in ((f"&at={at}", "before 1"), ("", "after 1")):
        page = client.get(f"/0/message?topic=T&queue=0&offset=1{place}")
        assert page.status_code == 200 and body in page.text
    assert client.get(f"/0/message?topic=T&queue=0&offset=2&at={at}").status_code == 404


def test_groups_say_that_their_offsets_cannot_be_read(ask: Asker, shop: Path, tmp_path: Path):
    root = Path(shutil.copytree(shop, tmp_path / "store"))
    file = root / "config" / "consumerOffset.json"
    file.write_bytes(file.read_bytes()[:20])
    (root / "config" / "consumerOffset.json.bak").unlink(missing_ok=True)
    for store, said in ((root, True), (shop, False)):
        page = ask(store).get("/0/groups").text
        assert ("how far groups are is not known" in page) is said and ("consumerOffset.json" in page) is said


def test_groups_say_when_their_offsets_were_written(ask: Asker, shop: Path, tmp_path: Path):
    root = Path(shutil.copytree(shop, tmp_path / "store"))
    os.utime(root / "config" / "consumerOffset.json", (0, 1_700_000_000))
    for place in ("/0/groups", "/0/group?name=billing"):
        assert "2023-11-14 22:13:20.000" in ask(root).get(place).text


def test_no_message_of_a_golden_store_is_called_lost(ask: Asker, golden_store: Golden):
    """Also of queues of batches, of light queues, and of half messages."""
    client = ask(golden_store.path)
    for message in golden_store.live[:: max(1, len(golden_store.live) // 25)]:
        page = client.get(f"/0/message?at={message['physical_offset']}")
        assert page.status_code == 200 and "consumers pass over it" not in page.text, message


def test_a_tail_of_a_topic_that_is_not_there_names_a_near_one(ask: Asker, shop: Path):
    client = ask(shop)
    page = client.get("/0/tail?topic=orders").text
    assert "No message of topic orders yet" in page and ">Orders</a>" in page
    assert "No message of topic" not in client.get("/0/tail?topic=Orders").text


def leaves(place: str, client: TestClient) -> list[tuple[str, str]]:
    """Names and values of the leaves of a body's tree, in order."""
    found = re.findall(r'<p class="leaf"><b>(.*?)</b> <span class="\w+">(.*?)</span>', client.get(place).text)
    return [(html.unescape(name), html.unescape(value)) for name, value in found]


def test_json_is_shown_as_it_is_written(ask: Asker, tmp_path: Path):
    pairs = [
        ("price", "1.10"), ("large", "1" * 5000), ("exact", "0.1000000000000000055511151231257827"), ("e", "1E5"),
        ("minus", "-0"), ("over", "1e999"), ("nan", "NaN"), ("price", "2"), ("is", "true"), ("no", "null"),
        ("text", '"1.10"'),
    ]  # fmt: skip
    bodies = ["{" + ", ".join(f'"{name}": {value}' for name, value in pairs) + "}", '[{"a": {}, "a": []}, 1.0]']
    with MessageStore(tmp_path / "store", config=SMALL) as store:
        for body in bodies:
            store.put(Message("T", body.encode()))
    client = ask(tmp_path / "store")
    shown = leaves("/0/message?topic=T&queue=0&offset=0", client)
    assert shown[1][1].startswith("1" * 1900) and shown[1][1].endswith("…")
    assert shown[:1] + shown[2:] == pairs[:1] + pairs[2:]
    assert "11 members" in client.get("/0/message?topic=T&queue=0&offset=0").text
    page = client.get("/0/message?topic=T&queue=0&offset=1").text
    assert page.count("<summary><b>a</b>") == 2
    assert leaves("/0/message?topic=T&queue=0&offset=1", client) == [("1", "1.0")]


def test_a_record_that_is_no_message_says_what_it_is(ask: Asker, run: Run, tmp_path: Path):  # noqa: F811
    root = tmp_path / "store"
    with MessageStore(root, config=SMALL) as store:
        mended = [store.put(Message("T", b"body %d" % number)) for number in range(9)][7]
        deleted = store.put(Message("Gone", b"x"))
        store.delete_topic("Gone")
        prepared, rolled_back = (store.put(Message("Old", b"half")) for _ in range(2))
        outcome = store.put(Message("RMQ_SYS_TRANS_OP_HALF_TOPIC", b"0,", tags="d"))
    log = next((root / "commitlog").iterdir())
    data = bytearray(log.read_bytes())
    data[data.index(b"body 7")] ^= 0xFF
    for put, flag in ((prepared, 4), (rolled_back, 12)):
        data[put.physical_offset + 39] |= flag  # the last byte of the system flag
    log.write_bytes(data)
    shutil.rmtree(root / "consumequeue" / "Old")
    assert run("salvage", root, "--in-place", "--yes").code == 0
    says = {
        "flintmq salvage": mended, "was prepared": prepared, "was rolled back": rolled_back,
        "how transactions ended": outcome,
    }  # fmt: skip
    client = ask(root)
    for words, put in says.items():
        place = put.physical_offset
        page = client.get(f"/0/message?at={place}").text
        life = page[page.index('id="way"') :]
        assert words in life, (place, life)
        assert ("how transactions ended" in life) is (words == "how transactions ended"), place
        assert "it is a half message, waits for its time" not in page, place
    page = client.get(f"/0/message?at={deleted.physical_offset}").text
    assert "it is a half message, waits for its time" in page and "of no message" not in page
