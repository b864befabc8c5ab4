import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq import Message, MessageStore
from tests.cli.conftest import Run
from tests.compat.stores import Golden
from tests.support.engine import open_small
from tests.support.makers import hurt_body

Expected = Callable[[str, str], None]


def test_lines_for_people(run: Run, golden, expected: Expected) -> None:  # type: ignore[no-untyped-def]
    result = run("scan", golden("flags").path, "--limit", 26)
    assert (result.code, result.err) == (0, "")
    expected("scan-flags.txt", result.out)


def test_json_lines(run: Run, golden, expected: Expected) -> None:  # type: ignore[no-untyped-def]
    expected("scan-config.jsonl", run("scan", golden("config").path, "--limit", 3, "--json").out)


def test_every_golden_store_with_its_settings(run: Run, golden_store: Golden) -> None:
    result = run("scan", golden_store.path, "--json", *golden_store.sets)
    offsets = [row["physical_offset"] for row in result.rows]
    assert result.code == 0
    assert offsets[: len(golden_store.live)] == [row["physical_offset"] for row in golden_store.live]
    assert len(offsets) == len(golden_store.live) + golden_store.expect.get("beyond", 0)


def key_of(row: dict[str, Any], key: str) -> bool:
    return key == row["msg_id"] or key in (row["keys"] or "").split(" ")


MIDDLE = 1_795_167_381_000  # ms: some of `basic` was stored before, some after

SELECTIONS: list[tuple[list[str], Callable[[dict[str, Any]], bool]]] = [
    ([], lambda r: True),
    (["--topic", "库存"], lambda r: r["topic"] == "库存"),
    (["--topic", "Orders", "--topic", "Payments"], lambda r: r["topic"] in ("Orders", "Payments")),
    (["--topic", "none"], lambda r: False),
    (["--queue", "3"], lambda r: r["queue_id"] == 3),
    (["--queue", "0", "--queue", "1"], lambda r: r["queue_id"] < 2),
    (["--tag", "TagA"], lambda r: r["tags"] == "TagA"),
    (["--tag", "TagA", "--tag", "TagB"], lambda r: r["tags"] in ("TagA", "TagB")),
    (["--key", "k99"], lambda r: key_of(r, "k99")),
    (["--key", "k9"], lambda r: key_of(r, "k9")),
    (["--key", "k99", "--key", "k9"], lambda r: key_of(r, "k99") or key_of(r, "k9")),
    (
        ["--key", "none", "--key", "663B6D3606C1F8F8E8F7CAFB30639763"],
        lambda r: key_of(r, "663B6D3606C1F8F8E8F7CAFB30639763"),
    ),
    (["--key", "663B6D3606C1F8F8E8F7CAFB30639763"], lambda r: key_of(r, "663B6D3606C1F8F8E8F7CAFB30639763")),
    (["--since", str(MIDDLE)], lambda r: r["store_timestamp"] >= MIDDLE),
    (["--from-offset", "5001"], lambda r: r["physical_offset"] >= 5001),
    (["--from-offset", str(1 << 60)], lambda r: False),
    (["--until", str(MIDDLE)], lambda r: r["store_timestamp"] < MIDDLE),
    (
        ["--since", "2026-11-20T09:36:21Z", "--topic", "Orders"],
        lambda r: r["store_timestamp"] >= MIDDLE and r["topic"] == "Orders",
    ),
    (
        ["--topic", "Orders", "--queue", "1", "--tag", "TagC"],
        lambda r: (r["topic"], r["queue_id"], r["tags"]) == ("Orders", 1, "TagC"),
    ),
]


@pytest.mark.parametrize(
    ("words", "wanted"), SELECTIONS, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_selections(words: list[str], wanted: Callable[[dict[str, Any]], bool], run: Run, basic: Golden) -> None:
    rows = [row["physical_offset"] for row in basic.live if wanted(row)]
    assert [row["physical_offset"] for row in run("scan", basic.path, "--json", *words).rows] == rows


def test_a_property_is_whole(run: Run, tmp_path: Path) -> None:
    with MessageStore(tmp_path / "store", dev=True) as store:
        store.put(Message("T", b"0", properties={"region": "eu"}))
        store.put(Message("T", b"region eu", properties={"region": "eu-west", "other": "eu"}))
        store.put(Message("T", b"2", properties={"region": "eu", "empty": ""}))
        store.put(Message("T", b"3"))
    found = run("scan", tmp_path / "store", "--property", "region=eu", "--json").rows
    assert [row["queue_offset"] for row in found] == [0, 2]
    both = run("scan", tmp_path / "store", "--property", "region=eu-west", "--grep", "region", "--json").rows
    assert [row["queue_offset"] for row in both] == [1]
    nothing = run("scan", tmp_path / "store", "--property", "region=")
    assert (nothing.code, nothing.out) == (0, "") and "no record matches" in nothing.err
    assert run("scan", tmp_path / "store", "--property", "region").code == 2


def test_grep_looks_into_bodies_as_they_are_shown(run: Run, golden) -> None:  # type: ignore[no-untyped-def]
    """The body of 3000 bytes that is compressed with ZLIB in `flags` begins with "opal opal juniper"."""
    path = golden("flags").path
    assert run("scan", path, "--grep", "opal opal juniper ember juniper", "--json").rows == []
    found = run("scan", path, "--grep", "opal opal juniper ember juniper", "--decompress", "--json").rows
    assert [row["keys"] for row in found] == ["compressed ZLIB"]
    assert [row["tags"] for row in run("scan", path, "--grep", "basalt opal juniper harbor reed", "--json").rows] == [
        "Long"
    ]


GREP_BODIES = [
    b"needle",
    b"x",
    b"a needle, a needle",
    b"",
    b"need",
    b"le",
    b"needleneedle",
    b"NEEDLE",
    b"no",
    b"\x00needle\x00",
]


@pytest.mark.parametrize("text", ["needle", "needleneedle", "x", "Needle", "none", "e"])
@pytest.mark.parametrize("words", [[], ["--topic", "needle"], ["--topic", "T", "--queue", "1"], ["--limit", "3"]])
def test_grep_finds_what_bodies_hold_and_nothing_else(run: Run, tmp_path: Path, text: str, words: list[str]) -> None:
    """The text is also in a topic, in properties, in records that are not wanted, and cut apart by a record's end."""
    put = []
    with MessageStore(tmp_path) as store:
        for number, body in enumerate(GREP_BODIES * 3):
            topic, queue = ("needle", "T")[number % 2], number % 3
            assert store.put(Message(topic, body, queue_id=queue, tags="needle", keys="x")).status.name == "PUT_OK"
            put.append((topic, queue, body))
    wanted = [
        (topic, queue, body)
        for topic, queue, body in put
        if text.encode() in body
        and ("--topic" not in words or topic == words[1])
        and ("--queue" not in words or queue == 1)
    ]
    found = run("scan", tmp_path, "--json", "--grep", text, *words).rows
    shown = [(row["topic"], row["queue_id"], base64.b64decode(row["body"])) for row in found]
    assert shown == (wanted[:3] if "--limit" in words else wanted)


def test_decompress_gives_original_bodies(run: Run, golden) -> None:  # type: ignore[no-untyped-def]
    pytest.importorskip("lz4", reason="lz4 is not installed")
    result = run("scan", golden("flags").path, "--decompress", "--format", "{sys_flag} {body:length} {body}")
    lines = [line.split(" ", 2) for line in result.out.splitlines()]
    lengths = [length for flag, length, body in lines if int(flag) & 1]
    assert (result.code, lengths) == (0, ["3000", "40", "3000", "40", "3000", "40", "2000"])
    assert all(re.fullmatch("[a-z ]+", body) for flag, _, body in lines if int(flag) & 1)


def test_limit(run: Run, basic: Golden) -> None:
    assert len(run("scan", basic.path, "--limit", 7).out.splitlines()) == 7
    assert run("scan", basic.path, "--limit", 0).out == ""
    assert len(run("scan", basic.path, "--limit", 7, "--topic", "Orders", "--json").rows) == 7


def test_a_format_of_ones_own(run: Run, basic: Golden) -> None:
    result = run("scan", basic.path, "--limit", 2, "--format", "{topic}/{queue_id}/{queue_offset}\\t{tags}")
    assert result.out == "Shipments/2/0\tTagA\nPayments/0/0\t\n"


def test_only_a_log_is_enough(run: Run, basic: Golden, tmp_path: Path) -> None:
    (tmp_path / "commitlog").symlink_to(basic.path / "commitlog")
    assert run("scan", tmp_path).out == run("scan", basic.path).out


def damaged(store: Golden, into: Path) -> tuple[Path, dict[str, Any], str, int]:
    """A copy with one flipped bit in a body: (store, the record's row, its file, its position)."""
    copy = store.copy(into)
    row = next(row for row in store.live if row["physical_offset"] >= 136_072 and row["body_length"] > 20)
    file, position = hurt_body(copy, row["physical_offset"])
    return copy, row, str(file), position


def test_damage_ends_the_scan_behind_what_lies_before_it(run: Run, basic: Golden, tmp_path: Path) -> None:
    store, row, file, position = damaged(basic, tmp_path)
    before = [r["physical_offset"] for r in basic.live if r["physical_offset"] < row["physical_offset"]]
    result = run("scan", store, "--json")
    assert result.code == 1
    assert [r["physical_offset"] for r in result.rows] == before
    error = json.loads(result.err)
    assert (error["error"], error["file"], error["position"]) == ("CorruptStoreError", file, position)
    result = run("scan", store)
    assert (
        result.err.startswith(f"flintmq: {file}, position {position}: body CRC is wrong")
        and "--skip-damage" in result.err
    )
    assert run("scan", store, "--limit", 3).code == 0, "the damage was not reached"


def test_skip_damage_reads_around_it_and_says_so(run: Run, basic: Golden, tmp_path: Path) -> None:
    store, row, file, position = damaged(basic, tmp_path)
    result = run("scan", store, "--skip-damage", "--json")
    assert result.code == 1
    assert [r["physical_offset"] for r in result.rows] == [
        r["physical_offset"] for r in basic.live if r["physical_offset"] != row["physical_offset"]
    ]
    told = f"skipped {row['size']} bytes at {file}, position {position}: body CRC is wrong"
    assert json.loads(result.err) == {"note": told}
    assert run("scan", store, "--skip-damage").err == f"flintmq: {told}\n"
    assert run("scan", basic.path, "--skip-damage").code == 0


def test_many_damaged_places_are_counted(run: Run, basic: Golden, tmp_path: Path) -> None:
    store = basic.copy(tmp_path)
    rows = [row for row in basic.live[:1000:20] if row["body_length"]]
    for row in rows:
        start = row["physical_offset"] // 131_072 * 131_072
        with (store / "commitlog" / f"{start:020d}").open("rb+") as file:
            file.seek(row["physical_offset"] - start + 88)
            file.write(b"\0")
    lines = run("scan", store, "--skip-damage").err.splitlines()
    assert len(lines) == 21
    assert lines[-1] == f"flintmq: skipped {len(rows)} places in all, {sum(row['size'] for row in rows)} bytes"


def test_nothing_found_is_said(run: Run, basic: Golden) -> None:
    result = run("scan", basic.path, "--topic", "Orders", "--key", "none")
    assert (result.code, result.out) == (0, "") and "no record matches" in result.err and "inspect" in result.err
    assert "note" in json.loads(run("scan", basic.path, "--key", "none", "--json").err)
    assert run("scan", basic.path, "--limit", 0).err == ""


def test_a_shrunken_file_is_an_error_not_a_crash(run: Run, basic: Golden, tmp_path: Path) -> None:
    store = basic.copy(tmp_path)
    for length in (0, 1, 7, 8, 90, 100_003):
        with (store / "commitlog" / "00000000000000262144").open("rb+") as file:
            file.truncate(length)
        assert run("scan", store, "--json").code == 1
        assert run("scan", store, "--json", "--skip-damage").code == 1


def test_a_store_on_object_storage(run, golden, objects):
    store = golden("basic")
    url = objects.put(store.path, "cli/basic")
    keys = [word for name, value in objects.keys.items() for word in ("--set", f"{name}={value}")]
    here, there = run("scan", store.path, "--json"), run("scan", url, "--json", *keys)
    assert (there.code, there.out) == (0, here.out) and len(here.rows) == 3000
    assert run("inspect", url, *keys).out == run("inspect", store.path).out.replace(str(store.path), url)
    missing = run("scan", url + "/none", *keys)
    assert (missing.code, missing.err) == (2, f"flintmq: {url}/none: does not exist; {missing.err.partition('; ')[2]}")


def test_one_of_several_topics_that_is_not_there_is_said(run: Run, basic: Golden) -> None:
    said = run("scan", basic.path, "--topic", "Orders", "--topic", "Order")
    assert said.code == 7 and "there is no such topic" in said.err
    assert said.out == run("scan", basic.path, "--topic", "Orders").out != ""


def test_one_of_several_topics_that_was_deleted_is_there_in_the_log(run: Run, tmp_path: Path) -> None:
    with open_small(tmp_path) as store:
        for topic in ("Gone", "T"):
            store.put(Message(topic, b"x"))
        assert store.wait_dispatched(60)
        store.delete_topic("Gone")
    said = run("scan", tmp_path, "--topic", "Gone", "--topic", "T")
    assert (said.code, len(said.out.splitlines())) == (0, 2), said.err
    assert run("scan", tmp_path, "--topic", "None", "--topic", "T").code == 7
    assert run("scan", tmp_path, "--topic", "None", "--topic", "T", "--limit", 1).code == 0
