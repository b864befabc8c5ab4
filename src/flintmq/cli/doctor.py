"""`flintmq doctor`: what this installation can do, and what to do where it cannot."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flintmq.cli.options import JsonOption, SetOption, examples
from flintmq.cli.output import output
from flintmq.cli.text import printable

if TYPE_CHECKING:
    from flintmq.cli.installation import Diagnosis

EPILOG = examples("flintmq doctor", "flintmq doctor --config broker.conf", "flintmq doctor --json")


def command(
    config: Annotated[
        str | None,
        typer.Option("--config", metavar="FILE", show_default=False, help="Look at this broker.conf, too."),
    ] = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """Say what this installation can do.

    Which versions, kernels, Java and Spark are found, and what to do about what is missing. Tries the kernels on a
    record that Java wrote. Exit code 1 if something must be repaired; what is optional and not there is only said.
    With --config (and --set) also what of a broker's configuration FlintMQ does not do: what it refuses to write a
    store with, which is an error, and which keys have no effect.
    """
    from flintmq.cli.installation import diagnose

    keys = None
    if config is not None or settings:
        from flintmq.config.keys import StoreConfig
        from flintmq.config.text import split_setting

        keys = StoreConfig.of(config, dict(map(split_setting, settings or ())))
    diagnosis = diagnose(_java, keys)
    output(as_json).result(diagnosis, _render)
    return 0 if diagnosis.healthy else 1


def _java() -> str:
    from flintmq.spark.java import find_java

    java = find_java()
    return f"Java {java.version}, {java.home} (found by {java.origin})"


def _render(diagnosis: Diagnosis) -> Iterable[Any]:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    styles = {"ok": "green", "missing": "yellow", "slow": "yellow", "no effect": "yellow", "broken": "bold red"}
    for check in diagnosis.checks:
        found = Text(printable(check.found))
        if check.advice:
            found.append(f"\n-> {printable(check.advice)}", style="dim")
        table.add_row(Text(check.name), Text(check.state, style=styles[check.state]), found)
    yield table
