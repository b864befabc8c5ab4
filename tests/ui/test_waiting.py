"""What became of a message, and what waits: by Java's rows, and by the scripts that wrote the golden stores."""

import html
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from flintmq.cli.text import iso
from flintmq.message import Message
from flintmq.store.consumer.retry import sent_back
from flintmq.store.message_store import MessageStore
from tests.cli.conftest import Run, basic, run  # noqa: F401
from tests.compat.stores import FOLDER, Golden, read_lines
from tests.forensics.answers.test_golden import ENDS, HALF, NO_OUTCOMES, SCHEDULE, of_ids, rows_of
from tests.ui.conftest import SMALL, Asker, TestClient
from tests.ui.test_pages import commands_of

KINDS = ("timers", "halves", "dead")


def place(row: dict[str, Any]) -> str:
    """The address of the page of a record of Java's."""
    names = {"topic": row["topic"], "queue": row["queue_id"], "offset": row["queue_offset"]}
    return "/0/message?" + urlencode(names)


def became(client: TestClient, row: dict[str, Any]) -> str:
    """What its page says became of a record, as the text of that section."""
    page = client.get(place(row))
    assert page.status_code == 200, page.text
    return html.unescape(page.text.partition('<h2 id="way">')[2].partition("</section>")[0])


def shown_time(ms: int) -> str:
    return iso(ms).replace("T", " ").replace("Z", "")


@pytest.mark.parametrize("name", ["config", "config540", "config550", "flags"])
def test_a_message_leads_to_its_retries_and_dead_letters(ask: Asker, golden: Callable[[str], Golden], name: str):
    store = golden(name)
    client = ask(store.path)
    firsts = {row["offset_msg_id"]: row for row in store.rows}
    after = [row for row in store.rows if row["topic"].startswith(("%RETRY%", "%DLQ%"))]
    after = [row for row in after if row["properties"].get("ORIGIN_MESSAGE_ID") in firsts]
    assert after or name == "flags"
    for row in after:
        first = firsts[row["properties"]["ORIGIN_MESSAGE_ID"]]
        said = became(client, first)
        assert f'href="{place(row)}"' in said and shown_time(row["store_timestamp"]) in said
        assert "<b>delivered</b>" in said and row["topic"].rpartition("%")[2] in said
        assert f'href="{place(first)}"' in became(client, row), "and back"


@pytest.mark.parametrize(("name", "ends"), [("config", ENDS), ("config540", NO_OUTCOMES), ("config550", ENDS)])
def test_a_half_message_says_how_it_ended(ask: Asker, golden: Callable[[str], Golden], name: str, ends: dict[str, str]):
    store = golden(name)
    client = ask(store.path)
    script = {op["keys"]: ends[op["outcome"]] for op in read_lines(FOLDER / f"{name}.ops.jsonl") if "outcome" in op}
    for row in of_ids(rows_of(store, HALF)).values():
        said = became(client, row)
        assert f"<b>{script[row['keys']]}</b>" in said and "OracleProducer" in said
    for row in rows_of(store, "Tx"):
        assert "<b>delivered</b>" in became(client, row)
    [outcome, *_] = rows_of(store, "RMQ_SYS_TRANS_OP_HALF_TOPIC")
    assert "the record of no message" in became(client, outcome)


def test_a_delayed_message_says_since_when_and_for_when(ask: Asker, golden: Callable[[str], Golden]):
    store = golden("delay")
    client, arrived = ask(store.path), of_ids(rows_of(store, "Later"))
    waited = [row for row in rows_of(store, SCHEDULE) if row["properties"]["REAL_TOPIC"] == "Later"]
    waited = [row for row in waited if "ORIGIN_MESSAGE_ID" not in row["properties"]]
    states = set()
    for row in waited[::3]:
        said, later = became(client, row), arrived.get(row["msg_id"])
        state = "delivered" if later else "waiting"
        states.add(state)
        assert f"<b>{state}</b>" in said and f"first stored {shown_time(row['store_timestamp'])}, due " in said
        if later:
            assert f'href="{place(later)}"' in said and f"since {shown_time(later['store_timestamp'])}" in said
    assert states == {"delivered", "waiting"}


def test_the_command_of_a_message_gives_its_row(ask: Asker, run: Run, golden: Callable[[str], Golden]):  # noqa: F811
    store = golden("config540")
    client = ask(store.path)
    for row in store.rows[::7]:
        page = client.get(place(row)).text
        commands = [command for command in commands_of(page) if command[0] == "trace"]
        if not commands:
            assert row["topic"].startswith("RMQ_SYS_TRANS_OP")
            continue
        [found] = run(*commands[0], "--json").rows
        assert f"<b>{found['state']}</b>" in page
        for group in found["groups"]:
            assert group["group"] in page


def test_a_message_without_an_id_is_found_by_its_place(ask: Asker, golden: Callable[[str], Golden]):
    store = golden("basic")
    row = next(row for row in store.live if not row["msg_id"])
    client = ask(store.path)
    assert "<b>delivered</b>" in became(client, row)
    [command] = [one for one in commands_of(client.get(place(row)).text) if one[0] == "trace"]
    assert command[-2:] == ["--id", row["offset_msg_id"]]


def test_what_takes_too_long_is_said(
    ask: Asker, golden: Callable[[str], Golden], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store = golden("config")
    monkeypatch.setattr("flintmq.ui.became.READ_MAX", 0)
    said = became(ask(store.path), rows_of(store, "Trade")[0])
    assert "Not looked up here, as it takes reading" in said and "of the log" in said and "has passed it" in said
    monkeypatch.undo()
    for module in ("became", "waiting"):
        monkeypatch.setattr(f"flintmq.ui.{module}.OUTCOMES_MAX", 0)
    client = ask(store.path)
    assert "outcomes of transactions; the command has no limit" in became(client, rows_of(store, HALF)[0])
    page = client.get("/0/waiting")
    assert page.status_code == 200 and "outcomes of transactions; the command" in page.text and "level 18" in page.text
    answer = client.get("/0/waiting?what=halves&format=json")
    assert answer.status_code == 503 and "outcomes" in answer.text
    monkeypatch.setattr("flintmq.ui.waiting.bytes_for_queues", lambda view: 1 << 40)
    assert client.get("/0/waiting?what=dead&format=json").status_code == 503


@pytest.mark.parametrize("name", ["config", "config540", "delay", "timer", "flags"])
def test_each_kind_is_its_commands_json(ask: Asker, run: Run, golden: Callable[[str], Golden], name: str):  # noqa: F811
    client = ask(golden(name).path)
    texts = []
    for kind in KINDS:
        for query in (f"what={kind}&limit=2", f"what={kind}"):
            page = client.get(f"/0/waiting?{query}")
            [command] = commands_of(page.text)
            assert command[0] == kind
            printed = run(*command, "--json")
            lines = client.get(f"/0/waiting?{query}&format=json").text.splitlines()
            assert not printed.code or json.loads(lines.pop())["exit_code"] == printed.code
            assert lines == printed.out.splitlines(), query
            assert ("There are more" in page.text) == ("there are more" in printed.err)
        texts.append(printed.out)
    page = client.get("/0/waiting")
    assert [command[0] for command in commands_of(page.text)] == list(KINDS)
    rows = [line for line in client.get("/0/waiting?format=json").text.splitlines(True) if '"exit_code"' not in line]
    assert "".join(rows) == "".join(texts) != ""


def test_hanging_transactions_come_first(ask: Asker, golden: Callable[[str], Golden]):
    for name, open_ones in (("config", 3), ("config540", 4)):
        store = golden(name)
        script = read_lines(FOLDER / f"{name}.ops.jsonl")
        page = ask(store.path).get("/0/waiting?what=halves").text
        assert f"{len(rows_of(store, HALF))} records" in page and f"{open_ones} open" in page
        unknown = [op["keys"] for op in script if op.get("outcome") == "UNKNOW"]
        assert unknown and all(f">{key}</a>" in page for key in unknown)
        assert page.rfind('class="bad">hanging') < page.find("<td>committed") or "<td>committed" not in page


def test_dead_letters_lead_to_their_first_message(ask: Asker, dead_store: Path):
    client = ask(dead_store)
    page = html.unescape(client.get("/0/waiting?what=dead").text)
    assert page.index(">Billing</a></h3>") < page.index(">Shipping</a></h3>") and "3 dead" in page
    first = urlencode({"topic": "Orders", "queue": 0, "offset": 1})
    assert f'<a href="/0/message?{first}">Orders / 0 / 1</a>' in page and "has is not known" in page
    rows = [json.loads(line) for line in client.get("/0/waiting?what=dead&group=Billing&format=json").text.splitlines()]
    assert [(row["group"], row["first_offset"]) for row in rows] == [("Billing", 0), ("Billing", 1)]
    said = client.get(f"/0/message?{first}").text
    assert said.count(">dead letter</th>") == 2 and "%DLQ%Billing / 0 / 1" in said


@pytest.fixture
def dead_store(tmp_path: Path) -> Path:
    """Orders 0 and 1 are dead letters of Billing, order 1 of Shipping too."""
    with MessageStore(tmp_path / "store", config=SMALL) as store:
        puts = [store.put(Message("Orders", b"x", keys=f"order-{number}")) for number in range(3)]
        for number, group in ((0, "Billing"), (1, "Billing"), (1, "Shipping")):
            store.put(sent_back(store.get_at(puts[number].physical_offset), group, level=-1))
    return tmp_path / "store"


@pytest.mark.parametrize(
    ("query", "status", "says"),
    [
        ("what=magic", 400, "none of timers, halves, dead"),
        ("limit=1001", 400, "from 0 to 1000"),
        ("limit=-1", 400, "whole number"),
        ("what=dead&group=nobody", 404, "no store knows it"),
        ("what=timers&limit=0", 200, "There are more"),
    ],
)
def test_wrong_values(ask: Asker, shop: Path, query: str, status: int, says: str):
    answer = ask(shop).get(f"/0/waiting?{query}")
    assert answer.status_code == status and says in html.unescape(answer.text)


def test_damage_is_said(ask: Asker, run: Run, golden: Callable[[str], Golden], tmp_path: Path):  # noqa: F811
    store = golden("config")
    root = store.copy(tmp_path)
    file = root / "commitlog/00000000000000065536"
    data = bytearray(file.read_bytes())
    bad = rows_of(store, HALF)[-2]["physical_offset"] - 65536
    data[bad : bad + 100] = b"\xff" * 100
    file.write_bytes(data)
    assert run("halves", root).code == 1
    page = ask(root).get("/0/waiting?what=halves")
    assert page.status_code == 200 and "damage in the log may hide some" in page.text
    *rows, last = ask(root).get("/0/waiting?what=halves&format=json").text.splitlines()
    assert rows == run("halves", root, "--json").out.splitlines() and json.loads(last)["exit_code"] == 1


def test_an_empty_store_waits_for_nothing(ask: Asker, tmp_path: Path):
    with MessageStore(tmp_path / "store", config=SMALL):
        pass
    page = ask(tmp_path / "store").get("/0/waiting").text
    for text in ("Nothing waits for its time.", "No transaction is open.", "There are no dead letters."):
        assert text in page
