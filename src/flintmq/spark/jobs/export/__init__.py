"""Exports messages to tables by Spark. Parts without Spark are in `flintmq.lake`.

job  exports new messages once, or one micro-batch after the other
"""
