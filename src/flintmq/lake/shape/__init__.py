"""Gives messages the shape of rows: columns, decoded bodies, Parquet.

columns       shapes the columns of an export: properties, bodies
changes       reads bodies as changes of a database's table
dead_letters  keeps the messages whose bodies do not decode
parquet       writes batches as Parquet files
"""
