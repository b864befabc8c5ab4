"""Dispatch: records to queue units and index keys, one rule for engine, rebuild and verify.

dispatcher       makes blocks of units and keys from pieces of a log
queue_positions  determines the queue positions of a record
handover         hands rows put as columns to dispatch without their records
"""
