"""Manifests: what is read, and what is refused with the entry named."""

from pathlib import Path

import pytest

from flintmq.cluster import manifest
from flintmq.cluster.manifest import is_manifest, read_manifest
from flintmq.cluster.member import Member
from flintmq.errors import UsageError

GOOD = """
cluster = "orders"
[[stores]]
store = "broker-a/store"
broker = "broker-a"
[[stores]]
store = "/mnt/slave"
broker = "broker-a"
broker_id = 1
[[stores]]
store = "s3a://bucket/x/"
broker = "库存"
cluster = "other"
"""


def test_a_manifest_is_read_from_its_own_directory_on(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text(GOOD, encoding="utf-8")
    assert is_manifest(str(path))
    assert read_manifest(str(path)) == [
        Member(str(tmp_path / "broker-a/store"), "broker-a", 0, "orders"),
        Member("/mnt/slave", "broker-a", 1, "orders"),
        Member("s3://bucket/x", "库存", 0, "other"),
    ]


def test_a_directory_may_end_as_a_manifest_does(tmp_path: Path) -> None:
    (tmp_path / "store.toml").mkdir()
    assert not is_manifest(str(tmp_path / "store.toml")) and not is_manifest("s3://bucket/cluster.toml")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "names no stores"),
        ("[[store]]\nstore = 'x'\nbroker = 'y'", "did you mean stores"),
        ("[[stores]]\nstore = 'x'", "store 1: broker is missing"),
        ("[[stores]]\nstore = 'x'\nbroker = 'y'\n[[stores]]\nbroker = 'z'", "store 2: store is missing"),
        ("[[stores]]\nstore = 'x'\nbroker = ''", "store 1: broker is empty"),
        ("[[stores]]\nstore = 'x'\nbroker = 7", "store 1: broker is 7"),
        ("[[stores]]\nstore = 'x'\nbroker = 'y'\nbroker_id = -1", "broker_id is -1"),
        ("[[stores]]\nstore = 'x'\nbroker = 'y'\nbroker_id = true", "broker_id is True"),
        ("[[stores]]\nstore = 'x'\nbroker = 'y'\nbrokerId = 1", "unknown key"),
        ("stores = ['/data/a']", "names no stores"),
        ("cluster = 1\n[[stores]]\nstore = 'x'\nbroker = 'y'", "cluster is 1"),
        ("stores = [", "not TOML"),
        ("a" * (5 << 20), "over 4 MiB"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as error:
        read_manifest(str(path))
    assert why in str(error.value) and "\n" not in str(error.value) and str(path) in str(error.value)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not TOML"):
        read_manifest(str(tmp_path / "cluster.toml"))
    with pytest.raises(UsageError, match="no such manifest"):
        read_manifest(str(tmp_path / "other.toml"))


def test_a_manifest_that_is_too_large_is_not_read_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is within the limit may be a whole manifest, of fewer stores."""
    entry = '[[stores]]\nstore = "{0}"\nbroker = "{0}"\n'
    path = tmp_path / "cluster.toml"
    path.write_text(entry.format("a") + entry.format("b"))
    monkeypatch.setattr(manifest, "MOST_BYTES", len(entry.format("a")))
    with pytest.raises(UsageError, match="that is no manifest"):
        read_manifest(str(path))
