"""Replication over RocketMQ's HA port: a store that followers copy.

frames       the two layouts on the line
master_line  the master's side of a line, without I/O
acks         puts that wait until replicas have them
listener     lets followers have the log of a store
stored_log   the log of a store that another process may write, for a listener

Importing this package opens no socket.
"""
