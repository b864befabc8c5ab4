"""Follows the log of a live RocketMQ over its HA port, and lets others follow a store.

    import flintmq.ha
    with flintmq.ha.Follower("store", "127.0.0.1:10912", on_event=print) as follower:
        follower.wait_caught_up(timeout=10)

frames         the two layouts on the line
follower_line  the follower's side of a line, without I/O
connection     a line to a master: its socket, and the state of the line
begin          finds the offset at which an empty follower begins
overlap        compares what the master sends with what is here
adoption       decides whether a directory may be followed into
resync         finds where two logs part
progress       notes for other processes how far a follower is
pauses         waits between attempts, which a stop ends
follower_store opens a follower's store, and cuts its end off
follower_steps follows one master into one store, step by step
follower       a follower as its user has it, of any thread

master_line    the master's side of a line, without I/O
acks           puts that wait until replicas have them
listener_line  one follower of a listener
lending        lends a line to the threads that put
listener       lets followers have the log of a store
stored_log     the log of a store that another process may write, for a listener

asking         connections of a follower to brokers and name servers
metadata       a broker's configuration, topics, groups and offsets
broker_tables  keeps them in a follower's store
name_server    finds brokers and their replication ports
fleet          follows all brokers of a name server
registration   registers a listener at a name server

Importing this package opens no socket.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flintmq.ha.follower import Follower

__all__ = ["Follower"]


def __getattr__(name: str) -> Any:
    """Load the module of a public name on first use."""
    if name not in __all__:
        raise AttributeError(f"module 'flintmq.ha' has no attribute {name!r}")
    from flintmq.ha.follower import Follower

    globals()[name] = Follower
    return Follower
