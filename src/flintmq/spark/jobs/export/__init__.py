"""Export: messages to Parquet or Delta, by Spark. What needs no Spark is in `flintmq.lake`.

job     exports what is new, once
stream  exports micro-batch after micro-batch
"""
