"""The same output in every locale: topics are UTF-8 on disk, words are UTF-8.

The command starts again in UTF-8 mode. Where Python is forbidden to do so (`-X utf8=0`), and in the library, a store
with topics that are not ASCII is refused: it is never reported damaged, and no directory gets another name than
RocketMQ's.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.compat.stores import Golden

UTF8 = {"LC_ALL": "C.UTF-8"}
LOCALES = {"ASCII": "", "ISO-8859-1": "en_US", "EUC-JP": "ja_JP"}
"""Encodings, and languages of locales with them. Text in EUC-JP is not always encoded to the bytes it came from."""


@pytest.fixture(scope="module", params=LOCALES)
def odd(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Variables of a locale without UTF-8."""
    encoding, language = request.param, LOCALES[request.param]
    if not language:
        return {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    if shutil.which("localedef") is None:
        pytest.skip("localedef is not installed")
    folder = tmp_path_factory.mktemp("locales")
    made = ["localedef", "-c", "-i", language, "-f", encoding, str(folder / f"{language}.{encoding}")]
    subprocess.run(made, capture_output=True, check=False)
    if not any(folder.iterdir()):
        pytest.skip("locales is not installed")  # the package with their sources
    return {"LC_ALL": f"{language}.{encoding}", "LOCPATH": str(folder)}


def python(words: list[object], env: Mapping[str, str], data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "PYTHONUTF8", "LANG"))}
    command = [sys.executable, *map(os.fspath, map(str, words))]
    return subprocess.run(command, env={**kept, **env}, input=data, capture_output=True, check=False, timeout=60)


def flintmq(*words: object, env: Mapping[str, str], data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return python(["-m", "flintmq", *words], env, data)


@pytest.mark.turn(3, of=["src/flintmq/cli/", "src/flintmq/storage/files/"])
@pytest.mark.parametrize(
    "words",
    [
        "verify STORE", "inspect STORE", "get STORE 库存 0 0", "get STORE 库房 0 0", "tail STORE 库存", "metrics STORE",
        "scan STORE --topic 库存 --limit 3", "sql STORE select~topic,count(*)~from~queues~group~by~1~order~by~1",
    ],
    ids=lambda words: words.replace("STORE ", "").partition("~")[0],
)  # fmt: skip
def test_reading_prints_the_same(words: str, odd: Mapping[str, str], basic: Golden) -> None:
    told = [str(basic.path) if w == "STORE" else w.replace("~", " ") for w in words.split()]
    expected, done = flintmq(*told, env=UTF8), flintmq(*told, env=odd)
    outputs = [expected.stdout, done.stdout]
    if told[0] == "metrics":  # others are of the disk and the moment
        outputs = [b"\n".join(line for line in one.splitlines() if b'topic="' in line) for one in outputs]
    assert (done.returncode, done.stderr) == (expected.returncode, expected.stderr) and outputs[0] == outputs[1]
    assert "库存".encode() in done.stdout + done.stderr or told[0] == "verify"


def test_rows_do_not_follow_the_encoding_that_python_is_told(basic: Golden) -> None:
    words = ("scan", basic.path, "--topic", "库存", "--limit", "3")
    rows = flintmq(*words, env=UTF8).stdout
    done = flintmq(*words, env={"LC_ALL": "POSIX", "PYTHONIOENCODING": "latin-1"})
    assert (done.returncode, done.stdout, done.stderr) == (0, rows, b"") and "库存/".encode() in rows


def tree(folder: Path) -> set[bytes]:
    return {os.path.join(at, name) for at, *names in os.walk(os.fsencode(folder)) for name in [*names[0], *names[1]]}


@pytest.mark.turn(3, of=["src/flintmq/cli/", "src/flintmq/storage/files/"])
def test_writing_makes_the_same_names(odd: Mapping[str, str], basic: Golden, tmp_path: Path) -> None:
    made = []
    for number, env in enumerate((UTF8, odd)):
        folder = tmp_path / "made"
        export = flintmq("export", basic.path, "--out", folder / "table", "--topic", "库存", env=env)
        assert (export.returncode, export.stderr) == (0, b"") and b"exported 736 rows" in export.stdout
        rebuilt = flintmq("rebuild", basic.path, "--out", folder / "queues", env=env)
        assert (rebuilt.returncode, rebuilt.stderr) == (0, b"")
        words = ["put", folder / "store", "库存", "--lines", "--key", "键", "--tag", "标", "--no-unique-key"]
        stored = flintmq(*words, env=env, data="体\n二\n".encode())
        assert (stored.returncode, stored.stdout.count(b"PUT_OK")) == (0, 2)
        assert stored.stderr == f"flintmq: made a new store in {folder}/store\n".encode()
        assert flintmq("put", folder / "store", "é", "体", env=env).returncode == 0
        found = flintmq("query", folder / "store", "库存", "键", env=env)
        assert found.returncode == 0 and "tags=标  keys=键  体".encode() in found.stdout
        names = {re.sub(rb"[0-9a-f]{8}-[0-9a-f-]{27}|/20\d{15}", b"", name) for name in tree(folder)}
        made.append(names)
        folder.rename(tmp_path / str(number))
    assert made[0] == made[1] and any(name.endswith("consumequeue/é/0".encode()) for name in made[1])


def test_bytes_of_words_signals_and_exit_codes_are_kept(odd: Mapping[str, str], tmp_path: Path) -> None:
    put = ["-W", "ignore", "-m", "flintmq", "put", os.fsencode(tmp_path), b"T", b"\xff\xa1 \xe9", b"--no-unique-key"]
    env = {**os.environ, **odd}
    subprocess.run([sys.executable, *put], env=env, check=True, capture_output=True)
    assert flintmq("get", tmp_path, "T", "0", "0", "--raw", env=odd).stdout == b"\xff\xa1 \xe9"
    assert flintmq("get", tmp_path, "T", "0", "", env=odd).returncode == 2  # the empty word is still there
    assert flintmq("get", tmp_path, "T", "0", "1", env=odd).returncode == 7
    words = [sys.executable, "-m", "flintmq", "tail", str(tmp_path), "T", "--follow"]
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as followed:
        put[-3] = b"T"
        assert followed.stdout is not None
        subprocess.run([sys.executable, *put], env=env, check=True, capture_output=True)
        assert followed.stdout.readline()
        followed.send_signal(signal.SIGTERM)
        assert followed.wait(30) == 143


@pytest.mark.turn(3, of=["src/flintmq/cli/", "src/flintmq/storage/files/"])
@pytest.mark.parametrize(
    "words",
    [
        "verify STORE", "inspect STORE", "metrics STORE", "tail STORE 库存", "get STORE 库存 0 0", "recover STORE",
        "salvage STORE --in-place", "salvage STORE --out NEW", "rebuild STORE --out NEW", "put NEW 库存 x",
        "export STORE --out NEW", "export STORE --out NEW --topic 库存",
        "explain STORE/consumequeue/库存/0/00000000000000000000",
    ],
)  # fmt: skip
def test_what_cannot_be_right_is_refused(words: str, odd: Mapping[str, str], basic: Golden, tmp_path: Path) -> None:
    store, new = basic.copy(tmp_path / "copy"), tmp_path / "new"
    before = tree(store)
    told = [word.replace("STORE", str(store)).replace("NEW", str(new)) for word in words.split()]
    done = python(["-X", "utf8=0", "-m", "flintmq", *told], {**odd, "PYTHONUTF8": "1"})
    said = b"; set PYTHONUTF8=1\n", b" is not UTF-8, as names, tags, keys and SQL are\n"  # this of a word in EUC-JP
    assert done.returncode == 2 and done.stderr.endswith(said) and len(done.stderr.splitlines()) == 1, done.stderr
    assert tree(store) == before and tree(new) <= {os.fsencode(new / "_flintmq.lock")}


ENGINE = """
import sys
from flintmq import Message, MessageStore, UsageError
with MessageStore(sys.argv[1], dev=True) as store:
    for topic in "\\u5e93\\u5b58", "\\xe9":
        results = store.put_many([Message("T", b"x"), Message(topic, b"x"), Message("T", b"x")])
        print(*[result.status.name for result in results], results[1].reason.id)
        try:
            store.create_topic(topic, 1)
        except UsageError as error:
            print(str(error).endswith("; set PYTHONUTF8=1"))
"""


def test_the_engine_makes_no_other_directory(odd: Mapping[str, str], tmp_path: Path) -> None:
    done = python(["-c", ENGINE, tmp_path / "store"], odd)
    assert done.stdout.decode().splitlines() == ["PUT_OK MESSAGE_ILLEGAL PUT_OK topic", "True"] * 2, done.stderr
    assert os.listdir(tmp_path / "store/consumequeue") == ["T"]


VIEW = """
import sys
import flintmq
view = flintmq.open_store(sys.argv[1])
calls = [lambda: flintmq.scan_arrow(sys.argv[1], topics=["\\u5e93\\u5b58"]), view.topics]
calls += [lambda: view.get("\\xe9", 0, 0), lambda: list(view.read("\\u5e93\\u5b58", 0, 0))]
for call in calls:
    try:
        print(ascii(call()))
    except flintmq.UsageError as error:
        print(str(error).endswith("; set PYTHONUTF8=1"))
"""


def test_the_library_misreads_no_name(odd: Mapping[str, str], basic: Golden) -> None:
    done = python(["-c", VIEW, basic.path], odd)
    assert done.stdout.decode().splitlines() == ["True"] * 4, done.stderr


def test_a_store_of_ascii_names_is_read_by_the_library(odd: Mapping[str, str], tmp_path: Path) -> None:
    assert flintmq("put", tmp_path / "é", "T", "x", env=UTF8).returncode == 0
    program = "import sys, flintmq; print(flintmq.open_store(sys.argv[1]).topics())"
    done = python(["-c", program, tmp_path / "é"], odd)
    assert (done.stdout, done.stderr) == (b"['T']\n", b"")
