"""The sink `flintmq`: DataFrames as messages into a store, in batch and streaming, each batch once.

writer   is what Spark calls to write
options  checks the options of a sink
query    knows a streaming query by its checkpoint
rows     makes messages of rows, and refuses what cannot be stored
commit   puts staged rows in order, each batch once
listing  lists who has put what, and gives a stuck batch up
"""
