"""Records made anew: by the reference codec, field by field."""

import pytest

from flintmq.errors import FormatError
from flintmq.forensics.salvage.queues import QueueMaps
from flintmq.forensics.salvage.records import HALF_TOPIC, OUTCOME_TOPIC, Renumber
from flintmq.format.record import Record, append_crc_property, check, crc, encode
from flintmq.store.dispatch.dispatcher import DispatchRules


def renumber(**rules: object) -> Renumber:
    return Renumber(DispatchRules((1000,), **rules), QueueMaps(lambda line: None))  # type: ignore[arg-type]


def moved(maker: Renumber, record: Record, to: int) -> Record:
    """The record at its new place; it must count there."""
    data = maker.record(encode(record))
    maker.place(data, record.physical_offset, to)
    return check(data, 0, to)


def made(**fields: object) -> Record:
    body = bytes(fields.get("body", b"body"))  # type: ignore[call-overload]
    base = Record(topic=b"T", body=body, body_crc=crc(body), queue_offset=7, physical_offset=1000)
    return base._replace(**fields)


def test_places_change_and_nothing_else() -> None:
    old = made(properties=b"ORIGIN_MESSAGE_ID\x0107\x02UNIQ_KEY\x01A\x02", born_timestamp=5)
    assert moved(renumber(), old, 91) == old._replace(queue_offset=0, physical_offset=91)


def test_the_checksum_of_the_whole_record_is_made_anew() -> None:
    old = append_crc_property(made(properties=b"a\x01b\x02"))
    new = moved(renumber(), old, 91)
    assert new == append_crc_property(made(properties=b"a\x01b\x02", queue_offset=0, physical_offset=91))


def test_prepared_records_stand_in_no_queue() -> None:
    maker = renumber()
    assert moved(maker, made(sys_flag=4, queue_offset=0), 0).queue_offset == 0
    assert moved(maker, made(), 200).queue_offset == 0


def test_an_inner_batch_takes_its_base_along() -> None:
    maker = renumber(batch_topics=frozenset([b"T"]))
    old = made(queue_offset=100, properties=b"INNER_NUM\x013\x02INNER_BASE\x01100\x02x\x01y\x02")
    assert moved(maker, old, 0).properties == b"INNER_NUM\x013\x02INNER_BASE\x010\x02x\x01y\x02"
    new = moved(maker, old._replace(queue_offset=103, properties=old.properties.replace(b"100", b"103")), 300)
    assert new.queue_offset == 3 and b"INNER_BASE\x013\x02" in new.properties


def test_light_queues_get_offsets_of_their_own() -> None:
    old = made(properties=b"INNER_MULTI_DISPATCH\x01%LMQ%a,b\x02INNER_MULTI_QUEUE_OFFSET\x0140,50\x02")
    maker = renumber(light_queues=True)
    assert b"OFFSET\x010,0\x02" in moved(maker, old, 0).properties
    assert b"OFFSET\x011,1\x02" in moved(maker, old, 200).properties
    assert moved(renumber(), old, 0).properties == old.properties, "without light queues it is a property like any"


def test_transactions_name_their_half_messages() -> None:
    maker = renumber()
    for number, offset in enumerate((20, 21, 23)):  # 22 is lost
        moved(maker, made(topic=HALF_TOPIC, queue_offset=offset, physical_offset=5000 + offset), 100 * number)
    commit = made(sys_flag=8, prepared_transaction_offset=5023)
    assert moved(maker, commit, 400).prepared_transaction_offset == 200
    assert moved(maker, commit._replace(prepared_transaction_offset=5022), 500).prepared_transaction_offset == 0
    outcome = made(topic=OUTCOME_TOPIC, body=b"20,22,23,", properties=b"TAGS\x01d\x02")
    assert moved(maker, outcome, 600).body == b"0,2,"
    again = made(topic=HALF_TOPIC, queue_offset=24, properties=b"TRAN_PREPARED_QUEUE_OFFSET\x0121\x02")
    assert moved(maker, again, 700).properties == b"TRAN_PREPARED_QUEUE_OFFSET\x011\x02"
    lost = again._replace(queue_offset=25, properties=b"TRAN_PREPARED_QUEUE_OFFSET\x0122\x02a\x01b\x02")
    assert moved(maker, lost, 800).properties == b"a\x01b\x02"


def test_properties_that_outgrow_their_length_are_refused() -> None:
    maker = renumber(light_queues=True)
    maker.queues.of("b", 0).next = 10**9
    long = b"INNER_MULTI_DISPATCH\x01b\x02INNER_MULTI_QUEUE_OFFSET\x010\x02x\x01"
    with pytest.raises(FormatError, match="no room"):
        maker.record(encode(made(properties=long + b"x" * (32_767 - len(long) - 1) + b"\x02")))
