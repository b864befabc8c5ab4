"""Every defect has a command that mends it, or says plainly that nothing needs mending."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from flintmq import Message, MessageStore
from flintmq.config import StoreConfig
from flintmq.forensics.codes import DEFECTS
from flintmq.forensics.mends import MENDS, NOTHING, mend, table
from flintmq.forensics.verify import verify
from tests.forensics.makers import patch

ROOT = Path(__file__).resolve().parents[2]
COMMAND = r"(rm STORE/\w+ && )?flintmq (recover STORE|rebuild STORE --into DIR|salvage STORE (--into DIR|--in-place))"


def test_every_code_has_one():
    assert set(MENDS) == set(DEFECTS)
    for code, command in MENDS.items():
        assert command == NOTHING or re.fullmatch(COMMAND, command), code
    assert [code for code, command in MENDS.items() if command == NOTHING] == ["blank-size"]


def test_the_documentation_has_this_table():
    text = (ROOT / "docs" / "verify.md").read_text(encoding="utf-8")
    assert table() in text, "run: python -m flintmq.forensics.mends, and put its table into docs/verify.md"


def test_a_shell_can_take_it():
    assert shlex.split(mend("mark-bad", "/a b/$(c)")) == ["flintmq", "recover", "/a b/$(c)"]


@pytest.mark.parametrize("code", ["checkpoint-bad", "mark-bad"])
def test_recovery_mends_what_it_is_named_for(tmp_path: Path, code: str):
    config = StoreConfig.from_keys({"mappedFileSizeCommitLog": 65536, "maxHashSlotNum": 50, "maxIndexNum": 200})
    with MessageStore(tmp_path, config=config) as store:
        store.put(Message("Orders", b"hello"))
    if code == "checkpoint-bad":
        (tmp_path / "checkpoint").write_bytes(b"short")
    else:
        patch(tmp_path / "flintmq.mark", 3, b"XX")
    assert verify(tmp_path, config).defect_counts == {code: 1}
    assert mend(code, "s") == "flintmq recover s"
    with MessageStore(tmp_path, config=config):
        pass
    assert verify(tmp_path, config).defect_counts == {}
