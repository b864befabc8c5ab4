"""Dispatch: RocketMQ's reput pipeline as a job.

job        keeps queues and index of a log current
preflight  checks before a round, and clears what has to go
tasks      places units and keys
index      brings index files in
state      keeps what is committed in one small file
"""
