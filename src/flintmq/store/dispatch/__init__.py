"""From a record to queue units and index keys: one rule for the engine, rebuild and verify.

dispatcher       makes blocks of units and keys from pieces of a log
queue_positions  tells at which places of which queues a record is
handover         hands rows put as columns to dispatch, unread
"""
