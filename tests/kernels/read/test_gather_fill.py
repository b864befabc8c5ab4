"""Each kind of column against values written by hand and against the slow reference."""

import random

import pytest

from flintmq.format import message_id, properties, record
from flintmq.kernels.read import gather as kernel
from tests.support.gather_plans import EVERYTHING, GROUP, Plan
from tests.support.guarded_memory import guarded
from tests.support.kernel_records import HOST6, LONG_WINDED, ODD, PAIRS, READ, records

MICRO_NONE = (-(2**63), 2**63 - 1, -62135596800001, 253402300800000)


def one(kind: int, number: int = 0, **fields: object) -> object:
    plan = Plan([(kind, number)], 1)
    data, positions = records(fields)
    assert plan.gather(guarded(data), positions) == (1, kernel.DONE)
    return plan.column(0)[0]


@pytest.mark.parametrize(
    ("kind", "where", "field"),
    [
        (kernel.INT32, 12, "queue_id"),
        (kernel.INT32, 16, "flag"),
        (kernel.INT32, 72, "reconsume_times"),
        (kernel.INT64, 20, "queue_offset"),
        (kernel.INT64, 40, "born_timestamp"),
        (kernel.INT64, 56, "store_timestamp"),
        (kernel.INT64, 76, "prepared_transaction_offset"),
    ],
)
@pytest.mark.parametrize("hosts", [(), ("born_host",), ("store_host",), ("born_host", "store_host")])
def test_numbers(kind: int, where: int, field: str, hosts: tuple[str, ...]) -> None:
    bits = 32 if kind == kernel.INT32 else 64
    for value in (0, 1, -1, 258, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1):
        assert one(kind, where, **dict.fromkeys(hosts, HOST6), **{field: value}) == value


def test_numbers_of_the_record_itself() -> None:
    data, positions = records({}, {"body": b"x" * 300}, base=5_000_000_000)
    plan = Plan([(kernel.INT32, 0), (kernel.INT64, 28), (kernel.INT32, 36), (kernel.UINT32, 8)], 2)
    plan.gather(data, positions)
    sizes = [positions[1], len(data) - positions[1]]
    assert plan.column(0) == sizes
    assert plan.column(1) == [5_000_000_000, 5_000_000_000 + sizes[0]]
    assert plan.column(2) == [0, 0]
    assert plan.column(3) == [record.crc(b"hello"), record.crc(b"x" * 300)]
    assert one(kernel.UINT32, 8, body_crc=-1) == 0xFFFFFFFF


def test_magic() -> None:
    assert one(kernel.MAGIC) == b"V1"
    assert one(kernel.MAGIC, magic=record.MAGIC_V2) == b"V2"


def test_microseconds_are_null_outside_the_years_that_spark_knows() -> None:
    for ms in (0, -1, 1_700_000_000_123, -62135596800000, 253402300799999):
        assert one(kernel.MICROSECONDS, 40, born_timestamp=ms) == ms * 1000
        assert one(kernel.MICROSECONDS, 56, store_timestamp=ms, born_host=HOST6) == ms * 1000
    for ms in MICRO_NONE:
        assert one(kernel.MICROSECONDS, 40, born_timestamp=ms) is None


def test_offset_message_ids() -> None:
    assert one(kernel.OFFSET_MSG_ID) == b"0A0000FF00001F900000000000000000"
    assert one(kernel.OFFSET_MSG_ID, store_host=HOST6) == b"20010DB80000000000000000000000010000C7380000000000000000"
    chance = random.Random(3)
    for width in (8, 20) * 20:
        host, base = chance.randbytes(width), chance.getrandbits(62)
        data, positions = records({"store_host": host}, base=base)
        plan = Plan([(kernel.OFFSET_MSG_ID, 0)], 1)
        plan.gather(guarded(data), positions)
        assert plan.column(0)[0] == message_id.offset_msg_id(host, base).encode()


def test_hosts() -> None:
    chance = random.Random(4)
    octets = [bytes([i, 255 - i, i % 10, i % 100]) for i in range(256)]
    ports = [0, 9, 10, 99, 100, 999, 1000, 9999, 10000, 65535, *(chance.randrange(65536) for _ in range(40))]
    hosts = [octet + chance.choice(ports).to_bytes(4, "big") for octet in octets]
    hosts += [bytes(4) + port.to_bytes(4, "big") for port in ports for _ in range(2)]
    data, positions = records(*({"born_host": host, "store_host": hosts[0]} for host in hosts))
    plan = Plan([(kernel.BORN_HOST, 0), (kernel.STORE_HOST, 0)], len(hosts), 30 * len(hosts))
    assert plan.gather(guarded(data), positions) == (len(hosts), kernel.DONE)
    assert plan.column(0) == [message_id.host_text(host).encode() for host in hosts]
    assert plan.column(1) == [message_id.host_text(hosts[0]).encode()] * len(hosts)
    assert plan.noted == []


def test_hosts_left_to_python() -> None:
    no_ports = [{"born_host": bytes(4) + port} for port in (b"\x00\x01\x00\x00", b"\xff\xff\xff\xff")]
    data, positions = records({"born_host": HOST6}, {}, *no_ports)
    plan = Plan([(kernel.INT32, 0), (kernel.BORN_HOST, 0)], 4)
    plan.gather(guarded(data), positions)
    assert plan.column(1) == [b"", b"10.0.0.255:8080", b"", b""]
    assert plan.noted == [(0, 1), (2, 1), (3, 1)]


def test_topics_and_bodies() -> None:
    texts = [b"", b"T", b"T", b"TT", "主题".encode(), b"t" * 33, b"\xff", b"T", b"\xff", b"x\xed\xa0\x80"]
    bodies = [bytes([n % 256]) * n for n in (0, 1, 15, 16, 17, 31, 64, 65, 700, 3)]
    data, positions = records(*({"topic": t, "body": b} for t, b in zip(texts, bodies, strict=True)))
    plan = Plan([(kernel.TOPIC, 0), (kernel.BODY, 0)], 10)
    plan.gather(guarded(data), positions)
    assert plan.column(1) == bodies
    assert plan.column(0) == [b"" if b"\xff" in text or b"\xed" in text else text for text in texts]
    assert plan.noted == [(6, 0), (8, 0), (9, 0)]


def test_compressed_bodies_are_left_to_python_on_request() -> None:
    data, positions = records({"sys_flag": 1}, {}, {"sys_flag": 0x301, "born_host": HOST6})
    plan = Plan([(kernel.BODY, 1)], 3)
    plan.gather(data, positions)
    assert plan.column(0) == [b"", b"hello", b""]
    assert plan.noted == [(0, 0), (2, 0)]
    plan = Plan([(kernel.BODY, 0)], 3)
    plan.gather(data, positions)
    assert plan.column(0) == [b"hello"] * 3


GROUP_PLAN = [(kind, 400 if kind == kernel.PROPERTIES else 1) for kind in GROUP]


@pytest.mark.parametrize("text", READ.values(), ids=READ)
def test_properties(text: bytes) -> None:
    data, positions = records({}, {"properties": text}, {})
    plan = Plan(GROUP_PLAN, 3)
    assert plan.gather(guarded(data), positions) == (3, kernel.DONE)
    assert plan.noted == []
    for row, stored in enumerate((PAIRS, text, PAIRS)):
        expected = properties.parse_bytes(stored)
        assert plan.column(0)[row] == [(name.encode(), value.encode()) for name, value in expected.items()]
    expected = properties.parse_bytes(text)
    for column, name in ((3, "TAGS"), (4, "KEYS"), (5, "UNIQ_KEY")):
        value = expected.get(name)
        assert plan.column(column)[1] == (None if value is None else value.encode())


@pytest.mark.parametrize("name", LONG_WINDED)
def test_properties_left_to_python(name: str) -> None:
    data, positions = records({}, {"properties": LONG_WINDED[name]}, {})
    plan = Plan([(kernel.INT32, 0), *GROUP_PLAN], 3)
    assert plan.gather(guarded(data), positions) == (3, kernel.DONE)
    assert plan.noted == [(1, 1)]
    assert plan.column(1)[1] == []
    assert plan.column(1)[2] == plan.column(1)[0] != []


def test_single_values_do_not_mind_doubled_names() -> None:
    data, positions = records({"properties": LONG_WINDED["tags twice"]})
    plan = Plan([(kind, int(kind in (kernel.TAGS, kernel.UNIQ_KEY))) for kind in GROUP], 1)
    plan.gather(data, positions)
    assert plan.column(3) == [b"y"] and plan.column(5) == [None] and plan.noted == []


def test_all_columns_of_odd_records_at_once() -> None:
    """What one column does leaves the others alone: the same values as one column at a time."""
    data, positions = records(*ODD)
    memory = guarded(data)
    plan = Plan(EVERYTHING, len(ODD), 20_000)
    assert plan.gather(memory, positions) == (len(ODD), kernel.DONE)
    together = plan.named()
    for kind, number in EVERYTHING[: -len(GROUP)]:
        alone = Plan([(kind, number)], len(ODD), 20_000)
        alone.gather(memory, positions)
        assert alone.column(0) == together[kind, number]
