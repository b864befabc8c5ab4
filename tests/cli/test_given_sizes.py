"""Each key that describes bytes, at each door: another number than the files show is refused, and nothing changes.

Spark's doors: tests/spark/test_given_sizes.py. What is compared: `config/key_effects.SHOWN`.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import flintmq
from flintmq import ConfigError, Message, MessageStore, StoreConfig
from flintmq.config.key_effects import SELF_DESCRIBED, SHOWN
from flintmq.config.keys import KEYS
from flintmq.ha import Follower
from flintmq.lake.read.options import ReadOptions
from flintmq.lake.read.scan import plan_scan
from flintmq.store.commitlog import files
from flintmq.store.commitlog.report import Report
from tests.cli.conftest import Run
from tests.support.engine import put_messages
from tests.support.sized_store import OTHERS, SIZES, digest, make_all_kinds, says_why


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sizes") / "store"
    make_all_kinds(root)
    shutil.copytree(root, f"{root}-b")
    return root


def conf_file(root: Path, key: str, value: int) -> Path:
    path = root.parent / "broker.conf"
    path.write_text(f"brokerName=a\n{key}={value}\n")
    return path


CALLS: dict[str, Callable[[Path, str, int], object]] = {
    "MessageStore(config)": lambda root, key, value: MessageStore(root, {key: value}),
    "MessageStore(keyword)": lambda root, key, value: MessageStore(root, **{KEYS[key]: value}),  # type: ignore[arg-type]
    "MessageStore(broker.conf)": lambda root, key, value: MessageStore(
        root, StoreConfig.from_file(conf_file(root, key, value))
    ),
    "MessageStore(dev, config)": lambda root, key, value: MessageStore(root, {key: value}, dev=True),
    "MessageStore(external)": lambda root, key, value: MessageStore(root, {key: value}, dispatch="external"),
    "open_store(set)": lambda root, key, value: flintmq.open_store(root, set={key: value}),
    "open_store(config)": lambda root, key, value: flintmq.open_store(root, config=conf_file(root, key, value)),
    "scan_arrow": lambda root, key, value: flintmq.scan_arrow(root, set={key: value}).read_all(),
    "scan_polars": lambda root, key, value: flintmq.scan_polars(root, set={key: value}).collect(),
    "dataset": lambda root, key, value: flintmq.dataset(root, set={key: value}).to_table(),
    "Spark's plan": lambda root, key, value: plan_scan(
        ReadOptions.parse({"path": str(root), key: str(value)}), Report()
    ),
    "Follower": lambda root, key, value: Follower(
        root, "127.0.0.1:9", config={key: value}, adopt=True, once=True
    ).run(),
}  # fmt: skip

COMMANDS: dict[str, list[object]] = {
    "scan": ["scan", "STORE"],
    "scan, two stores": ["scan", "STORE", "STORE-b"],
    "inspect": ["inspect", "STORE"],
    "verify": ["verify", "STORE"],
    "verify --part": ["verify", "STORE", "--from", "0", "--to", "9"],
    "copy": ["copy", "STORE", "--out", "OUT"],
    "rebuild": ["rebuild", "STORE", "--out", "OUT"],
    "salvage --out": ["salvage", "STORE", "--out", "OUT"],
    "salvage --in-place": ["salvage", "STORE", "--in-place"],
    "salvage --dry-run": ["salvage", "STORE", "--in-place", "--dry-run"],
    "recover": ["recover", "STORE"],
    "recover --dry-run": ["recover", "STORE", "--dry-run"],
    "retention explain": ["retention", "explain", "STORE"],
    "offsets show": ["offsets", "show", "STORE"],
    "offsets reset": ["offsets", "reset", "STORE", "--group", "G", "--to", "first"],
    "tail": ["tail", "STORE", "T"],
    "get": ["get", "STORE", "T", "0", "0"],
    "query": ["query", "STORE", "T", "k1"],
    "sql": ["sql", "STORE", "select count(*) from messages"],
    "stats": ["stats", "STORE", "--out", "OUT"],
    "export": ["export", "STORE", "--out", "OUT"],
    "diff": ["diff", "STORE", "STORE"],
    "metrics": ["metrics", "STORE"],
    "explain": ["explain", "STORE/commitlog/00000000000000000000"],
    "put": ["put", "STORE", "T", "hello"],
    "serve-ha": ["serve-ha", "STORE", "--listen", "127.0.0.1:0"],
    "follow": ["follow", "127.0.0.1:9", "--out", "STORE", "--once", "--adopt"],
}


def test_every_key_that_describes_bytes_is_in_one_of_two_tables():
    """Compared with the files, or a reason why not; by the words in RocketMQ's names of such keys."""
    words = ("filesize", "slotnum", "indexnum", "bitmaplength", "maxmessagesize", "precisionms", "delaylevel")
    about = {key for key in KEYS if any(word in key.lower() for word in words)}
    others = {  # sizes of messages, levels and precisions of stores that are not files, and what files do not hold
        "maxFilterMessageSize", "timerRocksDBPrecisionMs", "timerInterceptDelayLevel",
    }  # fmt: skip
    assert about - others == SHOWN.keys() | SELF_DESCRIBED.keys()
    assert SHOWN.keys() == SIZES.keys() and not SHOWN.keys() & SELF_DESCRIBED.keys()


@pytest.mark.parametrize("door", CALLS)
@pytest.mark.parametrize(("key", "value"), OTHERS)
def test_a_call_refuses_another_size_than_the_files_show(made: Path, door: str, key: str, value: int):
    before = digest(made)
    with pytest.raises(ConfigError) as error:
        CALLS[door](made, key, value)
    says_why(str(error.value), key, value, made)
    assert digest(made) == before


@pytest.mark.parametrize("door", COMMANDS)
@pytest.mark.parametrize(("key", "value"), OTHERS)
def test_a_command_refuses_another_size_than_the_files_show(
    made: Path, tmp_path: Path, run: Run, door: str, key: str, value: int
):
    before, out = digest(made), tmp_path / "out"
    words = [str(word).replace("STORE", str(made)).replace("OUT", str(out)) for word in COMMANDS[door]]
    done = run(*words, "--set", f"{key}={value}")
    assert done.code == 2, (done.code, done.out, done.err)
    says_why(done.err.strip(), key, value, made)
    assert (done.out == "" or (door == "metrics" and done.out.endswith(" 0\n"))) and not out.exists()
    assert digest(made) == before


@pytest.mark.parametrize("keys", [SIZES, {"mappedFileSizeConsumeQueue": 391}, {}])
def test_what_the_files_show_is_no_other_size(made: Path, run: Run, keys: dict[str, int]):
    """RocketMQ makes files of whole units: 391 bytes are 400."""
    said = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
    for words in (["scan", made, "--format", "{queue_offset}"], ["verify", made], ["recover", made, "--dry-run"]):
        done = run(*words, *said)
        assert done.code == 0, (words, done.out, done.err)


@pytest.mark.parametrize("door", ["scan", "verify", "export", "rebuild", "copy", "salvage --out", "salvage --in-place"])
def test_a_lowered_maxmessagesize_loses_no_message(tmp_path: Path, run: Run, door: str):
    """RocketMQ asks it when it stores: with any value it starts with all records, and keeps them (5.3.3 to 5.5.0)."""
    root, out = tmp_path / "store", tmp_path / "out"
    bodies = [b"a", bytes(300_000), b"c"]
    put_messages(root, (Message("T", body) for body in bodies), mapped_file_size_commit_log=1 << 20)
    words = [str(word).replace("STORE", str(root)).replace("OUT", str(out)) for word in COMMANDS[door]]
    done = run(*words, "--set", "maxMessageSize=1000")
    assert done.code == 0, (done.out, done.err)
    if door == "scan":
        assert len(done.out.splitlines()) == 3
    kept = out if door in ("copy", "salvage --out") else root
    assert [len(row["body"]) for row in flintmq.scan_arrow(kept).read_all().to_pylist()] == [1, 300_000, 1]
    with MessageStore(kept, max_message_size=1000) as store:
        assert [store.get("T", 0, number).messages[0].body for number in range(3)] == bodies
        assert store.put(Message("T", bytes(1001))).status.name == "MESSAGE_ILLEGAL"


def test_the_engine_opens_what_it_stored_with_a_high_maxmessagesize(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Beyond the bound of readers, which the key raises: here 100,000 bytes instead of 64 MiB."""
    monkeypatch.setattr(files, "MAX_RECORD", 100_000)
    keys = {"mappedFileSizeCommitLog": 1 << 20, "maxMessageSize": 300_000}
    for number in range(2):
        with MessageStore(tmp_path, keys) as store:
            store.put(Message("T", bytes(200_000 + number))).raise_for_status()
            assert store.wait_dispatched(60)
            assert store.get("T", 0, number).messages[0].body == bytes(200_000 + number)
    assert flintmq.scan_arrow(tmp_path, set=keys).read_all().num_rows == 2
