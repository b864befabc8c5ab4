"""`flintmq trace`, `halves`, `timers`, `dead`, as people see them (the rows: tests/forensics/answers)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq import Message, MessageStore
from flintmq.store.consumer.retry import sent_back
from tests.cli.conftest import Run
from tests.compat.stores import Golden

HOSTILE = "\x1b[31mred\u202e<script>"


def note(result: Any) -> str:
    return str(json.loads(result.err.splitlines()[-1])["note"])


def test_a_retry_is_shown_with_its_group_and_times(run: Run, golden: Callable[[str], Golden]):
    store = golden("config")
    [java] = [row for row in store.rows if row["topic"] == "%RETRY%TradeGroup" and row["keys"] == "o51"]
    result = run("trace", store.path, "--key", "o51", "--topic", "Trade")
    lines = [line for line in result.out.splitlines() if "retry" in line]
    assert (result.code, result.err, len(lines)) == (0, "", 1)
    assert "TradeGroup: retry 1, given back " in lines[0] and lines[0].endswith("not passed yet")
    assert java["properties"]["RETRY_TOPIC"] == "Trade"


def test_more_than_is_shown_is_said(run: Run, golden: Callable[[str], Golden]):
    path = golden("basic").path
    for words in (["--limit", 2], ["-n", 0]):
        result = run("trace", path, "--topic", "Orders", "--json", *words)
        assert (result.code, len(result.rows)) == (0, words[1])
        assert note(result) == f"there are more; only {words[1]} shown: --limit N shows more", "and not: none there"
    assert note(run("trace", path, "--key", "nope", "--json")).startswith("no message matches")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], 2), (["--property", "x"], 2), (["--property", "=x"], 2), (["--topic", "%DLQ%G"], 2),
        (["--topic", "RMQ_SYS_TRANS_HALF_TOPIC"], 2), (["--topic", "Nope"], 7), (["--key", "k", "--since", "soon"], 2),
    ],
)  # fmt: skip
def test_wrong_uses_are_one_line(run: Run, golden: Callable[[str], Golden], words: list[str], code: int):
    result = run("trace", golden("basic").path, *words)
    assert (result.code, result.out, result.err.count("\n")) == (code, "", 1)


@pytest.mark.parametrize("command", [["halves"], ["timers"], ["dead"], ["trace", "--key", "k"]])
def test_an_empty_store_has_nothing_and_says_so(run: Run, tmp_path: Path, command: list[str]):
    (tmp_path / "commitlog").mkdir()
    result = run(command[0], tmp_path, *command[1:])
    assert (result.code, result.out) == (0, "") and "no" in result.err.splitlines()[-1]
    assert run(command[0], tmp_path / "none", *command[1:]).code == 2


def test_damage_is_said_with_what_it_may_hide(run: Run, golden: Callable[[str], Golden], tmp_path: Path):
    store = golden("config").copy(tmp_path)
    file = store / "commitlog/00000000000000000000"
    data = bytearray(file.read_bytes())
    data[30_000:30_400] = b"\xff" * 400
    file.write_bytes(data)
    for words in (["trace", "--topic", "Tx"], ["halves", "--all"]):
        result = run(words[0], store, *words[1:])
        assert result.code == 1 and "skipped" in result.err and "may have ended in what cannot be read" in result.err


def test_text_of_a_store_is_escaped(run: Run, tmp_path: Path):
    """`run` refuses what a terminal would obey."""
    with MessageStore(tmp_path) as store:
        first = store.get_at(store.put(Message("T", b"x", keys=HOSTILE, tags=HOSTILE)).physical_offset)
        store.put(sent_back(first, "G", level=-1))
        store.put(
            Message(f"%DLQ%{'g' * 100}", b"", properties={"RETRY_TOPIC": HOSTILE, "PGROUP": HOSTILE}, keys=HOSTILE)
        )
        store.put(Message("T", b"", delay_level=18, keys=HOSTILE))
    for words in (["trace", "--key", HOSTILE], ["trace", "--topic", "T"], ["dead"], ["timers"], ["halves"]):
        result = run(words[0], tmp_path, *words[1:])
        assert result.code == 0 and ("\\x1b[31mred" in result.out) == (words[0] != "halves")


def test_dead_letters_go_into_another_store_once(run: Run, tmp_path: Path):
    with MessageStore(tmp_path / "from") as store:
        first = store.get_at(store.put(Message("T", b"x", keys="k", queue_id=1)).physical_offset)
        store.put(sent_back(first, "G", level=-1))
    MessageStore(tmp_path / "into").close()
    words = [
        "dead",
        tmp_path / "from",
        "--group",
        "G",
        "--send-into",
        tmp_path / "into",
        "--ledger",
        tmp_path / "ledger",
    ]
    assert run(*words).out == "sent 1, sent before 0, left out 0\n"
    assert run(*words).out == "sent 0, sent before 1, left out 0\n"
    [row] = run("scan", tmp_path / "into", "--json").rows
    assert (row["topic"], row["queue_id"], row["keys"], row["reconsume_times"]) == ("T", 1, "k", 0)
    assert run(*words[:-2]).code == run(*words[:2], *words[4:]).code == 2
    assert run(*words[:5], tmp_path / "none", *words[6:]).code == 2 and not (tmp_path / "none").exists()
    with MessageStore(tmp_path / "into"):
        assert run(*words).code == 6, "a store that is in use"
