import pytest

from flintmq.cli.template import compile_template
from flintmq.errors import UsageError
from flintmq.format import record
from flintmq.message import COLUMNS, StoredMessage

MESSAGE = StoredMessage(
    record.encode(
        record.Record(
            topic="库存\x1b".encode(),
            queue_id=3,
            queue_offset=17,
            body=b"hi \x1b\xff",
            properties=b"TAGS\x01TagA\x02colour\x01red\x07\x02",
            store_timestamp=1_700_681_825_997,
            born_timestamp=-1,
        )
    )
)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("", ""),
        ("plain", "plain"),
        ("{topic}/{queue_id}/{queue_offset}", "库存\\x1b/3/17"),
        ("{body}|{body:text}", "hi \\x1b\\xff|hi \\x1b\\xff"),
        ("{body:base64} {body:hex} {body:length}", "aGkgG/8= 6869201bff 5"),
        ("{store_timestamp} {store_timestamp:iso}", "1700681825997 2023-11-22T19:37:05.997Z"),
        ("{born_timestamp:iso}", "1969-12-31T23:59:59.999Z"),
        ("{tags},{keys},{msg_id}", "TagA,,"),
        ("{properties:colour}|{properties:none}", "red\\x07|"),
        ("{properties}", '{"TAGS":"TagA","colour":"red\\u0007"}'),
        ("{{{topic}}}\\t{magic}\\n.", "{库存\\x1b}\tV1\n."),
    ],
)
def test_what_a_template_gives(template: str, text: str) -> None:
    assert compile_template(template)(MESSAGE, MESSAGE.body) == text


def test_the_body_is_the_one_that_is_shown() -> None:
    assert compile_template("{body}{body:length}")(MESSAGE, b"original") == "original8"


@pytest.mark.parametrize("name", COLUMNS)
def test_every_field_of_the_schema_can_be_named(name: str) -> None:
    assert compile_template(f"{{{name}}}")(MESSAGE, MESSAGE.body).isprintable()


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ("{nope}", r"\{nope\} is not a field; there are topic, queue_id"),
        ("{}", r"\{\} is not a field"),
        ("{0}", r"\{0\} is not a field"),
        ("{topic.__class__}", r"\{topic.__class__\} is not a field"),
        ("{topic[0]}", "is not a field"),
        ("{topic!r}", "is not a field"),
        ("{TOPIC}", "is not a field"),
        ("{body:rot13}", r"\{body:rot13\} is not known; there is \{body:text\}, \{body:base64\}, \{body:hex\}"),
        ("{topic:>20}", r"\{topic:>20\} is not known; there is \{topic\} alone"),
        ("{store_timestamp:%Y}", r"there is \{store_timestamp:iso\}"),
        ("{topic", "--format: .*expected '}'"),
        ("topic}", "--format: single '}'"),
        ("{" + "x" * 5000 + "}", "is not a field"),
    ],
)
def test_what_a_template_cannot_be(template: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as caught:
        compile_template(template)
    assert len(str(caught.value)) < 500
