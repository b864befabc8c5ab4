"""The rules of retention as decisions; that the engine follows them is tested with the engine."""

import time

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.store.services.retention_rules import HOUR_MS, RetentionRules, RetentionVerdict, may_go


def at_hour(hour, minute=30, day=1):
    return int(time.mktime((2026, 3, day, hour, minute, 7, 0, 0, -1)) * 1000)


def rules(**keys):
    return RetentionRules.of(StoreConfig.from_keys(keys))


@pytest.mark.parametrize(
    ("told", "hours"), [("04", {4}), ("3;4 ; 05", {3, 4, 5}), ("x;7", {7}), ("", set()), ("-1", set())]
)
def test_hours(told, hours):
    found = rules(deleteWhen=told)
    assert found.hours == hours
    assert {hour for hour in range(24) if found.is_time(at_hour(hour))} == hours


def test_ratios_are_kept_within_upstreams_limits():
    found = rules(diskMaxUsedSpaceRatio=99, diskSpaceCleanForciblyRatio=10, diskSpaceWarningLevelRatio=100)
    assert (found.delete_at, found.force_at, found.refuse_at) == (30, 30, 90)
    found = rules(diskMaxUsedSpaceRatio=1)
    assert (found.delete_at, found.force_at) == (10, 85)


def test_the_next_hour_of_delete_when():
    found = rules(deleteWhen="4;22")
    assert found.next_time(at_hour(4)) == at_hour(4), "it is one"
    assert found.next_time(at_hour(5)) == at_hour(22, 0) - 7000
    assert found.next_time(at_hour(23)) == at_hour(4, 0, day=2) - 7000
    assert rules(deleteWhen="noon").next_time(at_hour(4)) is None


def test_verdicts():
    found = rules()
    assert found.verdict(75, at_hour(5)) == RetentionVerdict("", "", False)
    assert found.verdict(75, at_hour(4)) == RetentionVerdict("an hour of deleteWhen", "", False)
    assert found.verdict(76, at_hour(4)) == RetentionVerdict("disk 76 % full", "", True)
    assert found.verdict(86, at_hour(5)) == RetentionVerdict("disk 86 % full", "disk 86 % full", True)
    assert rules(cleanFileForciblyEnable=False).verdict(99, at_hour(5)) == RetentionVerdict("disk 99 % full", "", True)
    assert [found.refuses(used, refused) for used, refused in ((90, False), (91, False), (86, True), (85, True))] == [
        False, True, True, False,
    ]  # fmt: skip


def test_age():
    found = rules(fileReservedTime=2)
    assert found.expired(1000, 1000 + 2 * HOUR_MS) == "older than 2 h"
    assert found.expired(1000, 999 + 2 * HOUR_MS) == "" and found.expired(None, 1 << 50) == ""


@pytest.mark.parametrize(("files", "end", "safe", "may"), [(1, 5, 9, False), (2, 5, 5, True), (2, 5, 4, False)])
def test_the_last_file_and_what_is_needed_stay(files, end, safe, may):
    assert may_go(files, end, safe) == may
