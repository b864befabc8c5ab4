"""Hypothesis strategies for messages, stores and damage; they need `hypothesis`."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from flintmq.testing.damage import KINDS as DAMAGES
from flintmq.testing.messages import KINDS

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0\x01\x02"), min_size=1, max_size=40)
INT32 = st.integers(-(2**31), 2**31 - 1)
TIMES = st.integers(0, 2**53)


@st.composite
def hosts(draw: st.DrawFn, ipv6: bool) -> bytes:
    """Draw a raw address and port: 8 bytes, or 20 with IPv6."""
    width = 16 if ipv6 else 4
    return draw(st.binary(min_size=width, max_size=width)) + draw(st.integers(0, 65535)).to_bytes(4, "big")


@st.composite
def messages(draw: st.DrawFn, max_body: int = 300) -> dict[str, Any]:
    """Draw arguments of `Rows.add` for a legal message of any content."""
    sys_flag = draw(st.sampled_from([0, 0, 1, 2, 4, 8, 12])) | draw(st.sampled_from([0, 0x10, 0x20, 0x30]))
    pairs = draw(st.dictionaries(NAMES, NAMES, max_size=4))
    return {
        "topic": draw(NAMES).encode(),
        "queue_id": draw(st.integers(0, 2**31 - 1)),
        "queue_offset": draw(st.integers(0, 2**40)),
        "body": draw(st.binary(max_size=max_body)),
        "properties": "".join(f"{name}\x01{value}\x02" for name, value in pairs.items()).encode(),
        "flag": draw(INT32),
        "sys_flag": sys_flag,
        "born_time": draw(st.integers(-(2**63), 2**63 - 1)),
        "born_host": draw(hosts(bool(sys_flag & 0x10))),
        "store_time": draw(TIMES),
        "store_host": draw(hosts(bool(sys_flag & 0x20))),
        "reconsumed": draw(INT32),
        "prepared_offset": draw(st.integers(0, 2**40)),
    }


@st.composite
def stores(draw: st.DrawFn, max_messages: int = 200, kinds: tuple[str, ...] = KINDS) -> dict[str, Any]:
    """Draw keyword arguments of `write_store` (all but the path) for a store in small files."""
    return {
        "messages": draw(st.integers(1, max_messages)),
        "seed": draw(st.integers(0, 2**32)),
        "topics": draw(st.integers(1, 5)),
        "queues": draw(st.integers(1, 4)),
        "body_bytes": draw(st.sampled_from([0, 1, 100, (0, 300), (900, 1100)])),
        "bodies": draw(st.sampled_from(["text", "random"])),
        "keys": draw(st.integers(0, 3)),
        "kinds": draw(st.sets(st.sampled_from(kinds))),
        "waves": draw(st.integers(0, 2)),
        "expired_files": draw(st.sampled_from([0, 0, 1, 3])),
        "clean": draw(st.booleans()),
        "peer": draw(st.sampled_from(["5.3.3", "5.4.0", "5.5.0"])),
        "config": {
            "mappedFileSizeCommitLog": draw(st.sampled_from([16384, 32768, 1 << 20])),
            "mappedFileSizeConsumeQueue": draw(st.sampled_from([200, 2000])),
            "mapperFileSizeBatchConsumeQueue": 2300,
            "maxHashSlotNum": draw(st.sampled_from([20, 500])),
            "maxIndexNum": draw(st.sampled_from([60, 2000])),
            "enabledAppendPropCRC": draw(st.booleans()),
            "enableConsumeQueueExt": draw(st.booleans()),
        },
    }


@st.composite
def damages(draw: st.DrawFn) -> dict[str, Any]:
    """Draw keyword arguments of `random_damage` (all but the store)."""
    return {"seed": draw(st.integers(0, 2**32)), "kinds": [draw(st.sampled_from(DAMAGES))]}
