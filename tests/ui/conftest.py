"""Stores that pages are shown of, and a client that asks for them."""

import hashlib
import json
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from flintmq.cli.body_option import Bodies
from flintmq.cluster.members import find_members
from flintmq.config.keys import StoreConfig
from flintmq.lake.export.export_once import export
from flintmq.message import Message
from flintmq.store.consumer.retry import sent_back
from flintmq.store.message_store import MessageStore
from flintmq.ui.app import Ui, make_app
from flintmq.ui.export import NamedTable
from flintmq.ui.guard import RequestGuard
from tests.harness.in_memory import tmp_path_factory as tmp_path_factory

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # newer versions of Starlette would rather have httpx2
    from starlette.testclient import TestClient

Asker = Callable[..., TestClient]

HERE = "http://127.0.0.1:8090"
SMALL = {"mappedFileSizeCommitLog": 1 << 20, "maxHashSlotNum": 64, "maxIndexNum": 256}
MARKS = [
    "<script>window.ran=1</script>", "<img src=x onerror='window.ran=1'>", "\"><svg onload=window.ran=1>",
    "javascript:window.ran=1", "{{ 7*7 }}", "{% raw %}", "</textarea><script>window.ran=1</script>", "'-window.ran=1-'",
    "<!--", "-->", "]]>", "<base href=//evil>", "<meta http-equiv=refresh content=0>", "&lt;b&gt;", "\x1b[31mred",
    "\u202egnp.exe", "\u2028", "\x00", "\x7f", "%2e%2e%2f", "..", "<style>*{display:none}</style>", "\ufffd", "a\tb\nc",
    "onmouseover=window.ran=1 ",
]  # fmt: skip
"""Texts that would do something if a page took them for more than text."""


def hostile_texts() -> list[str]:
    """A hundred texts: each mark as it is, within a text, twice, and long."""
    return [form for mark in MARKS for form in (mark, f"a{mark}b", mark * 2, mark * 40)]


def allowed(text: str) -> str:
    """The text without what a property may not hold."""
    return text.replace("\x00", "").replace("\x01", "").replace("\x02", "")


def digests(*roots: Path) -> dict[str, str]:
    """The sha256 of every file of stores, by its path."""
    files = (file for root in roots for file in sorted(root.rglob("*")) if file.is_file())
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Orders of a shop, as JSON, of which groups have read a part; a topic of Chinese name; messages that wait."""
    root = tmp_path_factory.mktemp("shop") / "store"
    with MessageStore(root, config=SMALL) as store:
        for number in range(600):
            order = {
                "order": number, "customer": f"c{number % 37}", "total": round(number * 1.37, 2),
                "paid": number % 3 == 0,
                "lines": [{"sku": f"sku-{n}", "count": n + 1, "price": 9.5} for n in range(number % 4)],
                "note": "白茶，两盒" if number % 5 == 0 else None,
            }  # fmt: skip
            body = json.dumps(order, ensure_ascii=False).encode()
            tags = ("created", "paid", "shipped")[number % 3]
            queue = 0 if number % 7 else number % 4
            properties = {"region": ("eu", "cn", "us")[number % 3]}
            store.put(Message("Orders", body, tags=tags, keys=f"order-{number}", queue_id=queue, properties=properties))
            if number % 6 == 0:
                store.put(Message("订单通知", "订单已付款".encode(), tags="通知", keys=f"通知-{number}"))
            if number % 10 == 0:
                store.put(Message("Payments", bytes(range(64)), keys=f"pay-{number}", queue_id=number % 2))
        store.put(Message("Orders", b"later", delay_level=16))
    offsets = {
        "Orders@billing": {"0": 300, "1": 20, "2": 15, "3": 2},
        "Orders@shipping": {"0": 530, "1": 21, "2": 21, "3": 22},
        "Payments@audit": {"0": 0},
    }
    written = {"dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": 0}, "offsetTable": offsets}
    (root / "config" / "consumerOffset.json").write_text(json.dumps(written))
    return root


@pytest.fixture(scope="session")
def damaged(shop: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shop: in queue 0 of Orders the record of order-30 (offset 27) is damaged, the unit of order-45 (40) lost."""
    root = Path(shutil.copytree(shop, tmp_path_factory.mktemp("damaged") / "store"))
    log = next((root / "commitlog").iterdir())
    data = bytearray(log.read_bytes())
    data[data.index(b'"order": 30,') + 3] ^= 0xFF
    log.write_bytes(data)
    with open(root / "consumequeue" / "Orders" / "0" / f"{0:020d}", "r+b") as file:
        file.seek(20 * 40)
        file.write(bytes(20))
    return root


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose topics, tags, keys, bodies, properties, groups and what waits are the hostile texts."""
    root = tmp_path_factory.mktemp("hostile") / "store"
    offsets = {}
    with MessageStore(root, config=SMALL) as store:
        for number, text in enumerate(hostile_texts()):
            short = allowed(text)[:60] or "empty"
            topic = short.replace("/", "|")[:40].rstrip(".") or "dots"
            store.put(
                Message(topic, text.encode(), tags=short, keys=short, properties={f"p{number}": short, short: "value"})
            )
            put = store.put(Message("Plain", json.dumps({text: [text, {text: text}]}).encode(), keys=f"k{number}"))
            first = store.get_at(put.physical_offset)
            store.put(Message(f"%DLQ%{topic}", b"x", keys=short, properties={"RETRY_TOPIC": short, "PGROUP": short}))
            store.put(sent_back(first, f"{topic}%", level=-1))
            store.put(Message(topic, b"later", keys=short, delay_level=18, properties={short: "value"}))
            given = {"REAL_TOPIC": topic, "REAL_QID": "0", "PGROUP": short, "TRAN_MSG": "true"}
            store.put(Message("RMQ_SYS_TRANS_HALF_TOPIC", b"half", keys=short, properties=given))
            offsets[f"{topic}@{short}"] = {"0": 0}
    written = {"dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": 0}, "offsetTable": offsets}
    (root / "config" / "consumerOffset.json").write_text(json.dumps(written))
    return root


@pytest.fixture(scope="session")
def exported(shop: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of the shop's messages."""
    table = tmp_path_factory.mktemp("lake") / "table"
    export(str(shop), str(table))
    return table


def client_of(
    *stores: object, token: str = "", host: str = "127.0.0.1", keys: Mapping[str, str] | None = None,
    broker_conf: Path | None = None, history: object = None,
) -> TestClient:  # fmt: skip
    """The pages of stores; `keys`, `broker_conf` and `history` are `--set`, `--config` and `--history`."""
    given, file = [str(store) for store in stores], None if broker_conf is None else str(broker_conf)
    config = StoreConfig.of(file, keys)
    members = find_members(given[0] if len(given) == 1 else given, config, slaves=True)
    settings = [f"{key}={value}" for key, value in (keys or {}).items()]
    table = None if history is None else NamedTable(str(history), None, given, config)
    ui = Ui(members, config, Bodies(False), settings, file, table)
    client = TestClient(RequestGuard(make_app(ui), host, token), base_url=HERE, follow_redirects=False)
    client.ui = ui
    return client


@pytest.fixture
def ask() -> Iterator[Asker]:
    """ask(store, ...) -> a client of the pages of these stores."""
    made: list[TestClient] = []

    def new(*stores: object, **words: Any) -> TestClient:
        made.append(client_of(*stores, **words))
        return made[-1]

    yield new
    for client in made:
        client.ui.close()
        client.close()
