"""Properties that RocketMQ's start parses: what three versions made of each, as recorded from them."""

import json
from pathlib import Path
from typing import Any

import pytest

from flintmq.format import properties, record
from flintmq.format.start_fields import CUT, REFUSED, STUCK, disarmed, wrong_field, wrong_of
from flintmq.kernels.read import odd_text
from tests.support.kernel_records import records

CASES = json.loads((Path(__file__).parents[1] / "compat" / "start_fields.json").read_text())
"""By the verdicts of RocketMQ. With duplicationEnable, which the engine refuses, any record is cut."""
EFFECTS = {"loaded": None, "cut": CUT, "refused": REFUSED}


def text_of(pairs: dict[str, str]) -> bytes:
    return "".join(f"{name}\x01{value}\x02" for name, value in pairs.items()).encode()


def told(case: dict[str, Any]) -> str | None:
    """What is said of a case, with the keys of its store."""
    wrong = wrong_field(case["topic"], case["properties"], case["sys_flag"], case.get("queue_offset", 0))
    if (
        wrong is not None
        and wrong.field.beside == "INNER_MULTI_DISPATCH"
        and not case["keys"].get("enableMultiDispatch")
    ):
        return None  # a note of verify: with this key RocketMQ would not start
    return None if wrong is None else wrong.field.effect


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_table_says_what_rocketmq_does(case: dict[str, Any]):
    worst = {EFFECTS[verdict] for verdict in case["verdicts"].values()} - {None}
    assert worst == ({told(case)} - {None})


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_kernel_passes_over_nothing(case: dict[str, Any]):
    offset = case.get("queue_offset", 0)
    fields = {"topic": case["topic"].encode(), "properties": text_of(case["properties"]), "queue_offset": offset}
    data, positions = records(fields)
    _, _, what = odd_text.scan(data, positions, 0, 1, 0)
    if wrong_field(case["topic"], case["properties"], 0, offset) is not None:
        assert what & odd_text.PARSED


@pytest.mark.parametrize(
    "pairs",
    [
        {"DELAY": "18", "INNER_NUM": "9999", "INNER_BASE": "9" * 17},
        {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b,x", "INNER_MULTI_QUEUE_OFFSET": "1,22,333"},
        {"DELAYED": "12", "K": "DELAY", "INNER": "1", "TAGS": "x"},
    ],
)
def test_the_kernel_leaves_plain_numbers_out(pairs: dict[str, str]):
    data, positions = records({"properties": text_of(pairs)}, {"properties": b"DELAY"})
    assert odd_text.scan(data, positions, 0, 2, 0)[2] == 0


def test_a_timer_needs_its_time():
    topic = "rmq_sys_wheel_timer"
    for value, wrong in {"1795167354000": False, "x": True, "9" * 19: True, "-1": False}.items():
        assert (wrong_field(topic, {"TIMER_OUT_MS": value}) is not None) == wrong
    missing = wrong_field(topic, {})
    assert missing is not None and missing.field.effect == STUCK and str(missing) == "there is no TIMER_OUT_MS"
    assert wrong_field("T", {}) is None and wrong_field(topic, {}, record.TRANSACTION_PREPARED) is None


@pytest.mark.parametrize("version", [record.MAGIC_V1, record.MAGIC_V2])
@pytest.mark.parametrize("crc", [False, True])
def test_a_disarmed_record_keeps_all_but_the_name(crc: bool, version: int):
    text = b"A\x01DELAY\x02DELAY\x01x\x02INNER_NUM\x01y\x02INNER_BASE\x010\x02TAGS\x01t\x02DELAY\x01z\x02"
    made = record.Record(
        topic=b"SCHEDULE_TOPIC_XXXX", body=b"DELAY\x01x\x02", properties=text, physical_offset=7, magic=version,
        body_crc=record.crc(b"DELAY\x01x\x02"),
    )  # fmt: skip
    if crc:
        made = record.append_crc_property(made)
    data = record.encode(made)
    got = disarmed(data)
    new = record.split(got)
    assert wrong_of(made) is not None and wrong_of(new) is None and len(got) == len(data)
    assert new._replace(properties=b"") == made._replace(properties=b"")
    left = properties.parse_bytes(new.properties)
    assert left.pop("__CRC32#", None) is not None if crc else True
    assert left == {"A": "DELAY", "_ELAY": "z", "INNER_NUM": "y", "_NNER_BASE": "0", "TAGS": "t"} or left == {
        "A": "DELAY", "_ELAY": "z", "_NNER_NUM": "y", "INNER_BASE": "0", "TAGS": "t",
    }  # fmt: skip
    record.check(got, 0, 7, len(got), len(got), 1 << 20)
    assert disarmed(got) == got
