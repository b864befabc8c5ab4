"""Values of options: times, sizes, places, tags, settings."""

import time

import pytest

from flintmq.cli.values import (
    parse_address,
    parse_log_place,
    parse_partitions,
    parse_position,
    parse_size,
    parse_tags,
    parse_time,
    store_config,
    time_range,
)
from flintmq.errors import ConfigError, UsageError


def test_settings_use_rocketmqs_names() -> None:
    config = store_config(["mappedFileSizeCommitLog=65536", "enableLmq=true"])
    assert config.mapped_file_size_commit_log == 65536 and config.enable_lmq
    assert config.given == {"mappedFileSizeCommitLog", "enableLmq"}
    assert store_config(None).given == frozenset()


@pytest.mark.parametrize(
    "word", ["", "=1", "maxIndexNum", "maxIndexNum=", "maxIndexNum=x", "maxIndexNum=-1", "noSuchKey=1"]
)
def test_settings_that_cannot_be_are_refused(word: str) -> None:
    with pytest.raises(ConfigError) as caught:
        store_config([word])
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 200


def test_a_typing_mistake_gets_the_right_name() -> None:
    with pytest.raises(ConfigError, match="did you mean maxIndexNum"):
        store_config(["maxIndexNumm=5"])


def test_time_ranges() -> None:
    assert time_range(None, None) == (None, None)
    assert time_range("631152000000", "1700681825997") == (631152000000, 1700681825997)
    first, end = time_range("-1h", "-30m")
    assert first is not None and end is not None and end - first == 1_800_000


@pytest.mark.parametrize(("since", "until"), [("now", "2024-01-01"), ("2024-01-01", "2024-01-01"), ("-15m", "-1h")])
def test_an_empty_range_is_a_mistake(since: str, until: str) -> None:
    with pytest.raises(UsageError, match="--since .* is not before --until"):
        time_range(since, until)


@pytest.mark.parametrize("option", ["since", "until"])
def test_an_error_names_its_option(option: str) -> None:
    with pytest.raises(UsageError, match=f"^--{option}: 'soon' is not a time"):
        time_range(**{"since": None, "until": None, option: "soon"})


NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("given", "ms"),
    [
        ("now", NOW),
        ("0", 0),
        ("1700681825997", 1_700_681_825_997),
        ("9223372036854775807", (1 << 63) - 1),
        ("-15m", NOW - 900_000),
        ("-1h30m", NOW - 5_400_000),
        ("-250ms", NOW - 250),
        ("-2w", NOW - 1_209_600_000),
        ("2023-11-22", 1_700_611_200_000),
        ("2023-11-22T19:37:05.997Z", 1_700_681_825_997),
        ("2023-11-22 19:37", 1_700_681_820_000),
        ("2023-11-23T03:37:05.997+08:00", 1_700_681_825_997),
        ("1969-12-31T23:59:59.9999Z", -1),
    ],
)
def test_times(given: str, ms: int) -> None:
    assert parse_time("--at", given, NOW) == ms


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("1", "1970-01-01T00:00:00.001Z"),
        ("2020", "1970-01-01T00:00:02.020Z"),
        ("20261126", "1970-01-01T05:37:41.126Z"),
        ("1795167380", "1970-01-21T18:39:27.380Z"),
        ("631151999999", "1989-12-31T23:59:59.999Z"),
    ],
)
def test_digits_that_are_no_ms_are_refused(given: str, meant: str) -> None:
    advice = "write 000 after a number of seconds, and a date as 2024-11-20"
    with pytest.raises(UsageError) as caught:
        parse_time("--at", given, NOW)
    assert str(caught.value) == f"--at: {given} ms since 1970 is {meant}; {advice}"


@pytest.mark.parametrize(
    "given",
    [
        "",
        "-",
        "yesterday",
        "-15",
        "15m",
        "-15 m",
        "-m",
        "2023-13-01",
        "٣",
        "9223372036854775808",
        "1e3",
        "-99999999999999999m",
    ],
)
def test_what_is_no_time_is_refused_in_one_line_that_says_what_is(given: str) -> None:
    with pytest.raises(UsageError, match=r"--since: .* is not a time; write ISO 8601 .*-15m") as caught:
        parse_time("--since", given, NOW)
    assert "\n" not in str(caught.value) and caught.value.exit_code == 2


@pytest.mark.parametrize(
    "given, count", [("1", 1), ("131072", 131072), ("64KiB", 65536), ("128 MiB", 128 << 20), (" 2GiB ", 2 << 30)]
)
def test_byte_counts(given: str, count: int) -> None:
    assert parse_size("--size", given) == count


@pytest.mark.parametrize("given", ["", "0", "0MiB", "-1", "1.5MiB", "128MB", "1e3", "MiB", "１", "1" * 16])
def test_what_is_no_byte_count(given: str) -> None:
    with pytest.raises(UsageError, match="--size: .* is not a size"):
        parse_size("--size", given)


def test_a_time_without_a_moment_counts_from_now() -> None:
    before = time.time_ns() // 1_000_000
    assert before - 60_000 <= parse_time("--at", "-1m") <= time.time_ns() // 1_000_000 - 60_000


@pytest.mark.parametrize(("given", "position"), [("0", 0), ("12345", 12345), ("0x3039", 12345), ("0XfF", 255)])
def test_positions(given: str, position: int) -> None:
    assert parse_position("--at", given) == position


@pytest.mark.parametrize("given", ["", "-1", "0x", "12.5", "1 KiB", "٣", "9223372036854775808", "1_0", "0x1_0", " 1"])
def test_what_is_no_position(given: str) -> None:
    with pytest.raises(UsageError, match=r"^--at: .* is not a position; write a number of bytes"):
        parse_position("--at", given)


@pytest.mark.parametrize(
    ("given", "offset"), [("0", 0), ("1073741824", 1 << 30), ("/store/commitlog/00000000001073741824", 1 << 30)]
)
def test_log_places(given: str, offset: int) -> None:
    assert parse_log_place("--from", given) == offset


@pytest.mark.parametrize("given", ["", "-1", "0x10", "commitlog/", "1" * 21, "٣"])
def test_what_is_no_log_place(given: str) -> None:
    with pytest.raises(UsageError, match="^--to: .* is neither a log offset nor the name of a log file"):
        parse_log_place("--to", given)


@pytest.mark.parametrize(
    ("words", "tags"),
    [
        (None, None),
        ([], None),
        (["*"], None),
        (["A", "*"], None),
        (["A"], {"A"}),
        (["A || B", " C "], {"A", "B", "C"}),
        ([""], set()),
    ],
)
def test_tags(words: list[str] | None, tags: set[str] | None) -> None:
    assert parse_tags(words) == tags


@pytest.mark.parametrize(
    ("given", "columns"),
    [
        ("none", ()),
        ("date", ("date",)),
        ("date,topic", ("topic_name", "date")),
        ("topic_name,date", ("topic_name", "date")),
    ],
)
def test_partition_columns(given: str, columns: tuple[str, ...]) -> None:
    assert parse_partitions(given) == columns


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:5557", ("127.0.0.1", 5557)), ("9100", ("127.0.0.1", 9100)), (":0", ("127.0.0.1", 0)),
        ("localhost", ("localhost", 5557)), ("[::1]:65535", ("::1", 65535)), ("[::]", ("::", 5557)),
        ("my-host_1.example.:80", ("my-host_1.example.", 80)),
    ],
)  # fmt: skip
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address("--listen", text) == address


@pytest.mark.parametrize("text", ["", "::1", "a:b", "h:65536", "h:-1", "h:123456", "[x]:1", "a b", "h:1 ", "h:\u0663"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--listen .*: not HOST:PORT, such as 127\.0\.0\.1:5557$"):
        parse_address("--listen", text)
