"""Patterns: what they match, and what the broker is called."""

from pathlib import Path

import pytest

from flintmq.cluster.pattern import is_pattern, matches
from flintmq.errors import UsageError
from flintmq.storage.files.filesystem import REAL

FOLDERS = [
    "a/1/store",
    "a/2/store",
    "b/1/store",
    "broker-x/store",
    "broker-y/store",
    ".hidden/store",
    "[c]/store",
    "b+/store",
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for folder in FOLDERS:
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "file").write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*/store", {"a/store": "a", "b/store": "b", "broker-x/store": "broker-x", "broker-y/store": "broker-y",
                     "[c]/store": "[c]", "b+/store": "b+"}),
        ("{broker}/1/store", {"a/1/store": "a", "b/1/store": "b"} ),
        ("{broker}/*/store", {"a/1/store": "a", "a/2/store": "a", "b/1/store": "b"}),
        ("*/{broker}/store", {"a/1/store": "1", "a/2/store": "2", "b/1/store": "1"}),
        ("*/*/store", {"a/1/store": "1", "a/2/store": "2", "b/1/store": "1"}),
        ("broker-*/store", {"broker-x/store": "x", "broker-y/store": "y"}),
        ("b{broker}x/store", {"broker-x/store": "roker-"}),
        (".*/store", {".hidden/store": "hidden"}),
        ("*+/store", {"b+/store": "b"}),
        ("nothing-*/store", {}),
        ("a/*", {"a/1": "1", "a/2": "2"}),
    ],
)  # fmt: skip
def test_what_a_pattern_matches(data: Path, pattern: str, found: dict[str, str]) -> None:
    """The rest of the path after the last wildcard is not looked at: whether a store is there is the caller's."""
    assert is_pattern(pattern)
    got = {str(Path(member.path).relative_to(data)): member.broker for member in matches(f"{data}/{pattern}", REAL)}
    # A fixed end of the path is not compared with the disk.
    known = {path: broker for path, broker in got.items() if (data / path).is_dir()}
    expected = {path: broker for path, broker in found.items() if (data / path).is_dir()}
    assert known == expected


def test_a_broker_is_named_once(data: Path) -> None:
    with pytest.raises(UsageError, match="occurs twice"):
        matches(f"{data}/{{broker}}/{{broker}}", REAL)


def test_a_path_without_wildcards_is_no_pattern() -> None:
    assert not is_pattern("/data/{brokers}/store") and not is_pattern("/data/a?/[b]/store")


def test_of_two_stars_in_one_name_the_last_is_the_broker(data: Path) -> None:
    (data / "east-2" / "store").mkdir(parents=True)
    (data / "east-1" / "store").mkdir(parents=True)
    assert [member.broker for member in matches(f"{data}/*st-*/store", REAL)] == ["1", "2"]
