"""What commands claim of stores that lack something: "nothing", "no such topic", "equal", or silence with code 0.

Each command meets each store. Of a store that lacks what the command asks about, the answer either fails, or tells so
in words of TELLS. Where neither is so, SEES_ALL says why the answer is right all the same.
"""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.cli.body_option import Bodies
from tests.cli.conftest import Run
from tests.support.engine import KEYS, log_files, open_small, put_all
from tests.support.makers import hurt_body, patch

COUNT = {"T": 100, "U": 20}
OFFSETS = {"offsetTable": {"T@readers": {"0": 90}}}


def without_last_files(root: Path) -> None:
    for path in log_files(root)[-2:]:
        path.unlink()


def without_log_files(root: Path) -> None:
    for path in log_files(root):
        path.unlink()


def with_a_hole(root: Path) -> None:
    log_files(root)[1].unlink()


def with_bytes_of_no_record(root: Path) -> None:
    path = log_files(root)[1]
    patch(path, 1000, b"\xff" * 400)


def without_a_queue(root: Path) -> None:
    shutil.rmtree(root / "consumequeue" / "T")


def without_readable_offsets(root: Path) -> None:
    (root / "config" / "consumerOffset.json").write_text('{"offsetTable": {"T@rea')


LACKS: dict[str, Callable[[Path], None]] = {
    "last files": without_last_files,
    "all files": without_log_files,
    "hole": with_a_hole,
    "damage": with_bytes_of_no_record,
    "queue": without_a_queue,
    "offsets": without_readable_offsets,
}
DAMAGED = r"damage at 2 places|lost +1 damaged range|[Ss]kipped 1 damaged|cannot be read at|"
END = DAMAGED + r"the log's end is missing|its files end at|damage at offset"
TELLS = {
    "last files": END + r"|it names an end that the log does not have",
    "all files": END,
    "hole": DAMAGED
    + r"have a gap of|missing file|missing or too short|file before it is missing|log-gap|nothing is there|"
    "a file of the log is missing",
    "damage": DAMAGED + r"no record magic|unit-wrong",
    "queue": r"T/0.* missing|queue-missing|consumequeue/T/0: made from the log|its queue has no files",
    "offsets": r"consumerOffset\.json|config-lost",
}

COMMANDS: dict[str, str] = {
    "scan": "scan STORE",
    "scan, other topic": "scan STORE --topic Nope",
    "scan, now": "scan STORE --since now",
    "scan, skipping": "scan STORE --topic Nope --skip-damage",
    "tail, other tag": "tail STORE T --tag nope",
    "tail, other topic": "tail STORE Nope",
    "get, beyond": "get STORE T 0 500",
    "get, other topic": "get STORE Nope 0 0",
    "query": "query STORE T kx",
    "query, other topic": "query STORE Nope k",
    "trace": "trace STORE --key kx",
    "trace, topic": "trace STORE --topic T --limit 1",
    "trace, other topic": "trace STORE --topic Nope",
    "halves": "halves STORE",
    "halves --all": "halves STORE --all",
    "timers": "timers STORE",
    "dead": "dead STORE",
    "sql messages": "sql STORE select~count(*)~from~messages",
    "sql queues": "sql STORE select~*~from~queues",
    "sql queues, skipping": "sql STORE select~*~from~queues --skip-damage",
    "sql offsets": "sql STORE select~*~from~offsets",
    "inspect": "inspect STORE",
    "verify": "verify STORE",
    "retention": "retention explain STORE",
    "offsets show": "offsets show STORE",
    "offsets export": "offsets export STORE",
    "offsets reset": "offsets reset STORE --group readers --to first --dry-run",
    "recover --dry-run": "recover STORE --dry-run",
    "rebuild": "rebuild STORE --out OUT",
    "salvage": "salvage STORE --out OUT",
    "salvage --dry-run": "salvage STORE --in-place --dry-run",
    "copy": "copy STORE --out OUT",
    "copy, topic": "copy STORE --out OUT --topic T",
    "copy, now": "copy STORE --out OUT --since now",
    "copy, other topic": "copy STORE --out OUT --topic Nope",
    "diff": "diff STORE COPY",
    "diff by message": "diff STORE COPY --by message",
    "export": "export STORE --out OUT",
    "stats": "stats STORE",
    "stats, skipping": "stats STORE --skip-damage",
    "stats, other topic": "stats STORE --topic Nope",
    "export, other topic": "export STORE --out OUT --topic Nope",
    "export --follow": "export STORE --out OUT --follow --once",
    "export --follow, skipping": "export STORE --out OUT --follow --once --skip-damage",
}

LOG = "reads the log, which is whole"
NAMES = "names of topics come from queues and topics.json, which are whole"
ENDS = "looks at the ends of the log, and says so in its help"
OWN_QUEUES = "reads queues of RocketMQ's own, which are whole; what is lost of them is said"
NO_OFFSETS = "has nothing to do with committed offsets"
AS_COMMITTED = "writes down what groups committed, whatever the log has"
PLACES = ("offsets show", "offsets export", "offsets reset")
ASKS_OFFSETS = {
    *PLACES, "trace", "trace, topic", "halves", "halves --all", "sql offsets", "inspect", "verify", "retention",
    "salvage", "salvage --dry-run", "stats", "stats, skipping",
}  # fmt: skip
ASKS_OFFSETS |= {name for name in COMMANDS if name.startswith("copy, ")}
ASKS_QUEUES = {
    "inspect", "verify", "salvage --dry-run", "export --follow", "export --follow, skipping", "offsets show",
    "offsets reset",
}  # fmt: skip
SEES_ALL: dict[str, dict[str, str]] = {
    "offsets": {name: NO_OFFSETS for name in COMMANDS if name not in ASKS_OFFSETS}
    | {"copy, other topic": "it makes no copy: there is no such topic"},
    "queue": {name: LOG for name in COMMANDS if name not in ASKS_QUEUES},
    "last files": {"sql offsets": NO_OFFSETS, "offsets export": AS_COMMITTED},
    "all files": {"sql offsets": NO_OFFSETS, "offsets export": AS_COMMITTED},
    "hole": {f"{name}, other topic": NAMES for name in ("tail", "get", "export", "stats")}
    | dict.fromkeys(("halves", "timers", "dead"), OWN_QUEUES)
    | dict.fromkeys(("sql queues", "sql queues, skipping", "get, beyond", *PLACES), "the queues are whole")
    | {"sql offsets": NO_OFFSETS},
    "damage": {f"{name}, other topic": NAMES for name in ("tail", "get", "query", "export", "stats")}
    | dict.fromkeys(("halves", "timers", "dead"), OWN_QUEUES)
    | dict.fromkeys(("sql queues", "sql queues, skipping", "get, beyond", *PLACES), "the queues are whole")
    | dict.fromkeys(("inspect", "recover --dry-run", "retention"), ENDS)
    | {
        "sql offsets": NO_OFFSETS,
        "query": "the index has an item for each key of the damaged part",
        "copy": "copies bytes, those of the damage too",
        "diff": "compares bytes, those of the damage too",
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("claims") / "store"
    with open_small(root, unique_keys=True) as store:
        for topic, count in COUNT.items():
            put_all(store, count, topic=topic)
    (root / "config" / "consumerOffset.json").write_text(json.dumps(OFFSETS))
    return root


def words_of(line: str, root: Path) -> list[str]:
    places = {"STORE": root, "OUT": root.parent / "out", "COPY": root.parent / "copy"}
    words = [str(places.get(word, word)).replace("~", " ") for word in line.split()]
    return [*words, *(word for key, value in KEYS.items() for word in ("--set", f"{key}={value}"))]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("lacks", LACKS)
def test_what_was_not_looked_at_is_not_claimed(run: Run, whole: Path, tmp_path: Path, lacks: str, command: str):
    for name in ("store", "copy"):
        shutil.copytree(whole, tmp_path / name)
        LACKS[lacks](tmp_path / name)
    result = run(*words_of(COMMANDS[command], tmp_path / "store"))
    if command in SEES_ALL[lacks]:
        assert result.code in (0, 7), (result.out, result.err)
    else:
        told = re.search(TELLS[lacks], result.out + result.err)
        assert told, f"code {result.code}, and nothing said of it\n{result.out}{result.err}"
        assert "no such topic" not in result.out + result.err


@pytest.mark.parametrize("command", COMMANDS)
def test_a_whole_store_is_claimed_to_be_whole(run: Run, whole: Path, tmp_path: Path, command: str):
    for name in ("store", "copy"):
        shutil.copytree(whole, tmp_path / name)
    result = run(*words_of(COMMANDS[command], tmp_path / "store"))
    unknown = "other topic" in command or command in ("get, beyond", "scan, skipping")
    assert result.code == (7 if unknown and "tag" not in command else 0), (result.out, result.err)
    for words in TELLS.values():
        assert not re.search(words, result.out + result.err), (result.out, result.err)


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "diff"])
@pytest.mark.parametrize("place", ["absent", "empty", "other things"])
def test_no_store_is_no_empty_store(run: Run, whole: Path, tmp_path: Path, place: str, command: str):
    """ "Nothing to do" is said of a store only."""
    root = tmp_path / "store"
    if place != "absent":
        root.mkdir()
    if place == "other things":
        (root / "notes.txt").write_text("mine")
    shutil.copytree(whole, tmp_path / "copy")
    before = sorted(tmp_path.rglob("*"))
    result = run(*words_of(COMMANDS[command], root))
    assert result.code == 2 and result.out == "" and "store" in result.err
    assert sorted(tmp_path.rglob("*")) == before


def test_each_exception_is_of_a_command_and_not_needed_in_vain():
    for lacks, commands in SEES_ALL.items():
        assert commands.keys() <= COMMANDS.keys() and commands.keys() != COMMANDS.keys(), lacks
    assert LACKS.keys() == TELLS.keys() == SEES_ALL.keys()


def test_a_queue_that_was_lost_is_in_the_view_of_queues(run: Run, whole: Path, tmp_path: Path):
    shutil.copytree(whole, tmp_path / "store")
    without_a_queue(tmp_path / "store")
    for more in ("", " --skip-damage"):
        rows = run(*words_of(COMMANDS["sql queues"] + more + " --json", tmp_path / "store")).rows
        assert {row["topic"]: row["max_offset"] - row["min_offset"] for row in rows} == COUNT


def test_nothing_else_is_left_once_a_queue_was_made_again(run: Run, whole: Path, tmp_path: Path):
    shutil.copytree(whole, tmp_path / "store")
    without_a_queue(tmp_path / "store")
    mended = run("salvage", tmp_path / "store", "--in-place", "--yes")
    assert mended.code == 0 and "\nleft " not in mended.out and "consumequeue/T/0: made from the log" in mended.out
    assert run("verify", tmp_path / "store").code == 0
    assert "nothing to do for a defect" in run("salvage", tmp_path / "store", "--in-place").out


def test_two_logs_that_lost_the_same_are_not_equal(run: Run, whole: Path, tmp_path: Path):
    for name in ("store", "copy"):
        shutil.copytree(whole, tmp_path / name)
        without_log_files(tmp_path / name)
    result = run("diff", tmp_path / "store", tmp_path / "copy")
    assert result.code == 1 and "result   damage at 2 places, where nothing was compared" in result.out
    assert run("diff", tmp_path / "store", tmp_path / "copy", "--json").rows[-1]["equal"] is False


# -- Answers of scan, tail, query, get and inspect about a store that lacks files say what they lack -------------------

SIZE = 131072
HOLE = f"{SIZE:020}"


@pytest.fixture
def store(golden, tmp_path: Path) -> Path:  # type: ignore[no-untyped-def]
    return golden("basic").copy(tmp_path)  # type: ignore[no-any-return]


@pytest.fixture
def holed(store: Path) -> Path:
    (store / "commitlog" / HOLE).unlink()
    return store


@pytest.mark.parametrize("words", [(), ("--skip-damage",), ("--json",)])
def test_scan_says_which_files_were_deleted_before_it_came_there(
    words: tuple[str, ...], run: Run, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Bodies.of

    def of(self: Bodies, message):  # type: ignore[no-untyped-def]
        for number in (2, 3):
            (store / "commitlog" / f"{number * SIZE:020}").unlink(missing_ok=True)
        return plain(self, message)

    monkeypatch.setattr(Bodies, "of", of)
    result = run("scan", store, *words)
    assert result.code == 1
    assert 0 < len(result.out.splitlines()) < 3000
    lines = result.err.splitlines()
    assert len(lines) == 2
    assert "0262144, position 0: the file was deleted while the log was read" in lines[0]
    assert "0393216" in lines[1]


@pytest.mark.parametrize("json_words", [(), ("--json",)])
def test_tail(json_words: tuple[str, ...], run: Run, holed: Path) -> None:
    result = run("tail", holed, "Orders", "--since", 0, *json_words)
    assert (result.code, len(result.out.splitlines())) == (1, 613)
    [line] = result.err.splitlines()
    text = json.loads(line)["note"] if json_words else line
    assert "incomplete: messages of topic Orders cannot be read at 150 places, the first in" in text
    assert f"{HOLE}, position " in text
    assert text.endswith("run `flintmq verify`")


def test_tail_of_what_is_after_or_before_the_hole(run: Run, holed: Path) -> None:
    newest = run("tail", holed, "Orders")
    assert (newest.code, newest.err, len(newest.out.splitlines())) == (0, "", 10)
    before = run("tail", holed, "Orders", "--since", 0, "--until", "2026-11-20T09:36:20.6Z")
    assert (before.code, before.err) == (0, "")
    assert before.out


def test_tail_of_the_newest_in_damage(run: Run, golden, store: Path) -> None:  # type: ignore[no-untyped-def]
    row = [row for row in golden("basic").live if row["topic"] == "Orders"][-1]
    hurt_body(store, row["physical_offset"])
    result = run("tail", store, "Orders")
    assert (result.code, len(result.out.splitlines())) == (1, 10)
    assert "cannot be read at 1 place, the first in" in result.err


def test_query(run: Run, holed: Path) -> None:
    result = run("query", holed, "Orders", "k383")
    assert (result.code, result.out) == (1, "")
    first, second = result.err.splitlines()
    assert "the answer may be incomplete" in first
    assert f"{HOLE}, position " in first
    assert second == "flintmq: no readable message of topic Orders with key k383"


def test_a_log_without_files(run: Run, store: Path) -> None:
    for file in (store / "commitlog").iterdir():
        file.unlink()
    for words in (("query", store, "Orders", "k383"), ("tail", store, "Orders"), ("get", store, "Orders", 0, 3)):
        result = run(*words)
        assert (result.code, result.out) == (1, "")
        assert "the log's end is missing" in result.err
        assert "--skip-damage" not in result.err, "they have no such option"


@pytest.mark.parametrize("size", [None, 0, 100])
def test_inspect_and_metrics_of_a_hole(size: int | None, run: Run, holed: Path) -> None:
    if size is not None:
        (holed / "commitlog" / HOLE).write_bytes(bytes(size))
    result = run("inspect", holed)
    assert result.code == 1
    [note] = [line for line in result.out.splitlines() if line.startswith("note")]
    assert note.startswith(f"note log-gap: {holed / 'commitlog' / HOLE}: missing or too short; {SIZE - (size or 0)} ")
    result = run("inspect", holed, "--json")
    assert (result.code, result.rows[0]["log"]["gaps"]) == (1, 1)
    assert 'flintmq_log_damaged{cluster="",node_type="broker",node_id="basic"} 1' in run("metrics", holed).out


def test_inspect_of_several(run: Run, golden, holed: Path) -> None:  # type: ignore[no-untyped-def]
    for words in ((), ("--json",)):
        assert run("inspect", golden("config").path, holed, *words).code == 1
    assert run("inspect", golden("config").path, golden("basic").path).code == 0


@pytest.mark.parametrize("gone", ["Orders/0", "Orders"])
def test_directories_of_queues_that_are_missing(gone: str, run: Run, store: Path) -> None:
    shutil.rmtree(store / "consumequeue" / gone)
    result = run("inspect", store)
    [note] = [line for line in result.out.splitlines() if line.startswith("note")]
    assert "note queue-files: files of Orders/0" in note
    assert "run `flintmq rebuild`" in note
    assert run("get", store, "Orders", 0, 3).code == 0
    result = run("tail", store, "Orders", "--since", 0)
    assert (result.code, len(result.out.splitlines()), result.err) == (0, 763, "")
