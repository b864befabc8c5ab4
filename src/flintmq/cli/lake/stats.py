"""`flintmq stats`: a store's traffic as figures and as a page, without Spark."""

from __future__ import annotations

from typing import Annotated

from flintmq.cli.declare import Option
from flintmq.cli.lake.stats_options import StatsWords, show
from flintmq.cli.options import JsonOption, SetOption, examples
from flintmq.cli.output import output
from flintmq.cli.parser import need
from flintmq.cli.values import store_config

EPILOG = examples(
    "flintmq stats /var/rocketmq/store --out report.html",
    "flintmq stats /var/rocketmq/store --since -1d --topic Orders --json",
)


def command(
    words: StatsWords,
    threads: Annotated[int, Option("--threads N", "Threads; 0: one a core.", min=0, max=64)] = 0,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """Count rates, sizes, latency, queues, lag; make a page of them.

    It counts keys and producers too. One pass over the log, at rest or while it is written, without Spark. The page is
    one file of HTML, which opens without a network and prints on A4; each name in it shows the command that shows its
    messages. --compare takes the --json of an earlier run, and shows what changed since then.
    """
    for package in ("pyarrow", "numpy"):
        need(package, "stats")
    from flintmq.lake.export.workers import Threads
    from flintmq.lake.stats.run import stats

    out, asked = output(as_json), words.asked(store_config(settings))
    with out.progress("counting") as progress:
        found = stats(workers=Threads(threads), progress=progress, **asked)
    return show(found, out, words.out)
