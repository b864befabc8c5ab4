"""`flintmq metrics`: figures of one or many stores as Prometheus text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from flintmq.cli import signals
from flintmq.cli.declare import Option
from flintmq.cli.live.others import READS_NAMES, note_others
from flintmq.cli.options import SetOption, StoresArgument, broker_conf_option, examples
from flintmq.cli.output import Output, output
from flintmq.cli.values import parse_address, store_config, stores_given
from flintmq.errors import FlintError, StoreAccessError

if TYPE_CHECKING:
    from flintmq.metrics.stores import StoresWatch

EPILOG = examples("flintmq metrics /var/rocketmq/store", "flintmq metrics cluster.toml --listen 127.0.0.1:5557")


def command(
    stores: StoresArgument,
    listen: Annotated[
        str | None,
        Option(
            "--listen HOST:PORT",
            "Serve GET /metrics there until SIGINT or SIGTERM; PORT alone is one of this machine only.",
        ),
    ] = None,
    queue_lag: Annotated[
        int | None,
        Option("--queue-lag N", "Lag of groups by queue too: in each store the N with most.", min=1, max=100_000),
    ] = None,
    config: Annotated[str | None, broker_conf_option("The brokers' configuration, broker.conf: when files go.")] = None,
    settings: SetOption = None,
) -> int:
    """Show figures of stores as Prometheus text.

    They have RocketMQ's names where it has them: lag of each group, messages that go next and are unread, the
    largest queue of each topic, begin and end of the log, damage. With --listen each request looks anew, at what
    changed since the last one, for 8 seconds at most; a store that is gone or does not answer has flintmq_store_up 0.
    Without --listen the text is printed once, and a store that cannot be read also sets the exit code.
    """
    from flintmq.metrics.stores import StoresWatch

    address = None if listen is None else parse_address("--listen", listen)
    out = output(False)
    watch = StoresWatch(stores_given(stores), store_config(settings, config), queue_lag=queue_lag)
    if address is None:
        out.write(watch.text().encode())
        return _exit_code(watch)
    _serve(watch, *address, out)
    return 0


def _exit_code(watch: StoresWatch) -> int:
    for error in watch.failures.values():
        return error.exit_code if isinstance(error, FlintError) else StoreAccessError.exit_code
    return 0


def _serve(watch: StoresWatch, host: str, port: int, out: Output) -> None:
    """Answer requests until a signal comes."""
    from flintmq.metrics.server import MetricsServer

    with MetricsServer(host, port, watch.text) as server:
        watch.text()  # a mistake in the names is an error now, and the first scrape need not read everything
        stop = signals.stop_event()
        with server.serving():
            note_others(out, str(server.server_address[0]), READS_NAMES)
            stores = f"{watch.stores} store{'s' * (watch.stores != 1)}"
            out.note(f"serving {server.url} of {stores}, until Ctrl-C or SIGTERM")
            stop.wait()
