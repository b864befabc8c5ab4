"""A broker that stock clients of RocketMQ talk to, over a store.

broker       starts and stops it: Broker
listener     accepts connections
connection   bytes to requests, and answers to bytes
requests     who answers which request
workers      threads that read files
served_view  the store that is served, refreshed
routes       answers of a name server
clients      heartbeats, members of groups, subscriptions
pull         pulls, and those that are held
offsets      offsets of groups
lookup       by key, by place, by time
tables       what slaves and mqadmin ask for
"""

from flintmq.broker.broker import Broker as Broker
from flintmq.broker.broker import BrokerStats as BrokerStats
