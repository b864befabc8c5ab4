"""Directories and their journal."""

from __future__ import annotations

from tests.sim.names import Folders, NameChange, NameJournal
from tests.sim.pages import SimFile


def journal(ordered: bool) -> tuple[NameJournal, SimFile, SimFile]:
    a, b = SimFile(1), SimFile(2)
    found = NameJournal({"/": {"d": None}, "/d": {}}, ordered)
    for entry in (NameChange("link", "/d/a", a), NameChange("size", "/d/a", a, size=10), NameChange("mkdir", "/d/e"),
                  NameChange("link", "/d/e/b", b)):  # fmt: skip
        found.add(entry)
    return found, a, b


def names(folders: Folders) -> set[str]:
    return {f"{path}/{name}" for path, inside in folders.items() for name in inside if path != "/"}


def test_a_prefix_counts_where_names_are_ordered():
    found, a, b = journal(True)
    told = [found.after(found.mask(n)) for n in range(found.states)]
    assert [names(folders) for folders, _ in told] == [
        set(), {"/d/a"}, {"/d/a"}, {"/d/a", "/d/e"}, {"/d/a", "/d/e", "/d/e/b"}
    ]  # fmt: skip
    assert [sizes[a] for _, sizes in told] == [0, 0, 10, 10, 10]
    found.sync_file(a)
    assert names(found.after(0)[0]) == {"/d/a"} and found.states == 3
    found.sync_file(b)
    assert found.states == 1


def test_any_subset_counts_where_they_are_not():
    found, a, _ = journal(False)
    assert found.states == 16
    assert names(found.after(0b1000)[0]) == set(), "its directory is lost"
    assert names(found.after(0b1001)[0]) == {"/d/a"}
    found.sync_file(a)
    assert found.states == 8, "its size is certain, its name is not"
    found.sync_folder("/d")
    assert names(found.after(0)[0]) == {"/d/a", "/d/e"} and found.states == 2


def test_a_rename_leaves_the_old_name_or_the_new_one():
    found, a, _ = journal(True)
    found.sync_folder("/d/e")
    found.add(NameChange("rename", "/d/a", a, "/d/z"))
    assert [names(found.after(found.mask(n))[0]) - {"/d/e", "/d/e/b"} for n in (0, 1)] == [{"/d/a"}, {"/d/z"}]


def test_a_directory_may_be_synced_before_its_own_name_is():
    found, _, b = journal(False)
    found.sync_folder("/d/e")
    assert found.after(0)[0]["/d/e"] == {"b": b} and "e" not in found.after(0)[0]["/d"]
    found.sync_folder("/d")
    assert found.after(0)[0]["/d"].keys() == {"a", "e"} and found.after(0)[0]["/d/e"] == {"b": b}
