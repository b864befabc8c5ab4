"""`flintmq dead`: dead letters and retries."""

from __future__ import annotations

from typing import Annotated

from flintmq.cli.answers import SHOWN, members_of, place, print_answer, table_of, when
from flintmq.cli.declare import Option
from flintmq.cli.options import JsonOption, SetOption, StoresArgument, examples, limit_option
from flintmq.cli.values import store_config

EPILOG = examples("flintmq dead /var/rocketmq/store", "flintmq dead /var/rocketmq/store --group billing --retries")
GroupsOption = Annotated[list[str] | None, Option("--group G", "Only of this group. May be repeated.", text=True)]
COLUMNS = {
    "group": lambda row: row.group,
    "what": lambda row: "dead" if row.is_dead else f"retry {row.times}",
    "stored": lambda row: when(row.stored_ms),
    "first": lambda row: place(row.first_topic, row.first_queue, row.first_offset),
    "key": lambda row: row.keys,
    "id": lambda row: row.msg_id,
    "why": lambda row: row.reason,
    "queue/offset": lambda row: f"{row.queue_id}/{row.queue_offset}",
    "broker": lambda row: row.broker,
}


def command(
    stores: StoresArgument,
    group: GroupsOption = None,
    retries: Annotated[bool, Option("--retries", "Retries, too, that the group can get again.")] = False,
    limit: Annotated[int, limit_option("At most the N newest of each group and topic.")] = SHOWN,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """List dead letters, with their first message, group and reason.

    `first` is where the message was before its group gave it back, or did not acknowledge it: topic, queue and offset,
    as far as that record is still there. The reason is what the properties and the group's settings tell. Damage that
    may hide some makes the exit code 1.
    """
    from flintmq.forensics.answers.dead import dead

    config = store_config(settings)
    answer = dead(members_of(stores, config, as_json), config, groups=group, retries=retries, limit=limit)
    return print_answer(answer, as_json, table_of(COLUMNS), "no dead letters" + " and no retries" * retries)
