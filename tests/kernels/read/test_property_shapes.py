"""Strings that are split by what they have in common with one before are split as each would be by itself."""

from hypothesis import given
from hypothesis import strategies as st

from flintmq.format import consume_queue, properties, record
from flintmq.kernels.read import derive, property_shapes
from flintmq.kernels.read import gather as kernel
from tests.kernels.read.test_derive import Run, expected_keys, expected_unit
from tests.support.gather_plans import GROUP, Plan
from tests.support.guarded_memory import guarded
from tests.support.kernel_records import records

GROUP_PLAN = [(kind, 400 if kind == kernel.PROPERTIES else 1) for kind in GROUP]


def check_run(texts: list[bytes]) -> None:
    """Properties of records in a row are those of each by itself, and what the reference says."""
    data, positions = records(*({"properties": text} for text in texts))
    plan = Plan(GROUP_PLAN, len(texts), 60_000)
    assert plan.gather(guarded(data), positions) == (len(texts), kernel.DONE)
    together = [plan.column(column) for column in (0, 3, 4, 5)]
    noted = {index for index, _ in plan.noted}
    for row, text in enumerate(texts):
        alone = Plan(GROUP_PLAN, 1)
        alone.gather(*records({"properties": text}))
        assert [values[row] for values in together] == [alone.column(column)[0] for column in (0, 3, 4, 5)], text
        assert (row in noted) == bool(alone.noted), text
        if row not in noted:
            expected = properties.parse_bytes(text)
            assert together[0][row] == [(name.encode(), value.encode()) for name, value in expected.items()]


def test_runs_of_strings_of_one_shape() -> None:
    """Values change, names do not; then something else changes at each place in turn."""
    base = b"TAGS\x01tag\x02K\x01vv\x02KEYS\x01" + b"k" * 70 + b"\x02UNIQ_KEY\x01" + b"0" * 32
    run = [base.replace(b"k", b"%d" % (n % 10)).replace(b"0", b"%x" % (n % 16)) for n in range(6)]
    check_run(run)
    for at in range(len(base)):
        for byte in (b"\x01", b"\x02", b"A", b"\xc3"):
            check_run([*run[:3], base[:at] + byte + base[at + 1 :], run[4], run[5]])


def test_shapes_of_every_length() -> None:
    for size in (*range(3, 140), 191, 192, 193, 253, 254, 255, 256, 257, 300):
        texts = [b"N\x01" + bytes([97 + n]) * (size - 2) for n in range(5)]
        check_run([*texts, texts[0][:-1] + b"\x02", *texts[:2]])


LETTERS = st.lists(st.sampled_from([b"\x01", b"\x02", b"A", b"B", b"TAGS\x01", b"KEYS\x01", "é".encode()]), max_size=12)


@given(LETTERS.map(b"".join), st.lists(st.tuples(st.integers(0, 40), st.sampled_from(b"\x01\x02AB\xc3")), max_size=12))
def test_any_run_of_strings_that_differ_in_a_byte(base: bytes, changes: list[tuple[int, int]]) -> None:
    texts = [base, base, base]
    for at, byte in changes:
        text = bytearray(base)
        text[at % max(1, len(text)) : at % max(1, len(text)) + 1] = bytes([byte])[: len(text)]
        texts += [bytes(text), base]
    check_run(texts)


def test_units_and_keys_of_a_run_of_one_shape() -> None:
    """Delay levels and light queues are looked for among the pairs of the shape, moved to where the string lies."""
    texts = [
        b"A\x01%d\x02DELAY\x01%d\x02KEYS\x01k%d m\x02TAGS\x01t%d" % (n % 10, 1 + n % 9, n % 10, n % 10)
        for n in range(40)
    ]
    run = [
        record.Record(topic=b"SCHEDULE_TOPIC_XXXX", properties=text, store_timestamp=1000 + n)
        for n, text in enumerate(texts)
    ]
    done = Run(*run)
    assert (done.at, done.why) == (40, derive.DONE)
    expected, at = b"", 5000
    for one in run:
        expected += expected_unit(one, at)
        at += one.size
    assert bytes(done.unit_bytes) == expected
    assert consume_queue.UNIT.unpack(done.unit_bytes, 20 * 39).tags_code == 1039 + 30_000  # level 4: 30 s
    assert list(done.hashes[: done.keys]) == [key for one in run for key in expected_keys(one, "5.3.3")]


def test_a_light_queue_is_found_in_a_string_of_a_known_shape() -> None:
    texts = [b"K\x01%d\x02INNER_MULTI_DISPATCH\x01q%d\x02" % (n, n) for n in range(5)]
    plain = [b"K\x01%d\x02OTHER_MULTI_DISPATCH\x01q%d\x02" % (n, n) for n in range(5)]
    for first in range(4):
        run = Run(*(record.Record(topic=b"T", properties=text) for text in [*plain[:first], *texts]), flags=derive.LMQ)
        assert (run.at, run.why) == (first, derive.SPECIAL)


def test_sizes_that_callers_reserve() -> None:
    assert (property_shapes.KNOWN, property_shapes.PAIRS) == (8 * 16, 9 * 3 * 32)
