"""Consume queues: plain, batch and light ones, and their extension.

reader       reads the units of a queue's files on disk
writer       writes each unit at the position of its queue offset
live_queue   writes and serves one queue of a running store
live_queues  writes and serves all queues of a running store
load_queues  loads them when the store starts: finds the last valid unit of each
queue_ends   names the next offsets of a master's queues, as it said them
known_ends   records the end of each queue at a clean stop
"""
