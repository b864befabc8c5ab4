"""`flintmq dead`: dead letters and retries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from flintmq.cli.answers import SHOWN, place, print_answer, table_of, when
from flintmq.cli.declare import Option
from flintmq.cli.options import JsonOption, SetOption, StoresArgument, examples, limit_option
from flintmq.cli.output import output, report_damage
from flintmq.cli.values import members_of, store_config
from flintmq.errors import UsageError
from flintmq.format.group_topics import dead_letter_topic

if TYPE_CHECKING:
    from flintmq.config.keys import StoreConfig

EPILOG = examples("flintmq dead /var/rocketmq/store", "flintmq dead /var/rocketmq/store --retries --json")
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
    limit: Annotated[
        int | None, limit_option("At most the N newest of each group and topic; with --send-into the N oldest unsent.")
    ] = None,
    into: Annotated[
        str | None, Option("--send-into STORE", "Send them again, into this store, which no broker has open.")
    ] = None,
    ledger: Annotated[str | None, Option("--ledger FILE", "Where --send-into notes what it sent.")] = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """List dead letters, with their first message, group and reason.

    `first` is where the message was before its group gave it back, or did not acknowledge it: topic, queue and offset,
    as far as that record is still there. The reason is what the properties and the group's settings tell. Damage that
    may hide some makes the exit code 1.

    --send-into sends them to their first topics again, each once however often it is called and wherever it was killed,
    if it gets the same --ledger: a file, made the first time. It needs --group, and one STORE. The exit code is 1 if
    some were left out: they name no topic, no put takes them, or their records are damaged.
    """
    from flintmq.forensics.answers.dead import dead

    config = store_config(settings)
    if into is not None or ledger is not None:
        return _send(stores, group, into, ledger, limit, config, as_json)
    limit = SHOWN if limit is None else limit
    answer = dead(members_of(stores, config, output(as_json)), config, groups=group, retries=retries, limit=limit)
    nothing = "no dead letters" + " and no retries" * retries
    return print_answer(answer, as_json, table_of(COLUMNS), nothing, any_ends=False)


def _send(
    stores: list[str], groups: list[str] | None, into: str | None, ledger: str | None, limit: int | None,
    config: StoreConfig, as_json: bool,
) -> int:  # fmt: skip
    import flintmq
    from flintmq.forensics.answers.send_dead import send_dead
    from flintmq.forensics.topic_tail import must_have
    from flintmq.storage.files.store_url import outside_store
    from flintmq.store.commitlog.report import Report

    report = Report()
    if into is None or ledger is None or not groups or len(stores) > 1:
        raise UsageError("to send dead letters again give --send-into, --ledger, --group, and one STORE")
    for root in (stores[0], into):
        outside_store(ledger, root, config)
    flintmq.open_store(into, config=config).close()  # a misspelled path is no new store
    with flintmq.open_store(stores[0], config=config) as view:
        must_have(view, [dead_letter_topic(group) for group in groups])
        with flintmq.MessageStore(into, config=config) as store:
            found = send_dead(view, groups, store, ledger, limit, report)
    out = output(as_json)
    out.result(found, lambda one: [f"sent {one.sent}, sent before {one.before}, left out {one.left_out}"])
    return max(report_damage(out, report), int(found.left_out > 0))
