from dataclasses import replace

import pytest

from flintmq.errors import UsageError
from flintmq.storage.files.filesystem import REAL
from flintmq.store.layout.config_writer import ConfigFile
from flintmq.store.services.groups import Groups, GroupSettings, new_group


@pytest.fixture
def groups(tmp_path):
    return Groups(ConfigFile(str(tmp_path), "subscriptionGroup.json", ("subscriptionGroupTable",), REAL, "5.3.3"))


def member(groups, name):
    return groups.file.value["subscriptionGroupTable"][name]


def test_a_new_group_has_a_brokers_defaults(groups):
    groups.create("g", GroupSettings())
    assert member(groups, "g") == new_group("g") and groups.settings("g") == GroupSettings()
    groups.file.changed = False
    groups.know("g")
    assert not groups.file.changed and groups.settings("h") is None


def test_settings_replace_those_of_the_file_and_keep_unknown_fields(groups):
    groups.know("g")
    with groups.file.lock:
        member(groups, "g").update(extra=7, brokerId=2)
    settings = GroupSettings(
        consume_enable=False, consume_orderly=True, retry_queues=2, retry_max_times=3, attributes={"k": "v"}
    )
    groups.create("g", settings)
    assert member(groups, "g") == new_group("g") | {
        "consumeEnable": False, "consumeMessageOrderly": True, "retryQueueNums": 2, "retryMaxTimes": 3,
        "attributes": {"k": "v"}, "extra": 7, "brokerId": 2,
    }  # fmt: skip
    assert groups.all_settings() == {"g": settings}


def test_members_of_a_file_with_another_type_have_their_defaults(groups):
    with groups.file.lock:
        groups.file.table("subscriptionGroupTable").update(
            odd={"consumeEnable": 0, "retryMaxTimes": True, "retryQueueNums": "4", "attributes": {"a": 1}}, none=5
        )
    assert groups.all_settings() == {"odd": replace(GroupSettings(), retry_queues=4)}


def test_a_group_goes_with_what_it_was_forbidden(groups):
    groups.know("g")
    with groups.file.lock:
        groups.file.table("forbiddenTable")["g"] = {"t": 1}
    groups.remove("g")
    assert groups.file.value == {"subscriptionGroupTable": {}, "forbiddenTable": {}}
    groups.file.changed = False
    groups.remove("g")
    assert not groups.file.changed


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (GroupSettings(retry_max_times=1 << 31), "retry_max_times"),
        (GroupSettings(retry_queues=-2), "retry_queues"),
        (GroupSettings(attributes={"": "x"}), "attribute ''"),
    ],
)
def test_settings_that_are_refused(groups, settings, error):
    with pytest.raises(UsageError, match=error):
        groups.create("g", settings)
    assert not groups.file.changed


def test_settings_of_another_type_are_refused(groups):
    with pytest.raises(TypeError, match="consume_enable is of type str"):
        groups.create("g", GroupSettings(consume_enable="no"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="retry_queues is of type bool"):
        groups.create("g", GroupSettings(retry_queues=True))
    assert not groups.file.changed
