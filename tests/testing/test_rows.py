from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flintmq.format import record
from flintmq.kernels.write import encode
from flintmq.store.commitlog.bulk_writer import LogRoom
from flintmq.testing.rows import Column, Rows
from flintmq.testing.strategies import messages


def test_a_column_gives_back_its_rows() -> None:
    column = Column()
    for value in (b"a", b"", b"ccc"):
        column.add(value)
    column.set(1, b"new")
    assert [column[0], column[1], column[2]] == [b"a", b"new", b"ccc"]


@given(st.lists(messages(), min_size=1, max_size=5), st.booleans())
def test_any_message_comes_back_from_the_reference_codec(given_messages: list[dict[str, Any]], with_crc: bool) -> None:
    rows = Rows()
    for message in given_messages:
        rows.add(**message)
    out = bytearray(10_000)
    flags = encode.CRC_PROPERTY if with_crc else 0
    count, end, status = rows.append(LogRoom(out, 0, 20_000, 0, flags=flags))
    assert (count, status) == (len(given_messages), encode.DONE)
    at = 0
    for row, message in enumerate(given_messages):
        assert rows.physical_offsets[row] == at
        found = record.check(out, at, at)
        if with_crc:
            assert found.properties.startswith(message["properties"])
        else:
            assert found.properties == message["properties"]
            assert record.RECORD.size_of(found) == rows.size(row)
        assert (found.topic, found.body) == (message["topic"], message["body"])
        assert (found.queue_id, found.queue_offset) == (message["queue_id"], message["queue_offset"])
        assert (found.flag, found.sys_flag) == (message["flag"], message["sys_flag"])
        assert (found.born_timestamp, found.store_timestamp) == (message["born_time"], message["store_time"])
        assert (found.born_host, found.store_host) == (message["born_host"], message["store_host"])
        assert (found.reconsume_times, found.prepared_transaction_offset) == (
            message["reconsumed"],
            message["prepared_offset"],
        )
        at += record.RECORD.size_of(found)
    assert at == end
