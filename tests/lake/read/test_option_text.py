import pytest

from flintmq.errors import UsageError
from flintmq.lake.read.option_text import OptionNames, choice, duration_ms, flag, names, number

NAMES = OptionNames("source", {"path": "the store", "minPartitions": "least number of splits"}, ["maxIndexNum"])


def test_names_are_compared_without_regard_to_case() -> None:
    given = {"PATH": " /s ", "minpartitions": "3", "MaxIndexNum": "400"}
    assert NAMES.spell(given) == {"path": "/s", "minPartitions": "3", "maxIndexNum": "400"}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("minPartition", "did you mean minPartitions?"),
        ("MAXINDEXNUMBER", "did you mean maxIndexNum?"),
        ("zzz", "options are path, minPartitions"),  # the keys of RocketMQ are too many to list
    ],
)
def test_an_unknown_name_gets_the_closest_or_all(name: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        NAMES.spell({"path": "/s", name: "1"})
    assert str(caught.value) == f"'{name}' is not an option of the source flintmq; {hint}"


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("+7", 7), ("-3", -3), ("9223372036854775807", 2**63 - 1), (None, None)]
)
def test_numbers(text: str | None, value: int | None) -> None:
    assert number({} if text is None else {"n": text}, "n", -3) == value


@pytest.mark.parametrize("text", ["", "1.5", "1e3", "-4", "9223372036854775808", "٣", "1 "])
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        number({"n": text}, "n", -3)
    assert str(caught.value) == f"option n: {text!r} is not a whole number from -3 to 9223372036854775807"


def test_flags_and_choices_have_defaults() -> None:
    assert flag({}, "f", True) and not flag({}, "f", False) and flag({"f": "TRUE"}, "f", False)
    assert choice({}, "c", ("a", "b")) == "a" and choice({"c": "B"}, "c", ("a", "b")) == "b"
    with pytest.raises(UsageError, match="^option f: 'yes' is not one of true, false$"):
        flag({"f": "yes"}, "f", False)


@pytest.mark.parametrize(
    ("text", "ms"), [("500ms", 500), ("30s", 30_000), ("15 m", 900_000), ("1h", 3_600_000), ("2d", 172_800_000)]
)
def test_durations(text: str, ms: int) -> None:
    assert duration_ms({"d": text}, "d", "1h") == ms
    assert duration_ms({}, "d", text) == ms


@pytest.mark.parametrize("text", ["", "5", "1w", "-1s", "1.5h", "1  h"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(UsageError, match="^option d: .* is not a duration such as 500ms, 30s, 15m or 1h$"):
        duration_ms({"d": text}, "d", "1h")


def test_lists_of_names() -> None:
    assert names({}, "n") is None and names({"n": "a, b"}, "n") == ("a", "b")
    for text in ("", "a,,b", "a,a"):
        with pytest.raises(UsageError, match="^option n: .* has an empty name, or one twice$"):
            names({"n": text}, "n")
