"""What a user gives as stores: one, a list, a pattern, a manifest; masters and slaves; what is missing."""

import os
import shutil
from pathlib import Path

import pytest

from flintmq import Message
from flintmq.cluster.member import ONLY, Member
from flintmq.cluster.members import NO_STORE, SAME_STORE, find_members, names_many, only_named
from flintmq.cluster.same_log import ONE_LOG
from flintmq.errors import NotAStoreError, UsageError
from flintmq.store.commitlog.report import LOST, Report
from tests.support.engine import put_messages


def names(found: object) -> list[str]:
    assert isinstance(found, tuple)
    return [member.broker for member in found]


def test_one_store_is_a_list_of_one_without_a_name(brokers: Path) -> None:
    for path in (brokers / "broker-a" / "store", brokers / "nothing"):  # whether it is there is told when it is read
        (only,) = find_members(path)
        assert (only.path, only.broker, only.words) == (str(path), ONLY, {})
    assert not names_many(brokers / "broker-a" / "store")


def test_a_pattern_leaves_out_what_is_no_store_and_says_so(brokers: Path) -> None:
    report = Report()
    assert names(find_members(f"{brokers}/*/store", report=report)) == ["broker-a", "broker-b", "库存"]
    assert [note.code for note in report.notes] == [NO_STORE] and "unmounted" in report.notes[0].text
    assert "lost+found" not in report.notes[0].text and "more like it" not in report.notes[0].text
    assert names(find_members(f"{brokers}/broker-a/*")) == ["store"], "a pattern counts also if it matches one store"
    with pytest.raises(NotAStoreError, match="no store there"):
        find_members(f"{brokers}/x*/store")


def test_a_directory_with_a_star_in_its_name(brokers: Path) -> None:
    shutil.move(brokers / "broker-b", brokers / "b*")
    assert find_members(f"{brokers}/b*/store") == (Member(f"{brokers}/b*/store", ONLY),)


def test_a_list_has_each_store_once(brokers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.rename(brokers / "broker-b" / "store", brokers / "broker-b" / "b")
    one, other = brokers / "broker-a" / "store", brokers / "broker-b" / "b"
    monkeypatch.chdir(brokers)
    found = find_members([one, "broker-a/store", f"{one}/", other])
    assert found is not None and [(m.path, m.broker) for m in found] == [(str(other), "b"), (str(one), "store")]
    assert names(find_members([one])) == ["store"]
    with pytest.raises(NotAStoreError, match="is its disk mounted"):
        find_members([one, brokers / "broker-c"])
    report = Report()
    assert names(find_members([one, brokers / "broker-c"], strict=False, report=report)) == ["store"]
    assert [note.code for note in report.notes] == [LOST]
    with pytest.raises(NotAStoreError, match="empty"):
        find_members([])


def test_a_link_to_a_store_is_the_same_store(brokers: Path) -> None:
    """Its rows would come twice, under two names, without a word."""
    (brokers / "a-link").symlink_to(brokers / "broker-a")
    report = Report()
    found = find_members(f"{brokers}/*/store", report=report)
    assert names(found) == ["broker-a", "broker-b", "库存"]
    assert {note.code: note.text for note in report.notes}.keys() == {NO_STORE, SAME_STORE}
    assert any(str(brokers / "a-link") in note.text for note in report.notes if note.code == SAME_STORE)


def entries(brokers: Path, *texts: str) -> Path:
    """A new manifest of these entries: the lines of each, after its header."""
    path = brokers / f"{len(list(brokers.glob('*.toml')))}.toml"
    path.write_text("".join(f"[[stores]]\n{text}\n" for text in texts))
    return path


@pytest.mark.parametrize("place", ["broker-a/store", "./broker-a/../broker-a/store/", "a-link/store"])
@pytest.mark.parametrize("there", [True, False])
def test_two_brokers_for_one_directory_are_refused(brokers: Path, place: str, there: bool) -> None:
    """One of them would be left out, and nobody could tell which; also where the store itself is not there."""
    (brokers / "a-link").symlink_to(brokers / "broker-a")
    first, other = 'store = "broker-a/store"\nbroker = "A"', f'store = "{place}"\nbroker = "B"'
    if not there:
        shutil.rmtree(brokers / "broker-a" / "store" / "commitlog")
    for given in (entries(brokers, first, other), entries(brokers, other, first)):
        with pytest.raises(UsageError, match="is the store of broker '[AB]' and of broker '[AB]'; correct") as caught:
            find_members(given, strict=False)
        told = str(caught.value)
        assert "'A'" in told and "'B'" in told and str(given) in told and "\n" not in told


def test_two_clusters_or_manifests_for_one_directory_are_refused(brokers: Path) -> None:
    entry = 'store = "broker-a/store"\nbroker = "A"\ncluster = "{}"'
    with pytest.raises(UsageError, match="broker 'A' of cluster 'one' and of broker 'A' of cluster 'two'"):
        find_members(entries(brokers, entry.format("one"), entry.format("two")))
    one = entries(brokers, 'store = "broker-a/store"\nbroker = "A"')
    two = entries(brokers, 'store = "broker-a/store"\nbroker = "B"')
    with pytest.raises(UsageError, match=r"broker 'A', in .*/1\.toml, and of broker 'B'"):
        find_members([one, two])


def test_a_store_that_is_named_again_is_said(brokers: Path) -> None:
    store = brokers / "broker-a" / "store"
    (brokers / "a-link").symlink_to(brokers / "broker-a")
    again, link = f"{store}: named more than once; read once", f"{brokers}/a-link/store: another name of {store}"
    entry = 'store = "{}"\nbroker = "A"'
    for given, said in (
        (entries(brokers, entry.format(store), entry.format("broker-a/./store")), [again]),
        (entries(brokers, entry.format(store), entry.format("a-link/store")), [f"{link}; read once"]),
        ([store, f"{store}/", brokers / "a-link" / "store"], [again, f"{link}; read once"]),
        ([f"{brokers}/broker-a*/store", store], [again]),
    ):
        report = Report()
        assert len(find_members(given, report=report) or ()) == 1
        assert sorted((note.code, note.text) for note in report.notes) == sorted((SAME_STORE, text) for text in said)
    report = Report()
    assert len(find_members(entries(brokers, entry.format(store)), report=report) or ()) == 1
    assert not report.notes


def test_who_looks_at_each_store_gets_all(brokers: Path) -> None:
    shutil.copytree(brokers / "broker-a", brokers / "other")
    both = [brokers / "broker-a" / "store", brokers / "other" / "store"]
    assert len(find_members(both) or ()) == 1
    found = find_members(both, slaves=True)
    assert found is not None and [member.path for member in found] == [str(path) for path in both]


def test_one_name_for_two_logs_is_refused(brokers: Path) -> None:
    with pytest.raises(UsageError, match="both called broker 'store', and their logs differ"):
        find_members([brokers / "broker-a" / "store", brokers / "broker-b" / "store"])


def fill(path: Path, begin: int, end: int) -> None:
    put_messages(path, (Message("Orders", b"%d" % number) for number in range(begin, end)), dev=True)


def test_of_master_and_slave_the_one_that_is_further(tmp_path: Path) -> None:
    master, slave = tmp_path / "m", tmp_path / "s"
    fill(master, 0, 10)
    shutil.copytree(master, slave)
    fill(slave, 10, 12)
    manifest = tmp_path / "cluster.toml"
    entry = '[[stores]]\nstore = "{}"\nbroker = "a"\nbroker_id = {}\n'
    manifest.write_text(entry.format("m", 0) + entry.format("s", 1))
    report = Report()
    found = find_members(manifest, report=report)
    assert found is not None and [m.path for m in found] == [str(slave)]
    assert [note.code for note in report.notes] == [ONE_LOG] and str(master) in report.notes[0].text
    fill(master, 20, 24)  # a record of its own where the slave has another
    with pytest.raises(UsageError, match="logs differ"):
        find_members(manifest)
    shutil.rmtree(master)
    shutil.copytree(slave, master)
    found = find_members(manifest)
    assert found is not None and [m.path for m in found] == [str(master)], "the master, where both have the same"


def test_two_clusters_with_a_broker_of_one_name(brokers: Path) -> None:
    text = '[[stores]]\nstore = "broker-{}/store"\nbroker = "broker-a"\ncluster = "{}"\n'
    (brokers / "c.toml").write_text(text.format("a", "one") + text.format("b", "two"))
    with pytest.raises(UsageError, match="clusters 'one' and 'two'"):
        find_members(brokers / "c.toml")


def test_comparisons_leave_stores_unread(brokers: Path) -> None:
    found = find_members(f"{brokers}/*/store") or ()
    assert names(only_named(found, [("broker", "in", frozenset({"broker-a", "x"}))])) == ["broker-a"]
    assert names(only_named(found, [("store", "in", frozenset({found[1].path})), ("topic", "in", frozenset("T"))])) == [
        "broker-b"
    ]
    assert only_named(found, [("broker", "in", frozenset({"x"}))]) == ()


def test_of_three_stores_in_two_clusters_any_two_are_compared(brokers: Path) -> None:
    """Also if they hold the same log, as a copy in a cluster for tests does."""
    entry, text = '[[stores]]\nstore = "{0}"\nbroker = "a"\ncluster = "{1}"\n', ""
    for place, cluster in (("x", "one"), ("y", "two"), ("z", "one")):
        shutil.copytree(brokers / "broker-a" / "store", brokers / place)
        text += entry.format(place, cluster)
    (brokers / "c.toml").write_text(text)
    with pytest.raises(UsageError, match="clusters 'one' and 'two'"):
        find_members(brokers / "c.toml")


def test_a_slave_that_keeps_more_is_the_same_log(brokers: Path) -> None:
    """Retention of the master has deleted its first file; both end at the same record."""
    master, slave = brokers / "master", brokers / "slave"
    for place in (master, slave):
        shutil.copytree(brokers / "broker-a" / "store", place)
    min((master / "commitlog").iterdir()).unlink()
    entry = '[[stores]]\nstore = "{0}"\nbroker = "a"\nbroker_id = {1}\n'
    (brokers / "c.toml").write_text(entry.format("slave", 1) + entry.format("master", 0))
    try:
        found = find_members(brokers / "c.toml")
    except UsageError as error:
        pytest.fail(str(error))
    assert found is not None and [m.path for m in found] == [str(master)]
