"""A broker that stock clients of RocketMQ talk to, over a store.

broker       starts and stops it: Broker
listener     accepts connections
connection   a client's socket, its limits, and what it speaks
remoting_line  remoting on one connection: bytes to requests, answers to bytes
grpc         gRPC, the door of the 5.x clients
tls          TLS of one connection, without its socket; certificates
requests     who answers which request
workers      threads that read files
served       the store that is served, as the rooms use it
served_store  one that the broker writes
served_view  one that it only reads, refreshed
routes       answers of a name server
name_servers a broker of a cluster: its entry at name servers
send         sends, and what consumers send back
replies      hands replies to the clients that asked
transactions ends transactions as producers say, and asks those that said nothing
recall       recalls of messages that wait for their time
clients      heartbeats, members of groups, subscriptions
calls        requests of ours to clients, and their answers
held         requests that wait for messages
filters      what consumers want of a queue: tags, or a condition
sql          conditions in SQL92, compiled
pull         pulls
pop          the pop engine: gives messages for a time
flights      what groups have in flight, and what comes again of it
pop_requests  pops, and what consumers say of popped messages
receipts     by which they say it
modes        queues that the broker assigns, and which groups pop
consumers    passes on to consumers what operators ask
locks        leases of queues
offsets      offsets of groups beside a store that is only read
store_offsets  those of a store that is written
settings     topics, groups and offsets that operators change
acl          lets users do what an ACL says
plain_acl    that of RocketMQ 4.x
needs        what each request needs under an ACL
broker_keys  settings of a broker beyond those of its store
stats        figures of a broker, for Python
figures      and for Prometheus
recent       how many messages came and went lately, and how fast
lookup       by key, by place, by time
tables       what slaves and mqadmin ask for
testing      a broker for tests of programs that talk to one, and its fixture

Importing this package is cheap: pytest does it in each of its runs, to know the fixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flintmq.broker.broker import Broker
    from flintmq.broker.stats import BrokerStats

__all__ = ["Broker", "BrokerStats"]


def __getattr__(name: str) -> Any:
    """Load the module of a public name on first use."""
    if name not in __all__:
        raise AttributeError(f"module 'flintmq.broker' has no attribute {name!r}")
    from flintmq.broker import broker

    return getattr(broker, name)
