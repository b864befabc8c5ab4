"""The sink `flintmq`: DataFrames as messages into a store, in batch and streaming, each batch once."""
