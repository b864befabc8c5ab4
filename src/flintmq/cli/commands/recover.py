"""`flintmq recover`: recover a store after an unclean stop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from flintmq.cli.declare import Option
from flintmq.cli.options import JsonOption, LocalStoreArgument, SetOption, examples
from flintmq.cli.output import output
from flintmq.cli.values import store_config

EPILOG = examples(
    "flintmq recover /var/rocketmq/store --dry-run",
    "flintmq put /tmp/store Orders hello && flintmq recover /tmp/store --json",
)


def command(
    store: LocalStoreArgument,
    dry_run: Annotated[bool, Option("--dry-run", "Report what recovery would truncate.")] = False,
    accept_lost_log: Annotated[
        bool,
        Option(
            "--accept-lost-log",
            "Log files that were flushed and are missing at the end are lost for good: continue without them. "
            "Queues, index and consumer offsets go back to the present end of the log.",
        ),
    ] = False,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """Recover a store, as the next start would.

    Truncates a torn or stale tail, and makes queues and index agree with the log. Intact records after the cut are
    copied to quarantine/ first. Damage that is no tail is an error (exit code 1), and nothing is changed then; so are
    missing log files below the flushed offset (a disk that is not mounted, a wrong storePathCommitLog). Stop the broker
    before; afterwards the store counts as stopped cleanly.
    """
    out, config = output(as_json), store_config(settings)
    if dry_run:
        from flintmq.store.recovery.preview import preview

        found = preview(store, config, accept_lost=accept_lost_log)
    else:
        import flintmq
        from flintmq.storage.files.store_url import local_only
        from flintmq.store.layout.given_sizes import open_root
        from flintmq.store.recovery.lost_log import lost_directory

        if not lost_directory(local_only(store), config, accept=accept_lost_log):
            open_root(local_only(store), config)  # recovering never creates a store
        with flintmq.MessageStore(store, config=config, accept_lost_log=accept_lost_log) as opened:
            found = opened.recovered.as_dict()
    out.result(found, _render)
    return 0


def _render(found: dict[str, Any]) -> Iterable[Any]:
    yield f"log ends  at offset {found['end']} ({found['verdict']})"
    for line in found["decisions"]:
        yield f"decision  {line}"
