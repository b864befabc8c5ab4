"""`flintmq ui`: a web page over stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from flintmq import hooks
from flintmq.cli import signals
from flintmq.cli.body_option import BodyWords
from flintmq.cli.declare import flag, option
from flintmq.cli.options import SetOption, StoresArgument, catalog_option, examples
from flintmq.cli.output import output
from flintmq.cli.parser import need
from flintmq.cli.values import members_of, parse_address, store_config
from flintmq.errors import MissingExtraError, UsageError

EPILOG = examples("flintmq ui /var/rocketmq/store --open", "flintmq ui cluster.toml --listen 127.0.0.1:9000")
PORT = 8090


@dataclass(frozen=True)
class UiWords(BodyWords):
    stores: StoresArgument
    listen: str = option(
        "--listen HOST:PORT", "The address; PORT alone is one of this machine only.", f"127.0.0.1:{PORT}"
    )
    show: bool = flag("--open", "Open the page in this machine's browser.")
    config: str | None = option("--config FILE", "The brokers' configuration, broker.conf: when files go.")
    history: str | None = option("--history TABLE", "The table of their exports, for the page Export.")
    catalog: Annotated[str | None, catalog_option("Of an Iceberg TABLE")] = None
    settings: SetOption = None


def command(words: UiWords) -> int:
    """Show stores as web pages: messages, search, lag, health.

    The stores may be in use, copies, stopped or in a bucket; nothing is written to them. Each page has the same as a
    command, and names it; its JSON is at the same address with ?format=json. Ends with code 0 at SIGINT or SIGTERM.

    Only this machine can reach the page, unless --listen gives another address: then a password is asked for, which is
    printed, or is that of FLINTMQ_UI_TOKEN (16 characters at least), and what is read there is not encrypted.
    """
    from flintmq.storage.files.store_url import effects_for
    from flintmq.store.layout.directories import find_root

    host, port = parse_address("--listen", words.listen, PORT)
    config, out = store_config(words.settings, words.config), output(False)
    members = members_of(words.stores, config, out, slaves=True)
    for member in members:
        find_root(member.path, config, effects_for(member.path, config.s3))
    if words.history is not None:
        need("pyarrow", "arrow")
        hooks.load("open_table")(words.history, words.catalog, config.s3, whole=False)  # refuses what is none
    elif words.catalog is not None:
        raise UsageError("--catalog is for --history, the directory of an Iceberg table")
    try:
        serve, shared, named = hooks.load("ui_serve"), hooks.load("ui"), hooks.load("ui_table")
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"the page needs {error.name}: pip install 'flintmq[ui]'") from error
    table = None if words.history is None else named(words.history, words.catalog, words.stores, config)
    ui = shared(members, config, words.shown(True), words.settings or (), words.config, table)
    serve(ui, host, port, out.note, signals.stop_event().wait, words.show)
    return 0
