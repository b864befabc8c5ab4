"""Hashes of arrays: those of the kernel, one text at a time, and even."""

import random

import numpy as np
import pyarrow as pa
import pytest

from flintmq.kernels._plain import seeded_hash
from flintmq.lake.stats.hashes import hashes


def plain_hash(data: bytes) -> int:
    """The hash of docs/internals/format/zone-map.md, in whole numbers."""
    return seeded_hash(data, 0, len(data), 0, 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93)


def texts_of(seed: int) -> list[str]:
    rng = random.Random(seed)
    letters = "abc0123/%-\x00\u5e93\U0001f525"
    found = ["".join(rng.choice(letters) for _ in range(rng.randrange(41))) for _ in range(500)]
    return [*found, "", "x" * 5000, "12345678", "1234567", "123456789"]


@pytest.mark.parametrize(
    "texts",
    [
        texts_of(1), texts_of(2)[::-1], ["a"], [""], ["", ""], [f"{i:032X}" for i in range(99)],
        [f"{i:07d}" for i in range(9)], [],
    ],
    ids=["mixed", "reversed", "one", "empty", "empties", "ids", "short", "none"],
)  # fmt: skip
def test_each_text_has_its_hash(texts: list[str]) -> None:
    assert hashes(pa.array(texts, pa.string())).tolist() == [2 * plain_hash(text.encode()) for text in texts]


def test_a_slice_has_the_hashes_of_its_texts() -> None:
    texts = texts_of(3)
    whole = hashes(pa.array(texts))
    assert hashes(pa.array(texts)[37:91]).tolist() == whole[37:91].tolist()


def test_alike_values_are_spread_evenly() -> None:
    """A sample is those whose first bits are zero: of counters in decimal and in hex, as keys are, a fair part."""
    for form in ("order-{:08d}", "{:032X}", "k{}", "{:d}-2026-11-30"):
        found = hashes(pa.array([form.format(number) for number in range(100_000)]))
        assert len(np.unique(found)) == 100_000
        for bits in (1, 4, 7):
            kept, expected = int((found >> np.uint64(64 - bits) == 0).sum()), 100_000 >> bits
            assert abs(kept - expected) < 5 * expected**0.5, (form, bits)
