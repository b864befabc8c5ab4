"""Explains index files: header, slots, and items with their records, keys and chains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Final

from flintmq.errors import ConfigError
from flintmq.forensics.explain.lines import Line, Remark, blame, field_lines
from flintmq.forensics.explain.source import FileLook
from flintmq.forensics.explain.store_context import key_of
from flintmq.forensics.explain.unit_table import UNITS, ZEROS, PlacedUnit, Sort, T, UnitTable
from flintmq.format import index
from flintmq.format.text import iso
from flintmq.message import StoredMessage
from flintmq.store.layout.file_geometry import IndexGeometry, index_geometry

MOST_OF_A_CHAIN: Final = 8  # items shown of a chain


class _Part(UnitTable[T]):
    def __init__(self, file: DividedIndexFile, begin: int, end: int) -> None:
        super().__init__(file.look, begin, end)
        self.file = file


class IndexSlots(_Part[index.Slot]):
    layout, noun, most_runs = index.SLOT, "slot", 1
    sorts: ClassVar = {UNITS: Sort("slots that point to items"), ZEROS: Sort("slots without an item")}

    def remarks(self, unit: PlacedUnit[index.Slot]) -> Mapping[str, Remark]:
        item, next_item = unit.fields.item, self.file.header.next_item
        text = "no item" if item <= 0 else f"item {item}, position {self.file.position(item)}"
        beyond = Remark("", f"beyond the newest item, {next_item - 1}; readers take it for none")
        return {"item": beyond if item >= next_item else Remark(text)}

    def told(self, unit: PlacedUnit[index.Slot], remarks: Mapping[str, Remark]) -> tuple[int, str, str]:
        item = unit.fields.item
        meaning = f"keys whose hash modulo {self.file.shape.slots} is {unit.number}"
        return item, remarks["item"].text or f"item {item}", meaning

    def report(self, unit: PlacedUnit[index.Slot]) -> None:
        self.file.report_chain(unit.fields.item)


class Items(_Part[index.Item]):
    """The items; number 0 has a place and is never used."""

    layout, noun = index.ITEM, "item"
    sorts: ClassVar = {UNITS: Sort("keys of records, in the order of the log"), ZEROS: Sort("places without an item")}

    def told(self, unit: PlacedUnit[index.Item], remarks: Mapping[str, Remark]) -> tuple[int | None, str, str]:
        item = unit.fields
        if not remarks:
            why = "after the last item; its bytes mean nothing" if unit.number else "item 0 is never used"
            return None, why, "no item"
        key = remarks["key_hash"].text or f"hash {item.key_hash}"
        text = f"log offset {item.physical_offset}, {key}, stored {self._time(item)}"
        return item.physical_offset, text, "one key of one record"

    def report(self, unit: PlacedUnit[index.Item]) -> None:
        if not self._used(unit.number):
            self.look.found.append(("item", self.told(unit, {})[1]))
            return
        self.file.report_chain(unit.number)
        self.look.step_to(unit.fields.physical_offset)

    def _used(self, number: int) -> bool:
        return 0 < number < self.file.header.next_item

    def _time(self, item: index.Item) -> str:
        return iso(self.file.header.begin_timestamp + item.seconds * 1000)

    def remarks(self, unit: PlacedUnit[index.Item]) -> Mapping[str, Remark]:
        if not self._used(unit.number):
            return {}
        item, previous = unit.fields, unit.fields.previous
        found = self.look.around.record(item.physical_offset)
        before = "the first of its slot" if previous <= 0 else f"position {self.file.position(previous)}"
        late = Remark("", "not older than this one; the chain breaks here")
        return {
            "key_hash": self._key(item.key_hash, found.message),
            "physical_offset": found.remark,
            "seconds": Remark(f"about {self._time(item)}"),
            "previous": late if previous >= unit.number else Remark(before),
        }

    def _key(self, hashed: int, message: StoredMessage | None) -> Remark:
        slot = hashed % self.file.shape.slots
        text = f"slot {slot}, position {index.slot_position(slot)}"
        key = None if message is None else key_of(message, hashed)
        if hashed < 0:
            return Remark("", "a hash of a key is not negative")
        if message is not None and key is None:
            return Remark("", "no key of the record there has this hash")
        return Remark(text if message is None else f"key {message.topic}#{key}, {text}")


class DividedIndexFile:
    def __init__(self, look: FileLook, shape: IndexGeometry) -> None:
        self.look, self.shape = look, shape
        self.header = index.HEADER.unpack(look.source.read(index.HEADER.size, 0))

    def position(self, item: int) -> int:
        return index.item_position(item, self.shape.slots)

    def lines(self) -> Iterator[Line]:
        look, at, size, newest = self.look, self.look.at, self.look.source.size, self.header.next_item - 1
        remark = Remark(f"the newest item is {newest}")
        if newest >= self.shape.items:
            remark = Remark("", f"the file has places up to item {self.shape.items - 1}")
        head = look.source.read(index.HEADER.size, 0)
        yield from field_lines(index.HEADER, head, 0, "header", {"index_count": remark})
        slots = IndexSlots(self, len(head), min(self.position(0), size))
        items = Items(self, slots.end, min(size, self.position(self.shape.items)))
        for table, count in ((slots, self.shape.slots), (items, self.shape.items)):
            if at is None or table.begin <= at < table.end:
                yield from table.lines()
            elif table.begin < table.end:
                text = f"{count} {table.noun}s"
                yield look.range(table.begin, table.end, f"{table.noun}s", count, text, "not looked at")
        if at is None:
            holds = f"{newest} items of at most {self.shape.items - 1}, "
            holds += f"{slots.counts.get(UNITS, 0)} of {self.shape.slots} slots used"
            look.found.append(("holds", holds))
        problem = "the file is longer than its slots and items need"
        yield from look.bytes(items.end, size, "rest", "after the last item's place", problem)

    def report_chain(self, item: int) -> None:
        steps: list[str] = []
        number = item
        while 0 < number < min(self.header.next_item, self.shape.items) and len(steps) < MOST_OF_A_CHAIN:
            found = index.ITEM.unpack(self.look.source.read(index.ITEM.size, self.position(number)).ljust(20, b"\0"))
            steps.append(f"item {number} (hash {found.key_hash}, log offset {found.physical_offset})")
            if found.previous >= number:
                break
            number = found.previous
        if steps:
            more = ", and so on" if len(steps) == MOST_OF_A_CHAIN and number > 0 else ""
            self.look.found.append(("chain", " -> ".join(steps) + more))


def lines(look: FileLook) -> Iterator[Line]:
    """Yield lines for every byte; without a known division for the header and the rest."""
    source, head = look.source, index.HEADER.size
    try:
        if source.size < head:
            raise ConfigError("shorter than a header", place=source.path)
        shape = index_geometry(source.path, source.size, look.config, source.fd, source.effects)
    except ConfigError as error:
        data = source.read(head, 0)
        found = list(field_lines(index.HEADER, data, 0, "header"))
        yield from blame(found, 0, error.cause) if source.size <= head else found
        what = "slots and items", "hash slots, then items", error.cause
        yield from look.bytes(head, source.size, *what, counted=False)
        return
    yield from DividedIndexFile(look, shape).lines()
