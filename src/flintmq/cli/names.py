"""Names the commands, in the order of the help, without loading one."""

from __future__ import annotations

from typing import Final

COMMANDS: Final = {
    "inspect": ("commands.inspect", "Summarize the content of a store, or of several, or of a table of exports."),
    "metrics": ("live.metrics", "Show figures of stores as Prometheus text."),
    "ui": ("commands.ui", "Show stores as web pages: messages, search, lag, health."),
    "explain": ("commands.explain", "Explain any file of a store, byte by byte."),
    "scan": ("commands.scan", "Print the log's records in physical order."),
    "tail": ("commands.tail", "Show the newest messages of a topic, or follow it."),
    "get": ("commands.get", "Show the message at an offset of a queue."),
    "query": ("commands.query", "Find messages by key."),
    "trace": ("commands.trace", "Tell what became of a message."),
    "halves": ("commands.halves", "List transactions that have not ended."),
    "timers": ("commands.timers", "List messages that wait for their time, first what is due first."),
    "dead": ("commands.dead", "List dead letters, with their first message, group and reason."),
    "sql": ("commands.sql", "Query messages in SQL (DuckDB)."),
    "stats": ("lake.stats", "Count rates, sizes, latency, queues, lag; make a page of them."),
    "export": ("lake.export", "Export messages to Parquet, Delta or Iceberg, without Spark."),
    "verify": ("commands.verify", "Check everything in a store against the log, or a part of it."),
    "rebuild": ("commands.rebuild", "Rebuild queues and index from the log."),
    "salvage": ("commands.salvage", "Recover the intact messages of a damaged store."),
    "diff": ("commands.diff", "Compare two stores, or a store and its table."),
    "copy": ("commands.copy", "Copy a store, also while a broker writes it."),
    "put": ("commands.put", "Store messages in a store that no broker has open."),
    "recover": ("commands.recover", "Recover a store, as the next start would."),
    "follow": ("live.follow", "Keep a copy of a running broker's log, byte for byte."),
    "serve-ha": ("live.serve_ha", "Let RocketMQ's slaves have a store's log."),
    "broker": ("live.broker", "Serve a store to stock clients of RocketMQ."),
    "offsets show": ("commands.offsets.show", "Show how far each group has consumed each queue."),
    "offsets set": ("commands.offsets.set", "Set the place of a group in one queue."),
    "offsets reset": ("commands.offsets.reset", "Move a group to a time, or to an end of its queues."),
    "offsets clone": ("commands.offsets.clone", "Give a group the places of another one."),
    "offsets export": ("commands.offsets.export", "Write the places of groups as a file."),
    "offsets import": ("commands.offsets.import_file", "Set the places of groups as a file has them."),
    "retention explain": ("commands.retention", "Predict what would be deleted, when, and what is unread."),
    "spark diff": ("lake.spark.diff", "Compare two stores, or a store and its table."),
    "spark dispatch": ("lake.spark.dispatch", "Keep queues and index current while the log is written."),
    "spark export": ("lake.spark.export", "Export messages to Parquet, Delta or Iceberg."),
    "spark verify": ("lake.spark.verify", "Verify a store with many workers."),
    "spark rebuild": ("lake.spark.rebuild", "Rebuild queues and index with many workers."),
    "spark replay": ("lake.spark.replay", "Replay messages into a store."),
    "spark sink": ("lake.spark.sink", "List the queries and replays that put messages into a store."),
    "spark stats": ("lake.spark.stats", "Make a page of HTML: rates, sizes, latency, queues, lag."),
    "spark trace": ("lake.spark.trace", "Tell what became of every message, as a table."),
    "doctor": ("commands.doctor", "Report the state of this installation."),
    "version": ("commands.version", "Print the version and exit."),
    "completion": ("commands.completion", "Print the shell script for completion by the Tab key."),
    "help": ("commands.help", "Explain a command, the exit codes, or the format of times."),
}
"""Name of a command -> its module in `flintmq.cli`, and the first line of its help, which is that of its function."""
GROUPS: Final = {
    "": (
        """Inspect Apache RocketMQ message stores, and mend them: offline, without Java.

STORE is the directory with commitlog/ in it. Begin with inspect (the content) and verify (is it sound?). Only put,
dead --send-into, salvage --in-place, recover, follow, offsets set, offsets reset, offsets clone, offsets import, spark
dispatch, spark sink --forget, and spark replay write to an existing store. Output is escaped for terminals; --json
gives exact values to programs. Exit codes: 0 fine, 1 damage or a mismatch found, 2 wrong use or not a store; `flintmq
help exit-codes` lists the others, `flintmq help` the other topics.""",
        "flintmq verify /var/rocketmq/store",
        "flintmq scan /var/rocketmq/store --topic Orders --since -15m",
    ),
    "offsets": (
        "Offsets of consumer groups: shown, and moved while no broker runs.",
        "flintmq offsets show /var/rocketmq/store --group billing",
        "flintmq offsets reset /var/rocketmq/store --group billing --to 2026-11-29T14:00",
    ),
    "retention": (
        "Deletion of old files, and of files on a full disk.",
        "flintmq retention explain /var/rocketmq/store --set fileReservedTime=48",
        "flintmq retention explain /var/rocketmq/store --at now --used 88 --json",
    ),
    "spark": (
        "Jobs on Spark, for large stores: export, rebuild and more.",
        "flintmq spark export /var/rocketmq/store --to parquet --out /tmp/lake",
        "flintmq spark rebuild /var/rocketmq/store --out /tmp/rebuilt --master 'local[4]'",
    ),
}
"""Name of a group of commands -> its help and two examples; "" is `flintmq` itself."""
NEEDS: Final = {"sql": ("duckdb", "duckdb"), "spark": ("pyspark", "spark")}
"""First word of commands -> a package that they need, and the extra that installs it and all else that they use."""


def members(group: str) -> dict[str, str]:
    begin = f"{group} ".lstrip()
    lines = {name: line for name, (_, line) in COMMANDS.items()} | {name: about for name, (about, *_) in GROUPS.items()}
    words = {name.removeprefix(begin): line for name, line in lines.items() if name.startswith(begin) and name != group}
    return {word: line for word, line in words.items() if " " not in word}
