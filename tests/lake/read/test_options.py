"""Options of the source: every name known, every value checked, before anything is read."""

import pytest

from flintmq.errors import ConfigError, UsageError
from flintmq.lake.read.options import OWN_NAMES, ReadOptions
from flintmq.store.commitlog.predicate import Predicate


def parse(**options):
    return ReadOptions.parse({"path": "/s", **options})


def test_defaults():
    options = parse()
    assert options.path == "/s"
    assert options.columns is None
    assert options.predicate.everything
    assert options.fail_on_data_loss and not options.pushdown and not options.decompress and not options.explode
    assert (options.least_splits, options.access) == (1, "pread")


def test_names_are_compared_without_regard_to_case():
    """Spark lowers them all."""
    given = {"PATH": "/s", "minpartitions": "7", "failondataloss": "FALSE", "mappedfilesizecommitlog": "65536"}
    options = ReadOptions.parse(given)
    assert (options.least_splits, options.fail_on_data_loss) == (7, False)
    assert options.config.mapped_file_size_commit_log == 65536
    assert options.config.given == {"mappedFileSizeCommitLog"}


def test_values():
    options = parse(
        columns=" topic , body",
        subscribe="A, B",
        tags="T1 || T2",
        startingTimestamp="1700000000005",
        endingTimestamp="1700000000006",
        decompress="true",
        explode="true",
        pushdown="true",
        access="map",
    )
    assert options.columns == ("topic", "body")
    assert options.predicate == Predicate(
        frozenset("AB"), since=1_700_000_000_005, until=1_700_000_000_006, tags=frozenset({"T1", "T2"})
    )
    assert options.decompress and options.explode and options.pushdown and options.access == "map"


def test_star_is_every_tag():
    assert parse(tags="*").predicate.tags is None


def test_a_pattern_is_for_whole_names():
    assert parse(subscribePattern="Or.*").predicate == Predicate(topic_pattern="Or.*")


def test_assign_with_offsets():
    predicate = parse(assign='{"A": [0, 1]}', startingOffsets='{"A": {"1": 4}}').predicate
    assert predicate.queues == {("A", 0), ("A", 1)}
    assert predicate.offsets == (("A", 1, 4, 2**63 - 1),)


@pytest.mark.parametrize(
    "options, complaint",
    [
        ({"column": "topic"}, "did you mean columns?"),
        ({"startingoffset": "earliest"}, "did you mean startingOffsets?"),
        ({"mappedFileSizeCommitLogs": "1"}, "did you mean mappedFileSizeCommitLog?"),
        ({"zzzzzzzz": "1"}, "options are path, paths, columns"),
        ({"paths": "[]"}, "not a JSON list of directories"),
        ({"subscribe": "A", "assign": '{"A": [0]}'}, "subscribe and assign exclude each other"),
        ({"subscribe": "A", "subscribePattern": "A"}, "exclude each other"),
        ({"startingOffsets": '{"A": {"0": 5}}', "endingOffsets": '{"A/0": 4}'}, "is larger than endingOffsets (4)"),
        ({"startingOffsets": "nonsense", "startingTimestamp": "0"}, "is not JSON"),
        ({"subscribePattern": ""}, "matches no topic"),
        ({"subscribePattern": "("}, "not a regular expression"),
        ({"subscribe": "A,,B"}, "empty name"),
        ({"columns": ""}, "empty name"),
        ({"columns": "topic,topic"}, "one twice"),
        ({"tags": "A || "}, "empty tag"),
        ({"minPartitions": "0"}, "from 1 to"),
        ({"minPartitions": "many"}, "not a whole number"),
        ({"minPartitions": "9" * 30}, "not a whole number"),
        ({"failOnDataLoss": "yes"}, "not one of true, false"),
        ({"access": "mmap"}, "not one of pread, map"),
        ({"startingTimestamp": "2024-01-01"}, "not a whole number"),
        ({"startingTimestamp": "1700000000006", "endingTimestamp": "1700000000005"}, "later than"),
        (
            {"startingTimestamp": "1700000000"},
            "option startingTimestamp: 1700000000 ms since 1970 is 1970-01-20T16:13:20",
        ),
        ({"endingTimestamp": "20241120"}, "option endingTimestamp: 20241120 ms since 1970 is 1970-01-01T05:37:21.120Z"),
        (
            {"endingOffsetsByTimestamp": '{"A": {"0": 1700000000}}'},
            "option endingOffsetsByTimestamp: 1700000000 ms since 1970 is 1970-01-20T16:13:20.000Z; write 000 after",
        ),
        ({"subscribe": "A", "startingOffsets": '{"B": {"0": 5}}'}, "'B', which is not read"),
        ({"assign": '{"A": [0]}', "endingOffsets": '{"A": {"1": 5}}'}, "queue 1 of topic 'A', which is not read"),
    ],
)
def test_what_is_refused(options, complaint):
    with pytest.raises(UsageError) as caught:
        parse(**options)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600


def test_an_impossible_value_of_a_rocketmq_key():
    with pytest.raises(ConfigError, match="mappedFileSizeCommitLog"):
        parse(mappedFileSizeCommitLog="big")


def test_a_path_is_needed():
    with pytest.raises(UsageError, match="no store given"):
        ReadOptions.parse({})


@pytest.mark.parametrize(
    "text, path",
    [
        ("/a b/%41", "/a b/%41"),
        ("store", "store"),
        ("a:b", "a:b"),
        ("file:/a%20b/c", "/a b/c"),
        ("file:///a/%C3%A4", "/a/ä"),
        ("FILE://localhost/a", "/a"),
        ("s3a://bucket/a//b/", "s3://bucket/a/b"),
    ],
)
def test_paths(text, path):
    assert ReadOptions.parse({"path": text}).path == path


@pytest.mark.parametrize("text", ["ftp://host/store", "dbfs:/store", "file://other/a"])
def test_paths_elsewhere_are_refused(text):
    with pytest.raises(UsageError, match="read from directories, file://, s3://, gs://"):
        ReadOptions.parse({"path": text})


def test_how_object_storage_is_reached():
    options = {"path": "s3://b/s", "S3.Endpoint": "http://127.0.0.1:9000/", "s3.region": "r1", "s3.attempts": "2"}
    s3 = ReadOptions.parse(options).config.s3
    assert (s3.endpoint, s3.region, s3.attempts, s3.timeout_s) == ("http://127.0.0.1:9000", "r1", 2, 20)
    with pytest.raises(UsageError, match="s3.secret' is not an option"):
        ReadOptions.parse({"path": "s3://b/s", "s3.secret": "x"})


def test_what_spark_adds_for_a_table_in_its_catalog():
    """As it arrives in PySpark 4.3 for CREATE TABLE t USING flintmq OPTIONS (...) TBLPROPERTIES ('k'='v')."""
    added = {"owner": "root", "k": "v", "provider": "flintmq", "comment": "x", "location": "file:/s"}
    options = ReadOptions.parse({**added, "path": "file:/s", "option.columns": "topic", "columns": "topic"})
    assert (options.path, options.columns) == ("/s", ("topic",))
    with pytest.raises(UsageError, match="'colums' is not an option"):
        ReadOptions.parse({**added, "path": "file:/s", "option.colums": "topic"})


def test_every_option_is_documented(pytestconfig):
    pages = (pytestconfig.rootpath / "docs" / "spark" / name for name in ("source.md", "streaming.md"))
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    assert [name for name in OWN_NAMES if f"| `{name}` |" not in text] == []
