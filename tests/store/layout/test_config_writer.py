"""Configuration files that are changed: replaced safely, other fields kept, `.bak` as a second chance."""

import errno
import os
import random

import pytest

from flintmq.format import config_json
from flintmq.store.layout.config_writer import ConfigFile, save
from tests.robustness.crash.lives import Dying
from tests.support.faults import Faulty

NAME = "topics.json"
JAVA = b"""{
\t"dataVersion":{
\t\t"counter":3,
\t\t"stateVersion":0,
\t\t"timestamp":1700000000000
\t},
\t"newField":{1:"kept",2:[1,"x"]},
\t"topicConfigTable":{
\t\t"a":{"perm":6,"odd":null}
\t}
}"""


def opened(root, disk, peer="5.3.3", name=NAME):
    return ConfigFile(str(root), name, ("topicConfigTable",), disk, peer)


def change(file, topic="b"):
    with file.lock:
        file.table("topicConfigTable")[topic] = {"perm": 4}
        file.mark_changed()


def holding(root, data, name=NAME):
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / name).write_bytes(data)


@pytest.fixture
def disk():
    found = Faulty()
    found.clock = 1_700_000_009_000
    return found


def test_nothing_is_written_without_a_change(tmp_path, disk):
    assert save([opened(tmp_path, disk)], lambda: True) == 0
    assert list(tmp_path.iterdir()) == [] and disk.calls == []


@pytest.mark.parametrize("peer", ["5.3.3", "5.4.0", "5.5.0"])
def test_unknown_fields_stay_and_the_version_goes_up(tmp_path, disk, peer):
    holding(tmp_path, JAVA)
    file = opened(tmp_path, disk, peer)
    change(file)
    assert save([file], lambda: True) == 1
    written = (tmp_path / "config" / NAME).read_bytes()
    assert config_json.parse(written) == {
        "dataVersion": {"counter": 4, "stateVersion": 0, "timestamp": 1_700_000_009_000},
        "newField": {1: "kept", 2: [1, "x"]},
        "topicConfigTable": {"a": {"perm": 6, "odd": None}, "b": {"perm": 4}},
    }
    assert (b'{1:"kept",2:[1,"x"]\n\t}' in written) == (peer == "5.3.3"), "the peer's own layout"
    assert (tmp_path / "config" / (NAME + ".bak")).read_bytes() == JAVA
    assert save([file], lambda: True) == 0


def test_a_new_file_has_all_tables(tmp_path, disk):
    file = opened(tmp_path, disk)
    file.mark_changed()
    save([file], lambda: True)
    assert (tmp_path / "config" / NAME).read_bytes() == (
        b'{\n\t"dataVersion":{\n\t\t"counter":1,\n\t\t"stateVersion":0,\n\t\t"timestamp":1700000009000\n\t},\n'
        b'\t"topicConfigTable":{}\n}'
    )
    assert not (tmp_path / "config" / (NAME + ".bak")).exists()


@pytest.mark.parametrize("main", [None, b"", b'{"topicConfigTable":{"a'])
def test_d20_the_copy_serves_where_the_file_is_lost(tmp_path, disk, main):
    """D20: what a power cut left of a file that Java overwrote."""
    holding(tmp_path, JAVA, NAME + ".bak")
    if main is not None:
        holding(tmp_path, main)
    file = opened(tmp_path, disk)
    change(file)
    save([file], lambda: True)
    assert set(config_json.parse((tmp_path / "config" / NAME).read_bytes())["topicConfigTable"]) == {"a", "b"}
    assert (tmp_path / "config" / (NAME + ".bak")).read_bytes() == JAVA, "a good copy is not replaced by a bad file"
    unusable = tmp_path / "config" / (NAME + ".unusable")
    assert (unusable.read_bytes() == main) if main else not unusable.exists()


def test_nothing_is_written_that_the_log_might_lose(tmp_path, disk):
    file = opened(tmp_path, disk)
    change(file)
    assert save([file], lambda: False) == 0 and not (tmp_path / "config").exists()
    assert save([file], lambda: True) == 1, "tried again"


@pytest.mark.parametrize("call", ["create", "pwrite", "sync", "rename", "sync_dir"])
def test_a_refusing_disk_costs_nothing(tmp_path, disk, call):
    """Whatever step fails, the old or the new file is there whole, and the next call writes it."""
    holding(tmp_path, JAVA)
    file = opened(tmp_path, disk)
    change(file)
    disk.refuse(call, error=errno.EIO, after=1, times=1)
    with pytest.raises(OSError):
        save([file], lambda: True)
    assert "a" in opened(tmp_path, disk).value["topicConfigTable"]
    assert save([file], lambda: True) == 1
    assert set(opened(tmp_path, disk).value["topicConfigTable"]) == {"a", "b"}


def test_d20_the_order_of_a_safe_replacement(tmp_path, disk):
    """Data synced before the name, the name before it counts."""
    holding(tmp_path, JAVA)
    file = opened(tmp_path, disk)
    change(file)
    save([file], lambda: True)
    steps = [name for name, path in disk.calls if name in ("pwrite", "sync", "rename", "sync_dir")]
    assert steps == ["pwrite", "sync", "rename", "sync_dir"] * 2


def test_killed_at_any_call(tmp_path):
    """The old or the new table is read back, whatever call the process dies at; the next writer goes on."""
    for call in range(30):
        root = tmp_path / str(call)
        root.mkdir()
        holding(root, JAVA)
        child = os.fork()
        if child == 0:
            file = opened(root, Dying(call, kernel_puts=False))
            for topic in ("b", "c"):
                change(file, topic)
                save([file], lambda: True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        seen = set(opened(root, Faulty()).value["topicConfigTable"])
        assert seen in ({"a"}, {"a", "b"}, {"a", "b", "c"}), call
        file = opened(root, Faulty())
        change(file, "d")
        assert save([file], lambda: True) == 1
        assert set(opened(root, Faulty()).value["topicConfigTable"]) == seen | {"d"}
        if status == 0:  # it got to its end
            assert seen == {"a", "b", "c"} and call > 12
            return
    raise AssertionError("more calls than this test looks at")


def test_the_folder_s_name_is_on_disk_before_its_first_file(tmp_path, disk):
    file = opened(tmp_path, disk)
    assert file.changed is False
    change(file)
    save([file], lambda: True)
    steps = [(name, path) for name, path in disk.calls if name in ("mkdirs", "sync_dir", "create")]
    assert steps[:2] == [("mkdirs", str(tmp_path / "config")), ("sync_dir", str(tmp_path))] and steps[2][0] == "create"


def test_what_was_written_before_is_the_copy(tmp_path, disk):
    """A file that could not be parsed goes to `.unusable` once; what is written then is good, and goes to `.bak`."""
    holding(tmp_path, b"{ no json")
    file = opened(tmp_path, disk)
    for topic in ("b", "c"):
        change(file, topic)
        save([file], lambda: True)
    folder = tmp_path / "config"
    assert (folder / f"{NAME}.unusable").read_bytes() == b"{ no json"
    tables = [config_json.parse((folder / name).read_bytes())["topicConfigTable"] for name in (f"{NAME}.bak", NAME)]
    assert [sorted(table) for table in tables] == [["b"], ["b", "c"]]


def test_only_files_that_are_not_written_are_written_again(tmp_path, disk):
    files = [opened(tmp_path, disk, name=f"{n}.json") for n in range(4)]
    for file in files:
        change(file)
    disk.refuse("create", "3.json", times=1)
    with pytest.raises(OSError):
        save(files, lambda: True)
    assert [file.changed for file in files] == [False, False, False, True]
    assert save(files, lambda: True) == 1


def test_fields_stand_by_alphabet_also_where_one_is_a_number(tmp_path, disk):
    """As upstream writes them; a field that FlintMQ does not know may have any name."""
    holding(tmp_path, b'{"zeta":"a",7:"d","alpha":"c","topicConfigTable":{}}')
    file = opened(tmp_path, disk)
    change(file)
    save([file], lambda: True)
    written = config_json.parse((tmp_path / "config" / NAME).read_bytes())
    assert list(written) == [7, "alpha", "dataVersion", "topicConfigTable", "zeta"]


@pytest.mark.parametrize("peer", ["5.3.3", "5.4.0", "5.5.0"])
def test_texts_that_are_kept_make_the_bytes_of_a_whole_encoding(tmp_path, disk, peer):
    """A commit encodes its own group; the file is the one that encoding all of it would be."""
    chance, file = random.Random(46), opened(tmp_path, disk, peer, "consumerOffset.json")
    names = ["T@g", "T@h", 'U"@g', "\u00e9@\U0001f600", "odd"]

    def whole():
        with file.lock:
            return config_json.write(dict(sorted(file.value.items(), key=lambda pair: str(pair[0]))), peer)

    for step in range(300):
        with file.lock:
            for name in chance.sample(names, chance.randrange(1, 4)):
                table = chance.choice(("offsetTable", "groupTopicMap"))
                file.mark_changed(table, name)
                value = {chance.randrange(4): step, "x": []} if table == "offsetTable" else ["T", str(step)]
                file.table(table)[name] = chance.choice((value, 5, {}, [], {1: step}))
            if chance.random() < 0.1:
                file.table("offsetTable").pop(chance.choice(names), None)
                file.table("more")["n"] = step
                file.mark_changed()
            if chance.random() < 0.1:
                file.mark_changed("offsetTable", "never added: an interrupt came")
        if chance.random() < 0.05:
            file.replace({"offsetTable": {"V@g": {0: step}}})
        elif chance.random() < 0.7:
            data = file.encode()
            assert data == whole(), step
            if data is not None and chance.random() < 0.8:
                file.write(data)
                file.mark_written()
