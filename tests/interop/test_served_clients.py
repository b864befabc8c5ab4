"""Stock clients consume from a store that is served read-only, and look into it: each message once, nothing written."""

import hashlib
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flintmq.format import inner_batch
from flintmq.format.compression import original_body
from flintmq.format.properties import parse_bytes
from flintmq.format.record import INNER_BATCH
from flintmq.message import Message
from flintmq.store.message_store import MessageStore
from tests.compat.stores import Golden
from tests.interop.served import Served, files, served, stored
from tests.interop.stock_clients import KINDS, Client, Refused, clients
from tests.support.engine import put_messages
from tests.support.object_server import Server

pytestmark = pytest.mark.slow

KEYS = {
    "mappedFileSizeCommitLog": 65536,
    "mappedFileSizeConsumeQueue": 2000,
    "maxHashSlotNum": 500,
    "maxIndexNum": 2000,
}
TOPIC, QUEUES, HALF = "Orders", 4, 800
EARLY = "Early"  # a group that has consumed the first half
TAGS = ("paid", "sent", "late")


@pytest.fixture(scope="module", params=KINDS)
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Clients of one kind, in one process for all tests."""
    with clients(request.param, tmp_path_factory.mktemp("client")) as running:
        yield running


@pytest.fixture(scope="module", params=[kind for kind in KINDS if kind.startswith("java")])
def java(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Java's alone: they can do more."""
    with clients(request.param, tmp_path_factory.mktemp("java")) as running:
        yield running


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A store of FlintMQ in two halves, and a moment between them."""
    root, moments = tmp_path_factory.mktemp("ours") / "store", []

    def messages() -> Iterator[Message]:
        for n in range(2 * HALF):
            if n == HALF:
                time.sleep(0.2)
                moments.append(time.time_ns() // 1_000_000)
                time.sleep(0.2)
            yield Message(TOPIC, b"%d " % n * (n % 60), tags=TAGS[n % 3], keys=f"k{n} all", queue_id=n % QUEUES)

    put_messages(root, messages(), KEYS)
    with MessageStore(root, config=KEYS) as store:
        for queue_id in range(QUEUES):
            store.commit_offset(EARLY, TOPIC, queue_id, HALF // QUEUES)
    return root, moments[0]


@pytest.fixture
def broker(ours: tuple[Path, int], tmp_path: Path) -> Iterator[Served]:
    """The store of FlintMQ is served; not a byte of it may change."""
    before = files(ours[0])
    with served(ours[0], tmp_path) as running:
        yield running
    assert files(ours[0]) == before


def facts(row: dict[str, Any]) -> tuple[Any, ...]:
    """What a client knows of a message."""
    return row["topic"], row["queue"], row["offset"], row["id"], row["tags"], row["sha1"]


def facts_of(store: Path, keys: dict[str, Any] | None = None, unpacks: bool = True) -> Counter[tuple[Any, ...]]:
    """The same of all messages of a store; without `unpacks` an inner batch is one message."""
    found = Counter[tuple[Any, ...]]()
    for (topic, queue_id, offset), one in stored(store, keys).items():
        body, properties = original_body(one.body, one.sys_flag), one.properties
        if one.sys_flag & INNER_BATCH and unpacks:
            entry = list(inner_batch.iterate(body))[offset - one.queue_offset]
            body, properties = entry.body, parse_bytes(entry.properties)
        elif one.sys_flag & INNER_BATCH and offset != one.queue_offset:
            continue
        name = properties.get("UNIQ_KEY") or one.offset_msg_id
        found[topic, queue_id, offset, name, properties.get("TAGS"), hashlib.sha1(body).hexdigest()] += 1
    return found


def consumed(client: Client, address: str, name: str, topics: list[str], count: int, **words: str) -> Counter[Any]:
    """What a push consumer gets that waits for so many messages; its group is of the same name."""
    client.consume(name, address, topics, **words)
    client.await_messages(name, count)
    return Counter(facts(row) for row in client.stop(name))


@pytest.mark.parametrize("tags", ["*", "sent", "paid || late"])
def test_each_message_of_these_tags_once(client: Client, broker: Served, ours: tuple[Path, int], tags: str) -> None:
    wanted = facts_of(ours[0])
    if tags != "*":
        wanted = Counter(one for one in wanted if one[4] in tags.split(" || "))
    assert consumed(client, broker.address, "Fresh", [TOPIC], len(wanted), tags=tags) == wanted


def test_each_message_that_a_condition_wants_once(client: Client, broker: Served, ours: tuple[Path, int]) -> None:
    condition = "TAGS IN ('sent', 'paid') AND NOT (TAGS STARTSWITH 'p') AND KEYS CONTAINS ' all'"
    wanted = Counter(one for one in facts_of(ours[0]) if one[4] == "sent")
    assert consumed(client, broker.address, "Filtered", [TOPIC], len(wanted), sql=condition) == wanted


def test_a_condition_that_is_none_is_refused_in_words(java: Client, broker: Served) -> None:
    with pytest.raises(Refused, match="CODE: 23 *DESC: Invalid MessageSelector: position 9: its end cannot follow"):
        java.consume("Refused", broker.address, [TOPIC], sql="TAGS IN (")


def test_a_group_goes_on_from_its_offset(client: Client, broker: Served, ours: tuple[Path, int]) -> None:
    second = Counter(one for one in facts_of(ours[0]) if one[2] >= HALF // QUEUES)
    assert consumed(client, broker.address, EARLY, [TOPIC], HALF) == second


def test_by_key_by_id_and_by_time(java: Client, broker: Served, ours: tuple[Path, int]) -> None:
    names, (root, moment) = broker.address, ours
    one = stored(root)[TOPIC, 3, 301]
    [found] = java.ask("query", names, topic=TOPIC, key="k1207")["messages"]
    assert facts(found) in facts_of(root) and found["keys"] == "k1207 all" == one.keys
    assert len(java.ask("query", names, topic=TOPIC, key="all")["messages"]) == 64, "as many as one may ask for"
    with pytest.raises(Refused, match="no message|NO_MESSAGE"):
        java.ask("query", names, topic=TOPIC, key="k1600")
    for one_id in (one.msg_id, own_id(names, one.physical_offset)):
        assert java.ask("view", names, topic=TOPIC, id=one_id)["messages"] == [found]
    for queue_id in range(QUEUES):
        where: dict[str, Any] = {"topic": TOPIC, "queue": queue_id}
        assert java.ask("offset_by_time", names, timestamp=moment, **where) == {"offset": HALF // QUEUES}
        assert java.ask("offset_by_time", names, timestamp=0, **where) == {"offset": 0}
        bounds = java.ask("bounds", names, **where)
        assert bounds == {"min": 0, "max": 400, "earliest": stored(root)[TOPIC, queue_id, 0].store_timestamp}
        assert java.ask("committed", names, group=EARLY, **where) == {"offset": HALF // QUEUES}


def own_id(address: str, position: int) -> str:
    """The id of a place in the log; a client asks the address in it."""
    host, port = address.split(":")
    return "".join(f"{int(part):02X}" for part in host.split(".")) + f"{int(port):08X}{position:016X}"


def test_pulls_tell_pages_and_bounds(java: Client, broker: Served) -> None:
    def pull(offset: int, **words: Any) -> tuple[Any, ...]:
        told = java.ask("pull", broker.address, topic=TOPIC, queue=1, offset=offset, **words)
        return *(told[word] for word in ("status", "next", "min", "max")), [row["offset"] for row in told["messages"]]

    assert pull(0, count=5) == ("FOUND", 5, 0, 400, [0, 1, 2, 3, 4])
    assert pull(395) == ("FOUND", 400, 0, 400, [395, 396, 397, 398, 399])
    assert pull(0, count=3, tags="late") == ("FOUND", 8, 0, 400, [1, 4, 7])
    assert pull(400)[:4] == ("NO_NEW_MSG", 400, 0, 400)
    assert pull(500)[0] == "OFFSET_ILLEGAL" and pull(500)[1] == 400


def test_a_send_is_refused_in_words(java: Client, broker: Served) -> None:
    with pytest.raises(Refused, match="serves .* read-only: nothing can be sent or changed here"):
        java.ask("send", broker.address, topic=TOPIC, bodies=["x"])


def test_from_object_storage(client: Client, ours: tuple[Path, int], objects: Server, tmp_path: Path) -> None:
    """The store lies on a server that speaks S3, of which objects are only read."""
    url = objects.put(ours[0], f"served-{client.kind}")
    words = [word for key, value in objects.keys.items() for word in ("--set", f"{key}={value}")]
    wanted = facts_of(ours[0])
    objects.requests()
    with served(url, tmp_path, *words) as broker:
        assert consumed(client, broker.address, "Fresh", [TOPIC], 2 * HALF) == wanted
        second = Counter(one for one in wanted if one[2] >= HALF // QUEUES)
        assert consumed(client, broker.address, EARLY, [TOPIC], HALF) == second
    assert {request.split()[0] for request in objects.requests()} <= {"GET", "HEAD"}


@pytest.mark.turn(6)
def test_stores_of_rocketmq(client: Client, golden_store: Golden, tmp_path: Path) -> None:
    """Each message of each golden store; light queues hold messages of others, and are no topics of clients.

    Go's client gives an inner batch as one message, reads topics of at most 127 bytes, knows zlib only, and makes other
    ids for IPv6: of it only the places are compared.
    """
    root, is_go = golden_store.copy(tmp_path), client.kind == "go"
    facts_known, most_bytes = (3, 127) if is_go else (None, 255)
    wanted = Counter(
        one[:facts_known]
        for one in facts_of(root, golden_store.config, unpacks=not is_go)
        if not one[0].startswith("%LMQ%") and len(one[0].encode()) <= most_bytes
    )
    before = files(root)
    with served(root, tmp_path, *golden_store.sets) as broker:
        name, topics = f"All-{golden_store.name}", sorted({one[0] for one in wanted})
        got = consumed(client, broker.address, name, topics, len(wanted))
    assert Counter(one[:facts_known] for one in got.elements()) == wanted
    assert files(root) == before
