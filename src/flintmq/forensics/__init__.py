"""Inspect, verify, rebuild, copy and salvage: lenient, offline. The engine in store/ never imports this.

verify     everything in a store against everything else
salvage    what is left of a damaged store, in a store that a broker starts on
explain    one file, byte by byte

inspect         tells what a store holds, at one glance
rebuild         makes queues and index anew from the log
copy            copies a store, also a live one, whole or in part
retention_plan  tells what retention would delete
topic_tail      reads the end of a topic
"""
