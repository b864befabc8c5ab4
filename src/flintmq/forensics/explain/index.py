"""Explains index files: header, slots, and items with their records, keys and chains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flintmq.errors import ConfigError
from flintmq.forensics.explain.lines import Line, Remark, blame, field_lines
from flintmq.forensics.explain.source import FileLook
from flintmq.forensics.explain.store_context import key_of
from flintmq.forensics.explain.unit_table import UNITS, ZEROS, Plain, UnitTable
from flintmq.format import index
from flintmq.format.text import iso
from flintmq.store.layout.file_geometry import IndexGeometry, index_geometry

MOST_OF_A_CHAIN: Final = 8  # items shown of a chain


class IndexSlots(Plain):
    """The hash slots."""

    noun, plural, width, first = "slot", "slots", index.SLOT.size, 0

    def __init__(self, file: DividedIndexFile) -> None:
        self.file = file

    def meaning(self, sort: str) -> str:
        return "slots without an item" if sort == ZEROS else "slots that point to items"

    def _remark(self, data: bytes) -> Remark:
        item = index.SLOT.unpack(data).item
        if item <= 0:
            return Remark("no item")
        if item >= self.file.header.next_item:
            return Remark("", f"beyond the newest item, {self.file.header.next_item - 1}; readers take it for none")
        return Remark(f"item {item}, position {self.file.position(item)}")

    def line(self, number: int, data: bytes, position: int) -> Line:
        item, remark = index.SLOT.unpack(data).item, self._remark(data)
        text = remark.text or f"item {item}"
        meaning = f"keys whose hash modulo {self.file.shape.slots} is {number}"
        return Line(position, self.width, f"slot {number}", "slot", item, text, meaning, remark.problem, data)

    def fields(self, number: int, data: bytes, position: int) -> Iterator[Line]:
        yield from field_lines(index.SLOT, data, position, f"slot {number}", {"item": self._remark(data)})
        self.file.report_chain(index.SLOT.unpack(data).item)


class Items(Plain):
    """The items; number 0 has a place and is never used."""

    noun, plural, width, first = "item", "items", index.ITEM.size, 0

    def __init__(self, file: DividedIndexFile) -> None:
        self.file = file

    def meaning(self, sort: str) -> str:
        return "places without an item" if sort == ZEROS else "keys of records, in the order of the log"

    def line(self, number: int, data: bytes, position: int) -> Line:
        item = index.ITEM.unpack(data)
        if not 0 < number < self.file.header.next_item:
            why = "item 0 is never used" if not number else "after the last item; its bytes mean nothing"
            return Line(position, self.width, f"item {number}", "item", None, why, "no item", None, data)
        remarks = self._remarks(number, item)
        text = f"log offset {item.physical_offset}, {remarks['key_hash'].text or f'hash {item.key_hash}'}"
        text += f", stored {self._time(item)}"
        problem = next((remark.problem for remark in remarks.values() if remark.problem), None)
        meaning = "one key of one record"
        return Line(position, self.width, f"item {number}", "item", item.physical_offset, text, meaning, problem, data)

    def fields(self, number: int, data: bytes, position: int) -> Iterator[Line]:
        item = index.ITEM.unpack(data)
        used = 0 < number < self.file.header.next_item
        remarks = self._remarks(number, item) if used else {}
        yield from field_lines(index.ITEM, data, position, f"item {number}", remarks)
        if not used:
            self.file.look.found.append(("item", self.line(number, data, position).text))
            return
        self.file.report_chain(number)
        found = self.file.look.around.log and self.file.look.around.log.find(item.physical_offset)
        if found:
            self.file.look.step("explain", found.path, "--at", item.physical_offset - found.start)

    def _time(self, item: index.Item) -> str:
        return iso(self.file.header.begin_timestamp + item.seconds * 1000)

    def _remarks(self, number: int, item: index.Item) -> dict[str, Remark]:
        slot = item.key_hash % self.file.shape.slots
        found = self.file.look.around.record(item.physical_offset)
        remarks = {
            "key_hash": Remark(f"slot {slot}, position {index.slot_position(slot)}"),
            "physical_offset": Remark(found.text, found.text if found.problem else None),
            "seconds": Remark(f"about {self._time(item)}"),
            "previous": Remark(
                "the first of its slot" if item.previous <= 0 else f"position {self.file.position(item.previous)}"
            ),
        }
        if item.key_hash < 0:
            remarks["key_hash"] = Remark("", "a hash of a key is not negative")
        elif found.message is not None:
            key = key_of(found.message, item.key_hash)
            if key is None:
                remarks["key_hash"] = Remark("", "no key of the record there has this hash")
            else:
                remarks["key_hash"] = Remark(f"key {found.message.topic}#{key}, {remarks['key_hash'].text}")
        if item.previous >= number:
            remarks["previous"] = Remark("", "not older than this one; the chain breaks here")
        return remarks


class DividedIndexFile:
    """One index file with its division into slots and items.

    Attributes:
        header: its header.
        shape: numbers of slots and items.
    """

    def __init__(self, look: FileLook, shape: IndexGeometry) -> None:
        self.look, self.shape = look, shape
        self.header = index.HEADER.unpack(look.source.read(index.HEADER.size, 0))
        self.slots_end = min(index.slot_position(shape.slots), look.source.size)

    def position(self, item: int) -> int:
        """Return the position of an item in the file."""
        return index.item_position(item, self.shape.slots)

    def lines(self) -> Iterator[Line]:
        """Yield lines for every byte."""
        look, head = self.look, index.HEADER.size
        slots = UnitTable(look, IndexSlots(self), head, self.slots_end, 1)
        items = UnitTable(look, Items(self), self.slots_end, min(look.source.size, self.position(self.shape.items)))
        at = look.at
        yield from self._header()
        if at is None:
            yield from slots.overview()
            yield from items.overview()
            used = slots.counts.get(UNITS, 0)
            holds = f"{self.header.next_item - 1} items of at most {self.shape.items - 1}, "
            holds += f"{used} of {self.shape.slots} slots used"
            look.found.append(("holds", holds))
        elif at < self.slots_end:
            yield from slots.at(at) if at >= head else self._skip(head, self.slots_end, "slots", self.shape.slots)
            yield from self._skip(self.slots_end, items.end, "items", self.shape.items)
        else:
            yield from self._skip(head, self.slots_end, "slots", self.shape.slots)
            yield from (
                items.at(at) if at < items.end else self._skip(self.slots_end, items.end, "items", self.shape.items)
            )
        if items.end < look.source.size:
            left = look.source.size - items.end
            yield look.range(items.end, look.source.size, "rest", left, f"{left} bytes", "after the last item's place",
                             "the file is longer than its slots and items need")  # fmt: skip

    def _skip(self, begin: int, end: int, name: str, count: int) -> Iterator[Line]:
        if begin < end:
            yield self.look.range(begin, end, name, count, f"{count} {name}", "not looked at")

    def _header(self) -> Iterator[Line]:
        data = self.look.source.read(index.HEADER.size, 0)
        remarks = {"index_count": Remark(f"the newest item is {self.header.next_item - 1}")}
        if self.header.next_item > self.shape.items:
            remarks["index_count"] = Remark("", f"the file has places up to item {self.shape.items - 1}")
        yield from field_lines(index.HEADER, data, 0, "header", remarks)

    def report_chain(self, item: int) -> None:
        """Report the chain of items that begins with this one."""
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
            raise ConfigError(f"{source.path}: shorter than a header")
        shape = index_geometry(source.path, source.size, look.config, source.fd, source.effects)
    except ConfigError as error:
        data = source.read(head, 0)
        why = str(error).removeprefix(f"{source.path}: ")
        found = list(field_lines(index.HEADER, data, 0, "header"))
        yield from blame(found, 0, why) if source.size <= head else found
        if source.size > head:
            text = f"{source.size - head} bytes"
            yield look.range(head, source.size, "slots and items", None, text, "hash slots, then items", why)
        return
    yield from DividedIndexFile(look, shape).lines()
