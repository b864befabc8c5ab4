from pathlib import Path
from typing import Any

from flintmq.forensics.salvage.config import carry_config, usable
from flintmq.format import config_json
from flintmq.storage.files.filesystem import REAL


def carried(tmp_path: Path, **files: bytes) -> tuple[dict[str, bytes], list[dict[str, Any]]]:
    folder = tmp_path / "old" / "config"
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name.replace("__", ".")).write_bytes(data)
    told: list[dict[str, Any]] = []
    carry_config(
        str(tmp_path / "old"), str(tmp_path / "new"), lambda topic, queue_id, old: old // 2, "5.3.3", REAL, told.append
    )
    return {p.name: p.read_bytes() for p in (tmp_path / "new" / "config").iterdir()}, told


def test_offsets_are_translated_and_the_rest_stays(tmp_path: Path) -> None:
    offsets = b'{"dataVersion":{"counter":3},"offsetTable":{"T@g":{0:10,1:0},"%RETRY%g@g":{0:4}},"more":[1]}'
    found, told = carried(tmp_path, consumerOffset__json=offsets, delayOffset__json=b'{"offsetTable":{3:8}}')
    assert config_json.parse(found["consumerOffset.json"]) == {
        "dataVersion": {"counter": 3}, "offsetTable": {"T@g": {0: 5, 1: 0}, "%RETRY%g@g": {0: 2}}, "more": [1],
    }  # fmt: skip
    assert config_json.parse(found["delayOffset.json"]) == {"offsetTable": {3: 4}}
    moved = [(line["of"], line["topic"], line["old"], line["new"]) for line in told if line["kind"] == "offset"]
    assert moved == [("group g", "T", 10, 5), ("group g", "%RETRY%g", 4, 2),
                     ("delay level 3", "SCHEDULE_TOPIC_XXXX", 8, 4)]  # fmt: skip


def test_light_queues_have_a_table_of_their_own(tmp_path: Path) -> None:
    text = b'{"offsetTable":{},"lmqOffsetTable":{"%LMQ%a@%LMQ%g":6}}'
    found, _ = carried(tmp_path, lmqConsumerOffset__json=text)
    assert config_json.parse(found["lmqConsumerOffset.json"])["lmqOffsetTable"] == {"%LMQ%a@%LMQ%g": 3}


def test_what_does_not_change_keeps_its_bytes(tmp_path: Path) -> None:
    text = b'{ "topicConfigTable" : {"T":{"perm":6}} }'
    found, told = carried(tmp_path, topics__json=text, topics__json__bak=b"", timercheck=b"\0" * 4096, odd=b"x")
    assert found == {"topics.json": text}
    assert {line["file"]: line["what"] for line in told} == {
        "topics.json": "carried over", "timercheck": "left out", "odd": "left out",
    }  # fmt: skip


def test_the_spare_copy_stands_in_for_a_damaged_file(tmp_path: Path) -> None:
    found, told = carried(
        tmp_path, topics__json=b'{"topicConf', topics__json__bak=b'{"topicConfigTable":{}}', delayOffset__json=b"?"
    )
    assert found == {"topics.json": b'{"topicConfigTable":{}}'}
    assert [line["what"] for line in told] == ["lost", "carried over"]
    assert usable(str(tmp_path / "old" / "config"), "topics.json", REAL) == (
        {"topicConfigTable": {}},
        "topics.json.bak",
    )
