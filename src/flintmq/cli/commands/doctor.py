"""`flintmq doctor`: the state of this installation, with advice for what is missing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from flintmq import hooks
from flintmq.cli.options import JsonOption, SetOption, broker_conf_option, examples
from flintmq.cli.output import output
from flintmq.cli.terminal import FAINT, GREEN, RED, YELLOW, TextTable, paint
from flintmq.cli.text import printable
from flintmq.cli.values import store_config

if TYPE_CHECKING:
    from flintmq.cli.installation import Diagnosis

EPILOG = examples("flintmq doctor", "flintmq doctor --config broker.conf", "flintmq doctor --json")
COLOURS = {"ok": GREEN, "missing": YELLOW, "slow": YELLOW, "no effect": YELLOW, "broken": RED}


def command(
    config: Annotated[str | None, broker_conf_option("Also check this broker.conf.")] = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """Report the state of this installation.

    Lists versions, kernels, Java and Spark, with advice for what is missing. Tests the kernels on a record that Java
    wrote. Exit code 1 if something must be repaired; a missing optional part is only reported. With --config (and
    --set) it also reports the parts of a broker's configuration that FlintMQ does not support: keys that it refuses to
    write a store with, which are errors, and keys without effect.
    """
    from flintmq.cli.installation import diagnose

    keys = store_config(settings, config) if config is not None or settings else None
    diagnosis = diagnose(hooks.load("doctor_rows")(), keys)
    output(as_json).result(diagnosis, _render)
    return 0 if diagnosis.healthy else 1


def _render(diagnosis: Diagnosis) -> Iterable[TextTable]:
    table = TextTable()
    for check in diagnosis.checks:
        advice = "\n" + paint(FAINT, f"-> {printable(check.advice)}") if check.advice else ""
        table.add_row(check.name, paint(COLOURS[check.state], check.state), printable(check.found) + advice)
    yield table
