"""The page of a table of exports: what it holds, how far it is, and what a comparison counts."""

import html
import json
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flintmq.lake.export.export_once import export
from flintmq.message import Message
from flintmq.store.message_store import MessageStore
from flintmq.ui.export import TableCheck
from tests.cli.conftest import Run, run  # noqa: F401
from tests.support.object_server import Server
from tests.ui.conftest import SMALL, Asker, TestClient, digests
from tests.ui.test_pages import commands_of


def compare(client: TestClient, action: str = "start") -> None:
    answer = client.post("/export", data={"action": action, "key": client.ui.key})
    assert answer.status_code == 303 and answer.headers["location"] == "/export"
    client.ui.comparison.wait(60)


def store_of(root: Path, count: int, body: bytes = b"x") -> Path:
    with MessageStore(root, config=SMALL) as store:
        for number in range(count):
            store.put(Message("Orders", body + b"%d" % number))
    return root


@pytest.mark.parametrize("to", ["parquet", "delta", "iceberg"])
def test_it_is_what_its_commands_print(ask: Asker, run: Run, tmp_path: Path, to: str):  # noqa: F811
    root, table = store_of(tmp_path / "store", 50), tmp_path / "table"
    export(str(root), str(table), to=to)
    store_of(root, 7)  # not exported yet
    before, client = digests(root, table), ask(root, history=table, keys={"maxIndexNum": "256"})
    page = client.get("/export")
    assert page.status_code == 200 and "Not compared yet" in page.text and f"{to}</small>" in page.text
    commands = commands_of(page.text)
    assert [one[0] for one in commands] == ["inspect", "diff"]
    assert client.get("/export?format=json").text == run(*commands[0], "--json").out
    compare(client)
    page = html.unescape(client.get("/export").text)
    assert "Equal" in page and '<td>messages not exported yet</td><td class="n">7</td>' in page
    printed = [run(*command, "--json").out for command in commands]
    assert client.get("/export?format=json").text == "".join(printed)
    assert digests(root, table) == before


def test_differences_are_shown(ask: Asker, tmp_path: Path):
    root, table = store_of(tmp_path / "store", 20), tmp_path / "table"
    export(str(root), str(table))
    file = next(table.rglob("*.parquet"))
    rows = pq.ParquetFile(file).read()
    pq.write_table(pa.concat_tables([rows.slice(0, 5), rows.slice(7)]), file)  # somebody took two
    (table / "export=1" / "more.parquet").write_bytes(file.read_bytes())
    client = ask(root, history=table)
    assert client.get("/export?format=json").json()["messages"] == 18
    compare(client)
    page = client.get("/export").text
    assert "2 only-in-a" in page and '<td>files that no export made</td><td class="n">1</td>' in page
    assert '<td class="n">5 to 6</td><td class="n">2</td>' in page


def test_two_stores_are_told_apart(ask: Asker, run: Run, tmp_path: Path):  # noqa: F811
    for name, count in (("a", 30), ("b", 40)):
        store_of(tmp_path / name / "store", count)
    pattern, table = f"{tmp_path}/{{broker}}/store", tmp_path / "table"
    export(pattern, str(table))
    store_of(tmp_path / "b" / "store", 5)
    client = ask(pattern, history=table)
    rows = client.get("/export?format=json").json()["brokers"]
    assert [(one["broker"], one["messages"], bool(one["unread"])) for one in rows] == [
        ("a", 30, False),
        ("b", 40, True),
    ]
    assert 'href="/export"' in client.get("/").text and 'href="/export"' in client.get("/1/").text
    printed = run(*commands_of(client.get("/export").text)[0], "--json").out
    assert client.get("/export?format=json").text == printed
    one = ask(tmp_path / "a" / "store", history=table).get("/export")
    assert one.status_code == 404 and "is a table of several stores" in one.text


def test_what_is_not_there_is_said(ask: Asker, shop: Path, exported: Path, tmp_path: Path):
    none = ask(shop)
    assert none.get("/export").status_code == 404 and "--history" in none.get("/export").text
    assert 'href="/export"' not in none.get("/0/").text
    assert none.post("/export", data={"action": "start", "key": none.ui.key}).status_code == 404
    other = ask(store_of(tmp_path / "store", 3), history=exported).get("/export")
    assert other.status_code == 404 and "not the log of the table" in other.text
    table = Path(shutil.copytree(exported, tmp_path / "table"))
    client = ask(shop, history=table)
    assert client.get("/export").status_code == 200
    shutil.rmtree(table)
    gone = client.get("/export")
    assert gone.status_code == 404 and "holds no table that an export made" in gone.text
    assert client.get("/export?format=json").json()["error"] == "MessageNotFoundError"
    compare(client)
    assert client.ui.comparison.error and client.get("/0/").status_code == 200


def test_only_a_form_of_this_server_begins_a_comparison(ask: Asker, shop: Path, exported: Path):
    client = ask(shop, history=exported)
    assert client.post("/export", data={"action": "start", "key": "wrong"}).status_code == 403
    assert client.post("/export", data={"action": "other", "key": client.ui.key}).status_code == 400
    assert client.ui.comparison is None
    assert client.request("DELETE", "/export").status_code == 405


def test_a_comparison_stops(ask: Asker, shop: Path, exported: Path, monkeypatch: pytest.MonkeyPatch):
    def slowly(self: TableCheck) -> None:
        while True:
            self.note(3, 4)
            time.sleep(0.01)

    monkeypatch.setattr(TableCheck, "work", slowly)
    client = ask(shop, history=exported)
    client.post("/export", data={"action": "start", "key": client.ui.key})
    while not client.ui.comparison.total:
        time.sleep(0.01)
    page = client.get("/export").text
    assert "3 of 4 parts of the logs compared, 75 %" in page and 'http-equiv="refresh"' in page
    assert json.loads(client.get("/export?format=json").text.splitlines()[1])["running"] is True
    compare(client, "stop")
    assert "was stopped after 3 of 4 parts" in client.get("/export").text


def test_a_table_in_a_bucket(ask: Asker, tmp_path: Path, objects: Server, monkeypatch: pytest.MonkeyPatch):
    given = {"ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "test", "REGION": "us-east-1"}  # only who has keys may write
    for name, value in {**given, "ENDPOINT_URL": objects.endpoint}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    for to in ("parquet", "delta"):
        root, url = store_of(tmp_path / to / "store", 30), f"s3://stores/{to}/table"
        export(str(root), url, to=to)
        client = ask(root, history=url)
        answer = client.get("/export?format=json")
        assert answer.status_code == 200 and answer.json()["messages"] == 30, answer.text
        compare(client)
        assert "Equal" in client.get("/export").text


def test_a_server_is_not_begun_with_what_is_no_table(run: Run, shop: Path, exported: Path, tmp_path: Path):  # noqa: F811
    for words in (["--history", tmp_path / "none"], ["--history", shop]):
        refused = run("ui", shop, *words)
        assert refused.code == 2 and "holds no table that an export made" in refused.err
    assert run("ui", shop, "--catalog", "a:b.c").code == 2


def test_a_comparison_is_not_shown_of_a_store_that_took_its_place(ask: Asker, tmp_path: Path, monkeypatch):
    monkeypatch.setattr("flintmq.ui.stores.FRESH_S", 0.0)
    root, table = store_of(tmp_path / "store", 20), tmp_path / "table"
    export(str(root), str(table))
    client = ask(root, history=table)
    compare(client)
    assert "Equal" in client.get("/export").text
    root.rename(tmp_path / "away")
    shutil.copytree(tmp_path / "away", root)
    page = client.get("/export").text
    assert "Equal" not in page and "was of another store" in page
    assert len(client.get("/export?format=json").text.splitlines()) == 1
    shutil.rmtree(root)
    store_of(root, 30, b"another")
    answer = client.get("/export")
    assert answer.status_code == 404 and "at log offset" in answer.text
