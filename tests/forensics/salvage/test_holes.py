"""What stands at the offsets of lost messages."""

from pathlib import Path

from flintmq.forensics.salvage.holes import fill_holes
from flintmq.format.consume_queue import PRE_BLANK, UNIT, Unit
from flintmq.storage.files.filesystem import REAL
from flintmq.store.layout.queue_name import QueueName

SIZE = 400


def queue(root: Path, topic: str, units: list[Unit]) -> Path:
    folder = root / "consumequeue" / topic / "0"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}").write_bytes(b"".join(map(UNIT.pack, units)).ljust(SIZE, b"\0"))
    return folder


def filled(tmp_path: Path, topic: str, old: list[Unit], new: list[Unit] | None, lost: set[int]) -> list[Unit]:
    queue(tmp_path / "old", topic, old)
    if new is not None:
        queue(tmp_path / "new", topic, new)
    name = QueueName(topic, 0)
    fill_holes(str(tmp_path / "old"), str(tmp_path / "new"), name, SIZE, lost.__contains__, REAL)
    data = (tmp_path / "new" / "consumequeue" / topic / "0" / f"{0:020d}").read_bytes()
    assert len(data) == SIZE
    return [unit for unit in UNIT.iter(data) if unit.is_written]


A, B, C, D, E = (Unit(1000 * n, 200, n) for n in range(1, 6))


def test_lost_messages_lead_to_the_one_behind_them(tmp_path: Path) -> None:
    assert filled(tmp_path, "T", [A, B, C, D], [A, PRE_BLANK, PRE_BLANK, D], {2000, 3000}) == [A, D, D, D]


def test_at_the_queues_end_to_the_one_before(tmp_path: Path) -> None:
    assert filled(tmp_path, "T", [A, B, C], [A], {2000, 3000}) == [A, A, A]


def test_at_its_beginning_only_what_was_there(tmp_path: Path) -> None:
    """Units that RocketMQ put before a queue's first message stay as they are."""
    old, new = [PRE_BLANK, A, B], [PRE_BLANK, PRE_BLANK, B]
    assert filled(tmp_path, "T", old, new, {1000}) == [PRE_BLANK, B, B]


def test_units_behind_the_log_are_not_kept(tmp_path: Path) -> None:
    assert filled(tmp_path, "T", [A, B, C], [A], {2000}) == [A, A]


def test_queues_of_the_system_and_lost_queues_are_pre_blank(tmp_path: Path) -> None:
    topic = "SCHEDULE_TOPIC_XXXX"
    assert filled(tmp_path / "1", topic, [A, B, C], [A, PRE_BLANK, C], {2000}) == [A, PRE_BLANK, C]
    assert filled(tmp_path / "2", topic, [A, B], [A], {2000}) == [A, PRE_BLANK]
    assert filled(tmp_path / "3", "T", [A, B], None, {1000, 2000}) == [PRE_BLANK, PRE_BLANK]
