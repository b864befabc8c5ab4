"""`flintmq offsets export`: places of groups as a file."""

from __future__ import annotations

import os
from typing import Annotated

from flintmq.cli.commands.offsets.show import GroupsOption
from flintmq.cli.declare import Option
from flintmq.cli.options import SetOption, StoresArgument, examples
from flintmq.cli.output import output
from flintmq.cli.values import store_config, stores_given

EPILOG = examples(
    "flintmq offsets export /var/rocketmq/store --out offsets.json",
    "flintmq offsets export cluster.toml --group billing",
)


def command(
    stores: StoresArgument,
    group: GroupsOption = None,
    out: Annotated[
        str | None,
        Option(
            "--out FILE", "A new file, or one of an earlier export, replaced as a whole; standard output without it."
        ),
    ] = None,
    settings: SetOption = None,
) -> int:
    """Write the places of groups as a file.

    `flintmq offsets import` reads it, into this store or a moved one. It is JSON; of several stores each place has its
    broker's name. Groups of RocketMQ itself (CID_RMQ_SYS_...) are left out. It reads only, also from a store that a
    broker writes.
    """
    from flintmq.errors import UsageError
    from flintmq.forensics.group_offsets import each_store, notes_of
    from flintmq.forensics.offset_file import BEGIN, file_at, state_of
    from flintmq.format.group_topics import OWN_GROUPS
    from flintmq.storage.files.store_url import check_out
    from flintmq.storage.files.whole_file import new_file

    console, notes, config = output(False), list[str](), store_config(settings)
    rows: list[tuple[str, tuple[str, str, int, int]]] = []
    for member, lookup in each_store(stores_given(stores), config, notes):
        if out is not None:
            check_out(out, member.path, config, (BEGIN,), "file")
        notes += notes_of(lookup)
        committed = sorted(lookup.snapshot.broker.committed())
        rows += [
            (member.broker, row)
            for row in committed
            if row[0] in (group or row[:1]) and not row[0].startswith(OWN_GROUPS)
        ]
    for text in notes:
        console.note(text)
    if own := [name for name in group or () if name.startswith(OWN_GROUPS)]:
        raise UsageError(f"group {own[0][:100]!a} is one of RocketMQ's own, whose places are not exported")
    state = state_of(rows)
    if left := sum(not all(row[:2]) or row[-1] < 0 for _, row in rows):
        console.note(
            f"{left} place{'s' * (left > 1)} left out: below 0 (-1: nothing consumed), or without a group or topic"
        )
    there = {row["group"] for row in state["places"]}
    if missing := [name for name in group or () if name not in there]:
        raise UsageError(f"group {missing[0][:100]!a} has committed no offset; `flintmq offsets show` lists who has")
    if not there:
        raise UsageError("no group has committed an offset: there is nothing to export")
    data = file_at("").encode(state)
    if out is None:
        console.write(data)
    else:
        with new_file(os.path.realpath(out)) as part, open(part, "wb") as file:
            file.write(data)
    console.note(f"{len(state['places'])} offsets of {len(there)} group{'s' * (len(there) != 1)}")
    return 0
