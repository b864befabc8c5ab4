"""Implements the sink `flintmq`: puts DataFrames into a store, in batch and streaming.

Each batch is put exactly once.

writer   implements Spark's interface for writing
options  checks the options of a sink
query    identifies a streaming query by its checkpoint
rows     makes messages from rows, and refuses rows that cannot be stored
commit   puts staged rows in order, each batch once
listing  lists the recorded writers, and gives up a stuck batch
"""
