"""The real store at records that its start cannot bear: as recorded, and loaded whole once they are salvaged."""

from pathlib import Path
from typing import Any

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.forensics.salvage.in_place import plan_in_place
from flintmq.forensics.salvage.into import salvage_into
from labs.start_fields import KEYS, loads, make, verdict
from tests.format.test_start_fields import CASES, told
from tests.interop.java import Java

pytestmark = pytest.mark.slow
WRONG = [case for case in CASES if told(case) is not None]


@pytest.mark.turn(3, of=["src/flintmq/format/start_fields.py"])
@pytest.mark.parametrize("case", CASES[::9], ids=str)
def test_verdicts_are_those_recorded(java: Java, case: dict[str, Any]) -> None:
    assert verdict(java, case) == case["verdicts"][java.version]


@pytest.mark.turn(3, of=["src/flintmq/format/start_fields.py"])
@pytest.mark.parametrize("into", [False, True], ids=["in-place", "into"])
@pytest.mark.parametrize("case", WRONG[::12], ids=str)
def test_java_starts_on_what_was_salvaged(tmp_path: Path, java: Java, case: dict[str, Any], into: bool) -> None:
    root, config = tmp_path / "s", StoreConfig.from_keys(KEYS | case["keys"])
    make(root, case)
    if into:
        salvage_into(str(root), str(tmp_path / "into"), config, java.version)
        root = tmp_path / "into"
    else:
        with plan_in_place(str(root), config, java.version) as mending:
            mending.carry_out()
    assert loads(java, root, case["keys"]) in ("3 records", "2 records" if "queue_offset" in case else "3 records")
