"""`flintmq timers`: messages that wait for their time."""

from __future__ import annotations

from typing import Annotated

from flintmq.cli.answers import SHOWN, place, print_answer, table_of, when
from flintmq.cli.options import JsonOption, SetOption, StoresArgument, examples, limit_option
from flintmq.cli.output import output
from flintmq.cli.values import members_of, store_config

EPILOG = examples("flintmq timers /var/rocketmq/store", "flintmq timers /var/rocketmq/store --limit 10000 --json")
COLUMNS = {
    "due": lambda row: when(row.due_ms),
    "waits for": lambda row: row.source if row.level is None else f"level {row.level}",
    "topic": lambda row: place(row.topic, row.queue_id, None).removesuffix("/-"),
    "retry of": lambda row: row.group,
    "key": lambda row: row.keys,
    "id": lambda row: row.msg_id,
    "since": lambda row: when(row.stored_ms),
    "broker": lambda row: row.broker,
}


def command(
    stores: StoresArgument,
    limit: Annotated[int, limit_option("At most N of each store, those due first.")] = SHOWN,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """List messages that wait for their time, first what is due first.

    In delay levels (config/delayOffset.json says how far they were delivered; give --set messageDelayLevel=... if the
    broker has levels of its own) and for timers (timerlog/ and config/timercheck), without those that were recalled. A
    retry waits in a delay level, too: it names its group. Timers in RocksDB cannot be read: a note says that there may
    be some.
    """
    from flintmq.forensics.answers.timers import timers

    config = store_config(settings)
    answer = timers(members_of(stores, config, output(as_json)), config, limit=limit)
    return print_answer(answer, as_json, table_of(COLUMNS), "nothing waits for its time")
