"""The commands of the core, one a file: options in, one function, its value printed.

copy       a consistent copy of a store, also of a live one, whole or filtered
diff       what differs between two stores
doctor     the state of this installation, with advice for what is missing
explain    one file of a store, byte by byte
get        the message at one offset of a queue
inspect    a summary of a store's content
put        store messages from the command line
query      the messages with a key, found through the index
rebuild    rebuild queues and index from the commit log
recover    recover a store after an unclean stop
retention  what retention would delete, when, by which rule
salvage    recover the intact messages of a damaged store
scan       the records of the log in physical order
sql        queries about the messages, in SQL
tail       the newest messages of a topic, and new ones as they arrive
verify     checks everything in a store against everything else
"""

from flintmq.hooks import HOOKS

NAMES = (
    "inspect", "metrics", "explain", "scan", "tail", "get", "query", "sql", "export", "verify", "rebuild", "salvage",
    "diff", "copy", "put", "recover", "follow", "serve-ha", "doctor",
)  # fmt: skip
"""The commands, as the help lists them; `retention` and `spark` are groups of their own."""


def module_of(name: str) -> str:
    """Return the module of a command, or of a group."""
    hook = HOOKS.get(f"flintmq {name}", "")
    return hook.partition(":")[0] or f"flintmq.cli.commands.{name.replace('-', '_')}"
