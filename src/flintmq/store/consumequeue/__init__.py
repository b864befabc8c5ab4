"""Consume queues: plain, batch and light ones, and their extension.

reader       reads the units of a queue's files as they lie on disk
writer       writes each unit at the place that its queue offset names
live_queue   serves one queue of a running store
live_queues  loads, writes and serves all queues of a running store
known_ends   notes where each queue ended at a clean stop
"""
