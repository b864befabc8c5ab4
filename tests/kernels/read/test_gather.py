"""The columns kernel as a whole: full sections, plans that do not fit, positions that lie, and Java's rows."""

import ipaddress
import random
from array import array
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.kernels.read import gather as kernel
from tests.compat.stores import Golden
from tests.support.gather_plans import EVERYTHING, FILL, GROUP, NUMBERS, PAIRS_ROOM, Plan
from tests.support.golden_logs import records as golden_records
from tests.support.guarded_memory import guarded
from tests.support.kernel_records import ODD, records

GROUP_PLAN = [(kind, PAIRS_ROOM if kind == kernel.PROPERTIES else 1) for kind in GROUP]
JAVA_NUMBERS = {
    "queue_id": (kernel.INT32, 12),
    "queue_offset": (kernel.INT64, 20),
    "physical_offset": (kernel.INT64, 28),
    "born_timestamp": (kernel.INT64, 40),
    "store_timestamp": (kernel.INT64, 56),
    "size": (kernel.INT32, 0),
    "flag": (kernel.INT32, 16),
    "sys_flag": (kernel.INT32, 36),
    "reconsume_times": (kernel.INT32, 72),
    "prepared_transaction_offset": (kernel.INT64, 76),
    "body_crc": (kernel.UINT32, 8),
}
JAVA_TEXTS = {
    "magic": kernel.MAGIC,
    "topic": kernel.TOPIC,
    "born_host": kernel.BORN_HOST,
    "store_host": kernel.STORE_HOST,
    "offset_msg_id": kernel.OFFSET_MSG_ID,
}


def short_host(text: str) -> str:
    """Java writes IPv6 addresses in full; the schema has the short form."""
    address, bracket, port = text.partition("]")
    return f"[{ipaddress.ip_address(address[1:]).compressed}{bracket}{port}" if bracket else text


def test_golden_records_come_as_java_decodes_them(golden_store: Golden) -> None:
    files: dict[int, tuple[bytes, list[int], list[dict[str, Any]]]] = {}
    for row, data, at in golden_records(golden_store):
        _, places, rows = files.setdefault(row["physical_offset"] - at, (data, [], []))
        places.append(at)
        rows.append(row)
    assert files
    for data, places, rows in files.values():
        plan = Plan(EVERYTHING, len(rows), 200_000)
        assert plan.gather(guarded(data), array("q", places)) == (len(rows), kernel.DONE)
        got = plan.named()
        noted = set(plan.noted)
        names = list(EVERYTHING)
        for name, key in JAVA_NUMBERS.items():
            assert got[key] == [row[name] for row in rows], name
        for name, kind in JAVA_TEXTS.items():
            odd = {index for index, column in noted if column == names.index((kind, 0))}
            for index, (value, row) in enumerate(zip(got[kind, 0], rows, strict=True)):
                assert index in odd or value.decode() == short_host(row[name]), name
        odd = {index for index, column in noted if names[column][0] == kernel.PROPERTIES}
        for index, row in enumerate(rows):
            if index not in odd:
                pairs = [(a.decode(), b.decode()) for a, b in got[kernel.PROPERTIES, PAIRS_ROOM][index]]
                assert pairs == list(pairs_of(row, pairs).items())
                for name, kind in (("tags", kernel.TAGS), ("keys", kernel.KEYS), ("msg_id", kernel.UNIQ_KEY)):
                    value = got[kind, 1][index]
                    assert (None if value is None else value.decode()) == row[name]


def pairs_of(row: dict[str, Any], pairs: list[tuple[str, str]]) -> dict[str, str]:
    """Java's map has no order: its pairs in the order that was found, which must hold the same ones."""
    assert dict(pairs) == row["properties"] and len(pairs) == len(row["properties"])
    return {name: row["properties"][name] for name, _ in pairs}


@pytest.mark.parametrize("key", [key for key in EVERYTHING if key[0] not in NUMBERS and key[0] not in GROUP])
def test_a_full_section_ends_the_call_before_the_record(key: tuple[int, int]) -> None:
    data, positions = records(*ODD)
    whole = Plan([key], len(ODD), 20_000)
    whole.gather(data, positions)
    values = whole.column(0)
    for room in (0, 1, 2, 17, 24, 50, 100, 1000):
        plan = Plan([(kernel.INT64, 28), key], len(ODD), room)
        taken, why = plan.gather(data, positions)
        assert plan.column(1) == values[:taken]
        assert plan.column(0) == list(positions[:taken])
        assert why == (kernel.DONE if taken == len(ODD) else 1)
        assert len(b"".join(values[:taken])) <= room
        end = plan.numbers[7 + 5]
        assert set(plan.out[end:]) <= {FILL}, "nothing is written behind a section"


@pytest.mark.parametrize("pairs", [0, 1, 3, 5, 40])
@pytest.mark.parametrize("room", [0, 40, 120, 1400])
def test_full_sections_of_properties(pairs: int, room: int) -> None:
    data, positions = records(*ODD)
    whole = Plan(GROUP_PLAN, len(ODD), 20_000)
    whole.gather(data, positions)
    plan = Plan([(kind, pairs if kind == kernel.PROPERTIES else 1) for kind in GROUP], len(ODD), room)
    taken, why = plan.gather(data, positions)
    assert why in (kernel.DONE, 0, 3, 4, 5)
    for column in (0, 3, 4, 5):
        assert plan.column(column) == whole.column(column)[:taken]
    assert sum(map(len, plan.column(0))) <= pairs


def test_rows_that_do_not_fit_wait_for_the_next_block() -> None:
    data, positions = records(*ODD * 12)
    whole = Plan(EVERYTHING, len(positions), 60_000)
    assert whole.gather(data, positions)[1] in (kernel.DONE, kernel.NOTES_FULL)
    first, got = 0, {key: [] for key in whole.named()}
    while first < len(positions):
        plan = Plan(EVERYTHING, 150, 20_000)
        while first < len(positions):
            taken, why = plan.gather(data, positions, first)
            first += taken
            if why not in (kernel.NOTES_FULL, kernel.DONE):
                break
        for key, values in plan.named().items():
            got[key] += values
    assert {key: values[: whole.row] for key, values in got.items()} == whole.named()
    assert len(got[kernel.BODY, 0]) == len(positions)


def test_many_notes_come_in_several_calls() -> None:
    data, positions = records(*[{"topic": b"\xff", "born_host": bytes(20), "store_host": bytes(20)}] * 1000)
    plan = Plan([(kernel.TOPIC, 0), (kernel.BORN_HOST, 0), (kernel.STORE_HOST, 0)], 1000)
    noted, first, why = [], 0, kernel.NOTES_FULL
    while why == kernel.NOTES_FULL:
        taken, why = plan.gather(data, positions, first)
        noted += [note for note in plan.noted if note[0] < first + taken]
        first += taken
    assert why == kernel.DONE
    assert sorted(noted) == [(index, column) for index in range(1000) for column in range(3)]


@pytest.mark.parametrize("lie", [-1, -(2**63), 1, 10, 2**62, 2**63 - 1])
def test_positions_that_lie(lie: int) -> None:
    data, positions = records({}, {}, {})
    for index in range(3):
        wrong = array("q", positions)
        wrong[index] = lie
        with pytest.raises(ValueError, match="no whole record at position"):
            Plan(EVERYTHING, 3).gather(guarded(data), wrong)


def test_a_record_that_is_cut_off() -> None:
    data, positions = records({}, {"properties": b"", "topic": b"", "body": b""})
    for end in range(positions[1] + 1, len(data)):
        with pytest.raises(ValueError, match="no whole record"):
            Plan(EVERYTHING, 2).gather(guarded(data[:end]), positions)
    with pytest.raises(ValueError, match="empty"):
        Plan(EVERYTHING, 2).gather(b"", positions)


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(0, 3))
def test_random_changes_stay_within_the_buffer(seed: int, changes: int) -> None:
    chance = random.Random(seed)
    data, positions = records(*ODD)
    broken = bytearray(data)
    for _ in range(changes):
        broken[chance.randrange(len(broken))] = chance.choice((0, 1, 2, 127, 128, 255))
    chance.shuffle(positions)
    plan = Plan(EVERYTHING, len(ODD), 60_000)
    try:
        taken, _ = plan.gather(guarded(bytes(broken)), positions)
    except ValueError as error:
        assert "no whole record" in str(error)
    else:
        assert taken == len(ODD)


# (row of the plan, number in it, wrong value)
WRONG = [
    (0, 0, 27),
    (0, 0, -1),
    (0, 1, 85),
    (0, 1, -1),
    (0, 2, 1 << 40),
    (0, 2, -1),
    (1, 3, -1),
    (1, 3, 1 << 40),
    (2, 4, -1),
    (2, 5, 1 << 40),
    (2, 5, 0),
    (2, 4, 2**63 - 1),
    (3, 6, -1),
    (3, 6, 1 << 40),
    (4, 1, -1),
    (5, 0, 12),
    (5, 1, 0),
    (7, 6, 1 << 40),
    (9, 0, 10),
]


@pytest.mark.parametrize(("row", "number", "value"), WRONG)
def test_plans_that_do_not_fit(row: int, number: int, value: int) -> None:
    data, positions = records({})
    columns = [(kernel.INT64, 28), (kernel.INT32, 0), (kernel.TOPIC, 0), (kernel.MICROSECONDS, 40), *GROUP_PLAN]
    plan = Plan(columns, 8)
    assert plan.gather(data, positions) == (1, kernel.DONE)
    plan.numbers[7 * row + number] = value
    with pytest.raises(ValueError, match="plan|column|validity|offsets"):
        plan.gather(data, positions)


def test_arguments_that_do_not_fit() -> None:
    data, positions = records({}, {})
    plan = Plan([(kernel.TOPIC, 0)], 2)
    for first, last in ((-1, 1), (1, 0), (0, 3)):
        with pytest.raises(ValueError, match="within their arrays"):
            plan.gather(data, positions, first, last)
    plan.ints[0] = -1
    with pytest.raises(ValueError, match="offsets"):
        plan.gather(data, positions)
    with pytest.raises(ValueError, match="empty"):
        kernel.gather(data, positions, 0, 2, array("q"), 0, 2, plan.longs, plan.ints, plan.out, plan.notes)
    with pytest.raises(ValueError, match="seven columns"):
        Plan([(kernel.TOPIC, 0)] * 8, 2).gather(data, positions)
    assert Plan([(kernel.TOPIC, 0)], 2).gather(data, positions, 1, 1) == (0, kernel.DONE)
    assert Plan([(kernel.TOPIC, 0)], 0).gather(data, positions) == (0, kernel.ROWS_FULL)
