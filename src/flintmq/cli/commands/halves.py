"""`flintmq halves`: transactions that have not ended."""

from __future__ import annotations

from typing import Annotated

from flintmq.cli.answers import SHOWN, place, print_answer, table_of, when
from flintmq.cli.declare import Option
from flintmq.cli.options import JsonOption, SetOption, StoresArgument, examples, limit_option
from flintmq.cli.output import output
from flintmq.cli.values import members_of, store_config

EPILOG = examples("flintmq halves /var/rocketmq/store", "flintmq halves cluster.toml --all --json")
COLUMNS = {
    "state": lambda row: row.state,
    "topic": lambda row: place(row.topic, row.queue_id, None).removesuffix("/-"),
    "sender": lambda row: row.group,
    "key": lambda row: row.keys,
    "id": lambda row: row.msg_id,
    "born": lambda row: when(row.born_ms),
    "asked>": lambda row: row.asked,
    "ended": lambda row: when(row.ended_ms),
    "broker": lambda row: row.broker,
}


def command(
    stores: StoresArgument,
    all: Annotated[bool, Option("--all", "Also those that were committed or rolled back; reads the log.")] = False,
    limit: Annotated[int, limit_option("At most N of each store, the oldest.")] = SHOWN,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """List transactions that have not ended.

    prepared: the sender has still time to say how it ends (transactionTimeOut, 6 s); hanging: it was asked, or is to be
    asked by now; given up: nobody said it in time, and RocketMQ moved the message to TRANS_CHECK_MAX_TIME_TOPIC.
    --all adds those that were committed or rolled back. Consumers get only what was committed. Damage that may hide
    some makes the exit code 1.
    """
    from flintmq.forensics.answers.halves import halves

    config = store_config(settings)
    answer = halves(members_of(stores, config, output(as_json)), config, ended=all, limit=limit)
    return print_answer(answer, as_json, table_of(COLUMNS), "no transaction is " + ("there" if all else "open"))
