"""Versions of pages."""

from __future__ import annotations

import random

from tests.sim.pages import PAGE, SimFile, torn


def test_every_store_makes_a_version_and_one_inside_it():
    file = SimFile(1, bytes(2 * PAGE))
    file.shown[10:20] = b"x" * 10
    file.stored(10, 20, random.Random(1))
    inside, whole = file.versions[0]
    assert whole == bytes(10) + b"x" * 10 + bytes(PAGE - 20) and len(inside) == PAGE
    assert {inside[n : n + 1] for n in range(10, 20)} <= {b"x", b"\0"}
    assert inside[:10] == bytes(10) and not any(inside[20:]) and 1 not in file.versions
    file.synced()
    assert file.versions == {} and file.durable == bytes(file.shown)


def test_a_store_into_a_map_that_nobody_told_of_is_seen():
    file = SimFile(1, bytes(PAGE))
    assert not file.look(random.Random(1))
    file.shown[5] = 1
    assert file.look(random.Random(1)) and not file.look(random.Random(1))
    assert file.versions[0][-1][5] == 1


def test_torn_sectors():
    assert torn(b"a" * 1024, b"b" * 600, 0b10) == b"a" * 512 + b"b" * 88 + bytes(424)
