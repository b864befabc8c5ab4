from pathlib import Path

import pytest

from tests.cli.conftest import Run


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """deleteWhen is in local time."""
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def test_for_people(run: Run, golden) -> None:  # type: ignore[no-untyped-def]
    path = golden("basic").path
    result = run("retention", "explain", path, "--at", "2026-11-23T09:00:00Z", "--used", 50)
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert "a file goes 72 h after it was last written, in the hours 04" in lines[2]
    assert lines[5] == "now    no cleaning: not an hour of deleteWhen, and no lack of space"
    assert "next   2026-11-24T04:00:00.000Z (04:00 UTC), in 19 h: 5 files of the log (640.0 KiB);" in lines[6]
    assert lines[7] == "       17 of queues and 3 of the index follow; the log then begins at 655360"
    assert sum("older than 72 h" in line for line in lines) == 5
    assert "stays: the log's last file is never deleted" in result.out
    assert any(line.split()[:3] == ["-", "Orders", "3"] for line in lines), "nobody consumes it"


def test_what_if_the_disk_were_full(run: Run, golden) -> None:  # type: ignore[no-untyped-def]
    path = golden("basic").path
    result = run("retention", "explain", path, "--used", 95)
    assert "95 % used: puts are refused" in result.out and "now    cleaning runs: disk 95 % full" in result.out
    words = ("--used", 95, "--set", "cleanFileForciblyEnable=false", "--at", "2026-11-21", "--json")
    [plan] = run("retention", "explain", path, *words).rows
    assert plan["now"] == "disk 95 % full" and plan["refuses_puts"] and plan["next_when"] > plan["at"]


def test_the_brokers_configuration(run: Run, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName=b\nfileReservedTime = 1\ndeleteWhen=09;10\n")
    words = ("--at", "2026-11-20T10:36:30Z", "--used", 1, "--json")
    [plan] = run("retention", "explain", golden("basic").path, "--config", conf, *words).rows
    assert plan["rules"]["reserved_hours"] == 1 and plan["rules"]["hours"] == [9, 10]
    assert plan["now"] == "an hour of deleteWhen" and plan["next_when"] == plan["at"] and plan["next_files"] == 5
    more = ("--set", "fileReservedTime=9999")
    [plan] = run("retention", "explain", golden("basic").path, "--config", conf, *more, *words).rows
    assert plan["rules"]["reserved_hours"] == 9999 and plan["next_when"] > plan["at"]


def test_groups_come_first(run: Run, golden) -> None:  # type: ignore[no-untyped-def]
    lines = run("retention", "explain", golden("config").path, "--used", 99).out.splitlines()
    table = lines[next(n for n, line in enumerate(lines) if line.startswith("unread by group")) + 1 :]
    names = [line.split()[0] for line in table if not line.startswith("note")]
    assert table[-1].split()[:4] == ["note", "3", "half", "messages"]
    assert "-" in names and names[0] != "-" and names == sorted(names, key=lambda name: name == "-")


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("--at", "soon"), 2, "--at: 'soon' is not a time"),
        (("--used", "101"), 2, "--used"),
        (("--set", "fileReservedTim=3"), 2, "did you mean fileReservedTime"),
        (("--config", "nothing.conf"), 5, "cannot be read"),
    ],
)
def test_wrong_use(run: Run, golden, words: tuple[str, ...], code: int, text: str) -> None:  # type: ignore[no-untyped-def]
    result = run("retention", "explain", golden("basic").path, *words)
    assert result.code == code and text in result.err and result.out == ""
    assert run("retention", "explain", golden("basic").path / "nothing").code == 2


@pytest.mark.parametrize(
    ("when", "said", "never"),
    [
        ("99", "in the hours none: never ('99': no hour of the day)", True),
        ("", "in the hours none: never ('': no hour of the day)", True),
        ("4am;05", "in the hours 05 ('4am': no hour of the day)", False),
        ("04;23", "in the hours 04, 23, and", False),
    ],
)
def test_hours_that_do_not_exist_are_said(run: Run, golden, when: str, said: str, never: bool) -> None:  # type: ignore[no-untyped-def]
    words = ("--used", 1, "--set", f"deleteWhen={when}")
    result = run("retention", "explain", golden("basic").path, *words)
    assert result.code == 0 and said in result.out
    assert ("stays: no hour in deleteWhen" in result.out) == never


@pytest.mark.parametrize("lost", ["all", "last", "middle"])
def test_a_log_that_is_not_whole_is_said(run: Run, golden, tmp_path: Path, lost: str) -> None:  # type: ignore[no-untyped-def]
    store = golden("basic").copy(tmp_path)
    files = sorted((store / "commitlog").iterdir())
    for path in {"all": files, "last": files[-1:], "middle": files[2:3]}[lost]:
        path.unlink()
    result = run("retention", "explain", store, "--used", 50)
    assert result.code == run("inspect", store).code == 1
    [note] = [line for line in result.out.splitlines() if line.startswith("note")]
    assert "is missing" in note or "are missing" in note
    assert "nothing is due\n" not in result.out and "was consumed by every" not in result.out
    [plan] = run("retention", "explain", store, "--used", 50, "--json").rows
    assert plan["damaged"] and plan["unknown"]
