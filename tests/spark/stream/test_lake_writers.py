"""Delta's and Iceberg's own writers take our stream: each message once, through a stop and a killed driver.

Their jars are those of `make lake-writers SPARK=4.1`. What is written is read by deltalake and PyIceberg.
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from flintmq import Message, MessageStore
from tests.support.own_writer import jars, written

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.spark


def started(form: str, store: Path, work: Path, most: int) -> tuple[subprocess.Popen[str], int]:
    """A driver that writes what there is; and the process id of its JVM."""
    words = [sys.executable, "-m", "tests.support.own_writer", form, "local[2]", str(store), str(work), str(most)]
    with (work / "log").open("a") as log:
        driver = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True, cwd=ROOT
        )  # fmt: skip
    assert driver.stdout is not None
    line = driver.stdout.readline()
    assert line, (work / "log").read_text()
    return driver, int(line)


def put(store: Path, count: int) -> Counter[tuple[str, int, int, bytes]]:
    """Put messages, and count where each of them is."""
    found: Counter[tuple[str, int, int, bytes]] = Counter()
    with MessageStore(store) as opened:
        for number in range(count):
            message = Message(("Orders", "Payments")[number % 2], b"%d" % number, queue_id=number % 4 // 2)
            found[message.topic, message.queue_id, opened.put(message).queue_offset, message.body] += 1
    return found


def commits(work: Path) -> int:
    folder = work / "checkpoint" / "commits"
    return sum(path.name.isdigit() for path in folder.iterdir()) if folder.is_dir() else 0


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_each_message_is_in_the_table_once(form: str, tmp_path: Path) -> None:
    if not jars(form):
        pytest.skip("the lake's own writers are not there for this Spark (make lake-writers)")
    store, work = tmp_path / "store", tmp_path / "lake"
    work.mkdir()
    expected = put(store, 200)
    driver, _ = started(form, store, work, 100)
    assert driver.wait(300) == 0, (work / "log").read_text()  # stopped when it had everything
    assert written(form, work) == expected and commits(work) >= 2

    expected += put(store, 300)
    before = commits(work)
    driver, jvm = started(form, store, work, 10)
    until = time.monotonic() + 120
    while commits(work) < before + 3 and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(jvm, signal.SIGKILL)
    assert driver.wait(120) != 0
    assert commits(work) < before + 30, "it was killed amid its work"
    until = time.monotonic() + 20
    while time.monotonic() < until:  # whom the JVM had started ends with it
        try:
            os.killpg(driver.pid, 0)
        except ProcessLookupError:
            break
        time.sleep(0.1)
    else:
        os.killpg(driver.pid, signal.SIGKILL)
        pytest.fail("processes of the killed driver are left")

    driver, _ = started(form, store, work, 100)
    assert driver.wait(300) == 0, (work / "log").read_text()
    assert written(form, work) == expected
