"""docs/operations/cli.md is what the commands say, its examples run, and docs/operations/json.md lists the keys that
there are."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from flintmq import errors
from flintmq.cli.names import COMMANDS
from flintmq.cli.options import PAGES
from flintmq.message import COLUMNS, Message
from flintmq.store.message_store import MessageStore
from tests.cli.conftest import Run
from tests.compat.stores import Golden
from tests.harness import pages
from tests.harness.one_java import OneJava
from tests.remoting import remoting_peer
from tests.support.masters import MASTERS
from tests.support.threads import within
from tools.docs import cli as docs

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / docs.PAGE).read_text(encoding="utf-8")
JSON_PAGE = (ROOT / "docs" / "operations" / "json.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^    (flintmq .*(?<!\[OPTIONS\]))$", PAGE, re.MULTILINE)


def test_the_page_is_what_the_commands_say() -> None:
    assert docs.page() == PAGE, "run: python -m tools.docs.cli --write"


def test_check_and_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs" / "operations").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert docs.main(["--check"]) == 1 and "--write" in capsys.readouterr().err
    assert docs.main(["--write"]) == 0 and docs.main(["--check"]) == 0
    (tmp_path / docs.PAGE).write_text("edited by hand")
    assert docs.main(["--check"]) == 1
    assert docs.main([]) == 2


def test_every_error_class_has_its_line() -> None:
    table = PAGE.partition("## Exit codes")[2]
    classes = [
        value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, errors.FlintError)
    ]
    for error in classes:
        assert re.search(rf"^\| {error.exit_code} \| `{error.__name__}` \| .+\. \|$", table, re.MULTILINE), error


def test_every_link_within_the_page_leads_somewhere() -> None:
    headings = {line.lstrip("# ").lower().replace(" ", "-") for line in PAGE.splitlines() if line.startswith("#")}
    links = re.findall(r"\]\(#([^)]+)\)", PAGE)
    assert links and set(links) <= headings


def test_links_to_the_keys_of_json_lead_somewhere() -> None:
    headings = {
        re.sub(r"[^a-z -]", "", line.lower()).replace(" ", "-") for line in re.findall(r"(?m)^## (.*)", JSON_PAGE)
    }
    links = re.findall(r"\]\(json\.md#([^)]+)\)", PAGE)
    assert len(links) > 20 and set(links) <= headings


def test_each_command_says_what_else_its_exit_code_means() -> None:
    of = {part.partition("\n")[0]: " ".join(part.split()) for part in PAGE.split("### flintmq ")[1:]}
    assert "reported at the end with exit code 1." in of["scan"] and "Prints everything" not in of["scan"]
    assert "exit code 1 if they contradict" in of["verify"] and "More: [verify](verify.md)." in of["verify"]


ROUTES = {103: b"", 104: b"", 106: b'{"brokerAddrTable":{},"clusterAddrTable":{}}'}  # of a name server


def parameters() -> list[object]:
    """The examples; of each Spark job only the first, since each makes a session of its own."""
    jobs = [line for line in EXAMPLES if line.startswith("flintmq spark ")][::2]
    return [
        pytest.param(line, marks=[pytest.mark.spark] if line in jobs else [])
        for line in EXAMPLES
        if line in jobs or " spark " not in line
    ]


@pytest.mark.parametrize("line", parameters())
def test_examples_run(  # type: ignore[no-untyped-def]
    line: str, golden, run: Run, tmp_path: Path, one_java: OneJava, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What needs no shell runs in this process, which takes a tenth of the time."""
    command = line.replace("/tmp/", f"{tmp_path}/").replace("/var/rocketmq/store", str(golden("basic").path))
    if (" diff " in line or " --history " in line) and line.endswith("/tmp/lake"):
        assert run("export", golden("basic").path, "--out", tmp_path / "lake").code == 0
    if " diff " in line:
        shutil.copytree(golden("basic").path, tmp_path / "copied")
    if line.startswith("flintmq spark "):
        one_java.empty()
        ran = one_java.command(shlex.split(command)[1:])
        assert ran.code == 0, ran.err
        return
    (tmp_path / "broker.conf").write_text("fileReservedTime=48\n")
    (tmp_path / "cluster.toml").write_text(f'[[stores]]\nstore = "{golden("basic").path}"\nbroker = "a"\n')
    if line.startswith("flintmq offsets "):
        command = of_groups(line, tmp_path, run)
    if line.startswith(("flintmq follow ", "flintmq serve-ha ")):
        replicates(command, tmp_path)
        return
    command = command.replace(" --open", " --listen 127.0.0.1:9877")  # nobody looks at it here
    if " --listen " in command or (line.startswith("flintmq export ") and " --follow" in line):
        with remoting_peer.RemotingPeer(remoting_peer.broker(ROUTES)) as names:
            command = re.sub(r"10\.\d+\.\d+\.\d+:9876", names.address, command)
            command = re.sub(r"\b(5557|9876|9877|10912)\b|(?<=--listen )10\.[\d.]+:\d+", "0", command)
            goes_on(shlex.split(command), tmp_path)
        return
    if pages.ALONE.fullmatch(command):
        monkeypatch.chdir(tmp_path)
        ran_here = run(*shlex.split(command)[1:])
        assert ran_here.code == 0, ran_here.err
        return
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    if command.endswith("| grep defect"):  # exits with 1 where there are none
        command = command.removesuffix("| grep defect")
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=env, capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr.decode()


def of_groups(line: str, folder: Path, run: Run) -> str:
    """The command on a store with the groups of the examples, and a file of its offsets."""
    root = folder / "broker-a" / "store"
    with MessageStore(root) as store:
        store.put_many([Message("Orders", b"%d" % number, queue_id=number % 4) for number in range(5000)])
        for group in ("billing", "audit"):
            store.commit_offset(group, "Orders", 3, 1000)
    assert run("offsets", "export", f"{folder}/{{broker}}/store", "--out", folder / "offsets.json").code == 0
    (folder / "cluster.toml").write_text(f'[[stores]]\nstore = "{root}"\nbroker = "a"\n')
    return line.replace("/var/rocketmq/store", str(root)).replace("/data/moved/store", str(root))


def replicates(command: str, folder: Path) -> None:
    """Run a command that has another side, with a master, a broker or a name server of a test as that."""
    routes = remoting_peer.broker(ROUTES)
    with MASTERS["healthy"]() as master, remoting_peer.RemotingPeer(routes) as names:
        command = command.replace("/data/", f"{folder}/").replace("10.0.0.5:10912", master["broker:10912"])
        command = re.sub(r"10\.\d+\.\d+\.\d+:9876", names.address, command)
        command = re.sub(r" --listen \S+", "", command).replace("serve-ha", "serve-ha --listen 127.0.0.1:0")
        command = command.replace("follow ", "follow --set mappedFileSizeCommitLog=65536 ")
        asks = "--namesrv" in command  # of brokers, of which this name server knows none: then it says nothing
        goes_on(shlex.split(command), folder, partial(within, lambda: names.asked) if asks else None)


def goes_on(command: list[str], folder: Path, is_at_work: Callable[[], object] | None = None) -> None:
    """Run a command that ends when somebody ends it: once it is at work (None: has said something), SIGINT ends it."""
    program = [sys.executable, "-m", "flintmq", *command[1:]]
    with subprocess.Popen(program, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as running:
        try:
            assert running.stdout is not None
            assert (is_at_work or running.stdout.readline)()
            running.send_signal(signal.SIGINT)
            rest, _ = running.communicate(timeout=60)
        finally:
            running.kill()
    assert running.returncode == 0, rest.decode()


def test_there_are_examples_for_every_command() -> None:
    sections = re.split(r"^### flintmq ", PAGE, flags=re.MULTILINE)[1:]
    assert len(sections) == len(COMMANDS) and len(EXAMPLES) >= 50
    assert all(sum(line in section for line in EXAMPLES) >= 2 for section in sections)


def keys(heading: str, table: str = "key") -> list[str]:
    """The keys in the first column of a table of docs/operations/json.md; a row may name several."""
    section = re.split(r"^## ", JSON_PAGE, flags=re.MULTILINE)
    [text] = [part for part in section if part.splitlines()[0] == heading]
    rows = text.partition(f"| {table} | value |\n|---|---|\n")[2].partition("\n\n")[0]
    found = [
        key for names in re.findall(r"^\| ([`\w, ]+) \|", rows, re.MULTILINE) for key in re.findall(r"`(\w+)`", names)
    ]
    assert found, (heading, table)
    return found


def nested(heading: str, key: str) -> list[list[str]]:
    """The keys that the row of `key` names, one list for each level of lists."""
    [row] = re.findall(rf"^\| `{key}` \| (.*) \|$", JSON_PAGE.partition(f"## {heading}")[2], re.MULTILINE)[:1]
    outer, _, inner = row.partition(" (list of ")
    return [re.findall(r"`(\w+)`", part) for part in (outer, inner) if part]


def test_the_keys_of_a_message(run: Run, golden) -> None:  # type: ignore[no-untyped-def]
    table = JSON_PAGE.partition("| column | JSON |")[2].partition("\n\n")[0]
    documented = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert documented == list(COLUMNS) == list(run("scan", golden("basic").path, "--limit", 1, "--json").rows[0])


def test_the_table_of_columns_is_that_of_the_schema() -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from tools.docs import columns

    assert columns.filled(JSON_PAGE) == JSON_PAGE, "run: python -m tools.docs.columns --write"
    assert "| `msg_id` | text or null | string | string_view | Property `UNIQ_KEY`, the client's own id |" in JSON_PAGE


def test_the_keys_of_verify(run: Run, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store = golden("crash").copy(tmp_path)
    (store / "checkpoint").write_bytes(b"short")
    seen = {row["kind"]: list(row) for row in run("verify", store, "--json").rows}
    assert seen == {
        "defect": keys("`verify`", "key of a defect"),
        "note": keys("`verify`", "key of a note"),
        "summary": keys("`verify`", "key of the summary"),
    }


def test_the_keys_of_inspect(run: Run, golden) -> None:  # type: ignore[no-untyped-def]
    [found] = run("inspect", golden("timer").path, "--json").rows
    assert list(found) == keys("`inspect`")
    assert [list(found["log"])] == nested("`inspect`", "log")
    assert [list(found["timer"])] == nested("`inspect`", "timer")
    for key in ("folders", "index"):
        assert [list(found[key][0])] == nested("`inspect`", key)
    topic = next(topic for topic in found["topics"] if topic["queues"])
    assert [list(topic), list(topic["queues"][0])] == nested("`inspect`", "topics")
    [found] = run("inspect", golden("config").path, "--json").rows
    group = next(group for group in found["groups"] if group["offsets"])
    assert [list(group), list(group["offsets"][0])] == nested("`inspect`", "groups")
    assert list(found["delays"][0]) == list(group["offsets"][0])


def test_the_keys_of_explain(run: Run, golden) -> None:  # type: ignore[no-untyped-def]
    for row in run("explain", golden("basic").path / "checkpoint", "--json").rows:
        assert list(row) == keys("`explain`")


def test_the_keys_of_offsets(run: Run, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store = golden("config").copy(tmp_path)
    assert list(run("offsets", "show", store, "--json").rows[0]) == keys("`offsets show`")
    heading = "`offsets set`, `offsets reset`, `offsets clone`, `offsets import`"
    [found] = run("offsets", "reset", store, "--group", "TradeGroup", "--to", "first", "--json").rows
    assert list(found) == keys(heading)
    assert [list(found["changes"][0])] == [re.findall(r"`(\w+)`", row) for row in row_of(heading, "changes")]


def test_the_keys_of_answers(run: Run, golden) -> None:  # type: ignore[no-untyped-def]
    store = golden("config").path
    for words in (["trace", "--key", "o51"], ["halves"], ["timers"], ["dead", "--retries"]):
        rows = run(words[0], store, *words[1:], "--json").rows
        assert rows and all(list(row) == keys(f"`{words[0]}`") for row in rows)
    retried = next(row for row in run("trace", store, "--key", "o51", "--json").rows if row["retries"])
    for key in retried["retries"][0]:
        assert f"`{key}`" in JSON_PAGE.partition("## `trace`")[2].partition("| `retries` |")[2].partition("\n")[0]
    for key in retried["groups"][0]:
        assert f"`{key}`" in JSON_PAGE.partition("## `trace`")[2].partition("| `groups` |")[2].partition("\n")[0]


def test_the_keys_of_retention(run: Run, golden) -> None:  # type: ignore[no-untyped-def]
    heading = "`retention explain`"
    [found] = run("retention", "explain", golden("config").path, "--used", 99, "--json").rows
    assert list(found) == keys(heading)
    for key in ("files", "unread"):
        assert [list(found[key][0])] == [re.findall(r"`(\w+)`", row) for row in row_of(heading, key)]
    assert set(found["rules"]) == set(re.findall(r"`(\w+)`", row_of(heading, "rules")[0]))


def row_of(heading: str, key: str) -> list[str]:
    """What the table says of a key, up to the first semicolon or colon behind the list of names."""
    [row] = re.findall(rf"^\| `{key}` \| (.*) \|$", JSON_PAGE.partition(f"## {heading}")[2], re.MULTILINE)[:1]
    return [row.removeprefix("list of ").removeprefix("object: ").partition(":")[0].partition(";")[0]]


def test_the_keys_of_rebuild_export_and_doctor(run: Run, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    [done] = run("rebuild", golden("poison").path, "--out", tmp_path, "--json").rows
    assert list(done) == keys("`rebuild`")
    [copied] = run("copy", golden("poison").path, "--out", tmp_path / "copy", "--json").rows
    assert list(copied) == keys("`copy`")
    [found] = run("doctor", "--json").rows
    assert list(found) == keys("`doctor`")
    assert list(found["checks"][0]) == ["name", "state", "found", "advice"]
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from flintmq.lake.export.export import Exported
    from flintmq.spark.jobs.dispatch.job import Dispatched
    from flintmq.spark.jobs.replay.job import Replayed

    assert list(Exported().as_dict()) == keys("`spark export`")
    out = tmp_path / "lake"
    assert run("export", golden("poison").path, "--out", out, "--skip-damage").code == 0
    [found] = run("diff", golden("poison").path, out, "--json").rows
    assert list(found) == keys("`diff`", "key of the summary, of a table (`spark diff` too)")
    assert list(Replayed("bulk", "store").as_dict()) == keys("`spark replay`")
    assert list(Dispatched().as_dict()) == keys("`spark dispatch`")
    from flintmq.lake.stats.accumulate import Tally
    from flintmq.lake.stats.statistics import statistics

    assert list(statistics(Tally(), []).as_dict()) == keys("`stats`")


def test_the_keys_on_stderr(run: Run, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    heading = "Errors and remarks on stderr"
    documented = keys(heading, "key of an error")
    store: Golden = golden("basic")
    copy = store.copy(tmp_path)
    with (copy / "commitlog" / "00000000000000262144").open("rb+") as file:
        file.write(b"\xff" * 50)
    assert list(json.loads(run("scan", copy, "--json").err)) == documented
    assert list(json.loads(run("scan", tmp_path, "--json").err)) == documented[:3]
    assert list(json.loads(run("query", store.path, "Orders", "b", "--json").err)) == keys(heading, "key of a remark")


def test_pages_that_commands_name_are_there():
    named = [
        name
        for path in sorted((pages.ROOT / "src/flintmq/cli").rglob("*.py"))
        for name in re.findall(r"\{PAGES\}/([\w./-]+\.md)", path.read_text())
    ]
    folder = PAGES.partition("/blob/main/")[2]
    assert {"cli.md", "verify.md"} <= set(named)
    assert [name for name in named if not (pages.ROOT / folder / name).is_file()] == []
