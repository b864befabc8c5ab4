from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.compat.stores import Golden


def holders(store: Golden, topic: str, key: str) -> list[dict[str, Any]]:
    return [
        row for row in store.live if row["topic"] == topic and key in [*(row["keys"] or "").split(" "), row["msg_id"]]
    ]


def test_lines_for_people(run: Run, basic: Golden, expected: Callable[[str, str], None]) -> None:
    result = run("query", basic.path, "Orders", "k99")
    assert (result.code, result.err) == (0, "")
    expected("query-basic.txt", result.out)


@pytest.mark.parametrize("key", ["k99", "k1", "k250"])
@pytest.mark.parametrize("topic", ["Orders", "库存"])
def test_json_gives_every_holder_in_log_order(topic: str, key: str, run: Run, basic: Golden) -> None:
    result = run("query", basic.path, topic, key, "--json", *basic.sets)
    assert [row["physical_offset"] for row in result.rows] == [r["physical_offset"] for r in holders(basic, topic, key)]


def test_a_unique_id_is_a_key(run: Run, basic: Golden) -> None:
    row = next(row for row in basic.live if row["msg_id"])
    [found] = run("query", basic.path, row["topic"], row["msg_id"], "--json").rows
    assert found["physical_offset"] == row["physical_offset"]


def test_time_range_and_limit(run: Run, basic: Golden) -> None:
    rows = holders(basic, "Orders", "k99")
    times = [row["store_timestamp"] for row in rows]
    assert len(rows) >= 4

    def found(*words: object) -> list[int]:
        return [row["physical_offset"] for row in run("query", basic.path, "Orders", "k99", "--json", *words).rows]

    assert found("--limit", 2) == [row["physical_offset"] for row in rows[-2:]], "the newest"
    for since, until in ((times[1], times[-1]), (times[1], times[-1] + 1), (times[0] + 1, times[2])):
        want = [row["physical_offset"] for row in rows if since <= row["store_timestamp"] < until]
        assert found("--since", since, "--until", until) == want


def test_an_answer_is_bounded_as_rocketmqs_and_says_so(run: Run, basic: Golden) -> None:
    rows = holders(basic, "Orders", "k99")

    def found(*words: object) -> tuple[list[int], str]:
        result = run("query", basic.path, "Orders", "k99", "--json", *words)
        return [row["physical_offset"] for row in result.rows], result.err

    newest = [row["physical_offset"] for row in rows[-3:]]
    told = "there are more than the {} that maxMsgsNumBatch allows: raise it with --set maxMsgsNumBatch=N"
    note = '{{"note": "' + told + '"}}\n'
    assert found("--limit", 1000, "--set", "maxMsgsNumBatch=3") == (newest, note.format(3))
    assert found("--set", "maxMsgsNumBatch=0") == ([], note.format(0)), "none shown, and not none there"
    assert found("--set", f"maxMsgsNumBatch={len(rows)}") == ([row["physical_offset"] for row in rows], ""), "all"
    assert found("--limit", 3, "--set", "maxMsgsNumBatch=3") == (newest, "")
    every, nothing = found("--limit", 1000, "--set", "maxMsgsNumBatch=1000")
    assert every == [row["physical_offset"] for row in rows] and nothing == ""


def test_an_index_hash_is_no_key(run: Run, golden) -> None:  # type: ignore[no-untyped-def]
    """`AaAa` and `BBBB` have one hash; Java answers either with both (store `flags`)."""
    for key in ("AaAa", "BBBB"):
        rows = [row for row in golden("flags").live if key in (row["keys"] or "").split(" ")]
        assert rows
        for row in rows:
            found = run("query", golden("flags").path, row["topic"], key, "--json").rows
            assert [r["keys"] for r in found] == [r["keys"] for r in rows if r["topic"] == row["topic"]]


def test_no_message_is_no_error_but_is_told(run: Run, basic: Golden) -> None:
    result = run("query", basic.path, "Orders", "nothing\x1b")
    assert (result.code, result.out) == (0, "")
    assert result.err == "flintmq: no message of topic Orders with key nothing\\x1b\n"
