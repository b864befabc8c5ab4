"""Codes and their documentation are one; every defect has a command, or says plainly that nothing needs mending."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from flintmq import Message, MessageStore
from flintmq.config.keys import StoreConfig
from flintmq.forensics.salvage.in_place import plan_in_place
from flintmq.forensics.verify import codes
from flintmq.forensics.verify.codes import DEFECTS, NOTHING, in_place, mend
from flintmq.forensics.verify.run import verify
from flintmq.format.start_fields import COSTS
from tests.support.makers import patch

ROOT = Path(__file__).resolve().parents[3]
COMMAND = r"(rm STORE/\w+ && )?flintmq (recover STORE|rebuild STORE --out DIR|salvage STORE (--out DIR|--in-place))"


def test_every_code_is_used_somewhere_and_every_used_one_is_known():
    """A code that nothing gives is a promise that nobody keeps."""
    used = set()
    for path in (ROOT / "src" / "flintmq" / "forensics").rglob("*.py"):
        if path.name != "codes.py":
            used |= set(re.findall(r'"([a-z]+(?:-[a-z]+)+|abort|live)"', path.read_text(encoding="utf-8")))
    walker = {"torn-tail", "stale-tail", "time-step", "vanished", "named-after"}  # told by the walk, with underscores
    known = set(codes.DEFECTS) | set(codes.NOTES)
    assert known - used - walker == set(COSTS)  # told by the effect of a field (LogCheck)


def test_codes_are_words_with_dashes_and_texts_fit_a_table():
    for code, (meaning, cost, advice, _) in codes.DEFECTS.items():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)+", code)
        assert not any("|" in text or "\n" in text for text in (meaning, cost, advice))
    assert not set(codes.DEFECTS) & set(codes.NOTES)


def test_every_command_can_be_typed():
    for name, code in DEFECTS.items():
        assert code.mend in (NOTHING, "mv FILE DIR") or re.fullmatch(COMMAND, code.mend), name
    assert [name for name, code in DEFECTS.items() if code.mend == NOTHING] == ["blank-size"]


def test_a_shell_can_take_it():
    assert shlex.split(mend("mark-bad", "/a b/$(c)")) == ["flintmq", "recover", "/a b/$(c)"]


def test_recovery_mends_what_it_is_named_for(tmp_path: Path):
    config = StoreConfig.from_keys({"mappedFileSizeCommitLog": 65536, "maxHashSlotNum": 50, "maxIndexNum": 200})
    with MessageStore(tmp_path, config=config) as store:
        store.put(Message("Orders", b"hello"))
    patch(tmp_path / "flintmq.mark", 3, b"XX")
    assert verify(tmp_path, config).defect_counts == {"mark-bad": 1}
    assert mend("mark-bad", "s") == "flintmq recover s"
    with MessageStore(tmp_path, config=config):
        pass
    assert verify(tmp_path, config).defect_counts == {}


@pytest.mark.parametrize("code", ["queue-gap", "queue-missing", "index-order", "checkpoint-ahead", "log-gap"])
def test_in_place_is_named_for_what_it_mends(code: str, golden, tmp_path: Path):
    root = golden("basic").copy(tmp_path)
    if code == "queue-gap":
        (root / "consumequeue" / "Orders" / "1" / "00000000000000000000").rename(
            root / "consumequeue" / "Orders" / "1" / "00000000000000000007"
        )
    elif code == "queue-missing":
        (root / "config").mkdir()
        (root / "config" / "topics.json").write_text('{"topicConfigTable":{"Orders":{}}}')
        shutil.rmtree(root / "consumequeue" / "Orders" / "1")
    elif code == "index-order":
        first, second = sorted((root / "index").iterdir())[:2]
        shutil.copy(first, second)
    elif code == "checkpoint-ahead":
        sorted((root / "commitlog").iterdir())[-1].unlink()
    else:
        (root / "commitlog" / "00000000000000262144").unlink()
    assert code in verify(root).defect_counts and in_place(code)
    with plan_in_place(str(root)) as mending:
        mending.carry_out()
    assert verify(root).defect_counts == {}
