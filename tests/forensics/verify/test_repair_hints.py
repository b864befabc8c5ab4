"""Every defect has a command that mends it, or says plainly that nothing needs mending."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from flintmq import Message, MessageStore
from flintmq.config.keys import StoreConfig
from flintmq.forensics.salvage.in_place import plan_in_place
from flintmq.forensics.verify.codes import DEFECTS
from flintmq.forensics.verify.repair_hints import MENDS, NOTHING, in_place, mend
from flintmq.forensics.verify.run import verify
from tests.support.makers import patch

COMMAND = r"(rm STORE/\w+ && )?flintmq (recover STORE|rebuild STORE --out DIR|salvage STORE (--out DIR|--in-place))"


def test_every_code_has_one():
    assert set(MENDS) == set(DEFECTS)
    for code, command in MENDS.items():
        assert command in (NOTHING, "mv FILE DIR") or re.fullmatch(COMMAND, command), code
    assert [code for code, command in MENDS.items() if command == NOTHING] == ["blank-size"]


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
