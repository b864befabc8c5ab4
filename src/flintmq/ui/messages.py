"""One message: its fields, properties and body, which groups have passed it, where it lies, and its bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from flintmq.cli.commands.explain import json_of
from flintmq.cli.message_lines import json_line
from flintmq.config.text import short
from flintmq.errors import MessageNotFoundError
from flintmq.forensics.answers.trace import GroupPlace
from flintmq.forensics.explain.file_kinds import LOG
from flintmq.forensics.explain.lines import Line
from flintmq.forensics.explain.run import explain
from flintmq.forensics.store_figures import StoreFigures
from flintmq.message import StoredMessage
from flintmq.store.view import StoreView
from flintmq.ui.asked import Ask
from flintmq.ui.became import became
from flintmq.ui.body_views import views_of
from flintmq.ui.hex_dump import dump
from flintmq.ui.links import command_of, link, message_link, option
from flintmq.ui.page import UiPage, visible
from flintmq.ui.stores import OpenStore
from flintmq.ui.topics import Nearest, is_in_queue, passed_over

if TYPE_CHECKING:
    from flintmq.ui.app import Ui

GROUPS_SHOWN = 200
STEPS_SHOWN = 50
LINES_SHOWN = 400
NOT_HERE = "another log: "
FIELDS = (
    "topic", "queue_id", "queue_offset", "store_timestamp", "born_timestamp", "tags", "keys", "msg_id", "offset_msg_id",
    "born_host", "store_host", "physical_offset", "size", "reconsume_times", "flag", "sys_flag", "magic", "body_crc",
    "prepared_transaction_offset",
)  # fmt: skip


def message(ui: Ui, one: OpenStore | None, ask: Ask) -> UiPage:
    """Show a message by its place in a queue, its log offset (`at`) or its offset id (`id`)."""
    assert one is not None
    view = one.view()
    found = _found(one, view, ask)
    figures = one.figures()
    queued = is_in_queue(view, found)
    file, position = figures.snapshot.log.path_at(found.physical_offset)
    fate, life = _fate(figures, found), became(one, view, found)
    row = life.row
    words = {
        "message": found,
        "fields": [(name, value) for name in FIELDS if (value := getattr(found, name)) is not None],
        "body": views_of(found, ui.bodies),
        "form": ui.bodies.form,
        "ends": view.bounds(found.topic, found.queue_id) if queued else None,
        "life": life,
        "retries": row.retries if row else [],
        "dead": row.dead if row else [],
        "groups": row.groups if row else _groups(figures, found) if queued else [],
        "offset": found.queue_offset if row is None else row.queue_offset,
        "deleted": (row.delete_ms, row.delete_rule) if row else (fate.when, fate.rule) if fate else (None, ""),
        "groups_most": GROUPS_SHOWN,
        "steps_most": STEPS_SHOWN,
        "file": os.path.basename(file),
        "position": position,
        "passed_over": bool(passed_over(one, [found])),
        "at_ms": figures.at_ms,
    }
    place = [found.topic, str(found.queue_id), str(found.queue_offset)]
    bytes_of_it = command_of("explain", file, options=["--at", str(position)])
    command = one.command("get", *place) if queued else bytes_of_it
    title = f"{visible(found.topic)} / {found.queue_id} / {found.queue_offset}"

    def lines() -> Iterator[str]:
        yield json_line(found, found.body)

    also = [*([bytes_of_it] if queued else []), life.command]
    return UiPage("message.html", title, words, command, lines, tab="topics", store=one, also=also)


def body(ui: Ui, one: OpenStore, ask: Ask) -> bytes:
    """Return the bytes of a body as stored, for a file."""
    return _found(one, one.view(), ask).body


def bytes_of(ui: Ui, one: OpenStore | None, ask: Ask) -> UiPage:
    """Explain the record at a log offset, field by field, with its bytes."""
    assert one is not None
    at = ask.number("at")
    figures = one.figures()
    log = figures.snapshot.log
    if not log.min_offset <= at < figures.snapshot.end:
        text = f"log offset {at} is not in the log, which has {log.min_offset} to {figures.snapshot.end}"
        raise Nearest(text, "the log's first record", link(one.number, "bytes", at=log.min_offset))
    file, position = log.path_at(at)
    return explained(one, file, position)


def explained(one: OpenStore, file: str, position: int | None) -> UiPage:
    """Explain a file of a store, or one place in it; the file is one that the store itself has named."""
    with explain(file, position, config=one.config) as found:
        lines = list(islice(found.lines, LINES_SHOWN))
    unit = _unit_at(lines, position) if position is not None else ""
    fields = [line for line in lines if line.unit == unit and line.name != unit.partition(" ")[0]] if unit else []
    here = [number for number, line in enumerate(lines) if (line in fields if fields else _holds(line, position))]
    is_log = found.place.kind == LOG
    sound = is_log and unit.startswith("record") and not any(line.problem for line in fields)
    words: dict[str, Any] = {
        "file": file,
        "is_local": "://" not in file,
        "lines": lines,
        "fields": fields,
        "dump": dump(fields),
        "start": found.place.start or 0,
        "facts": found.found,
        "is_log": is_log,
        "before": _neighbour(lines, min(here, default=0) - 1),
        "after": _neighbour(lines, max(here) + 1) if here else None,
        "record": (found.place.start or 0) + fields[0].offset if sound else None,
    }
    command = command_of("explain", file, options=option("--at", position))
    title = os.path.basename(file) + ("" if position is None else f" at {position:,}")

    def all_lines() -> Iterator[str]:
        with explain(file, position, config=one.config) as found:
            yield from map(json_of, found.lines)

    return UiPage("bytes.html", title, words, command, all_lines, tab="topics", store=one)


def _unit_at(lines: Sequence[Line], position: int) -> str:
    return next((line.unit for line in lines if _holds(line, position)), "")


def _holds(line: Line, position: int | None) -> bool:
    return position is not None and line.offset <= position < line.offset + line.length


def _neighbour(lines: Sequence[Line], number: int) -> Line | None:
    """Return a line if it is a record, a unit, or damage: none that stands for all the rest of the file."""
    found = lines[number] if 0 <= number < len(lines) else None
    return found if found is not None and (found.unit or found.problem) else None


def _found(one: OpenStore, view: StoreView, ask: Ask) -> StoredMessage:
    """Return the message that a request names; say what is the nearest if it is not there."""
    if text := ask.text("id"):
        return view.get_by_offset_msg_id(text)
    at = ask.number("at", -1)
    if not ask.text("topic"):
        try:
            return view.get_at(at)
        except MessageNotFoundError as error:
            raise Nearest(str(error), "the log's bytes there", link(one.number, "bytes", at=max(at, 0))) from None
    topic, queue, offset = ask.text("topic"), ask.number("queue"), ask.number("offset")
    try:
        found = view.get(topic, queue, offset)
    except MessageNotFoundError as error:
        if at >= 0 and (stored := _at(view, at)) and (stored.topic, stored.queue_id, stored.queue_offset) == (
            topic, queue, offset,
        ):  # fmt: skip
            return stored  # in no queue: a half message, or one whose unit is lost
        raise _nearest(one, view, error, topic, queue, offset) from None
    if at >= 0 and found.physical_offset != at:
        stored = _at(view, at)
        if stored is not None and (stored.topic, stored.queue_id, stored.queue_offset) == (topic, queue, offset):
            return stored  # of a topic that was deleted and made again
        text = f"topic {short(topic)}, queue {queue}, offset {offset}: {NOT_HERE}the message there is another one now"
        raise Nearest(text, "the message that is there", message_link(one.number, found))
    return found


def _at(view: StoreView, at: int) -> StoredMessage | None:
    try:
        return view.get_at(at)
    except MessageNotFoundError:
        return None


def _nearest(one: OpenStore, view: StoreView, error: Exception, topic: str, queue: int, offset: int) -> Nearest:
    first, stop = view.bounds(topic, queue)
    if first < stop:
        near = min(max(offset, first), stop - 1)
        href = link(one.number, "queue", topic=topic, queue=queue, offset=near)
        return Nearest(str(error), f"the queue from offset {near} on", href)
    return Nearest(str(error), "all topics", link(one.number, "topics"))


def _groups(figures: StoreFigures, found: StoredMessage) -> list[GroupPlace]:
    """Return where the groups of a record's topic are, against it."""
    groups = []
    for (topic, group), offsets in figures.snapshot.broker.consumer_offsets.items():
        if topic == found.topic:
            at = offsets.get(found.queue_id)
            groups.append(GroupPlace(group, at, at is not None and at > found.queue_offset))
    return sorted(groups, key=lambda one: one.group)


def _fate(figures: StoreFigures, found: StoredMessage) -> Any:
    """Return what retention will do to the file that holds a message; None if that is not known."""
    files = figures.retention.files if figures.retention is not None else []
    return next((one for one in files if one.start <= found.physical_offset < one.start + one.size), None)
