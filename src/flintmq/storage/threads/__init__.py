"""Locks and threads of a store, which a signal handler may interrupt.

mutex           makes locks that no interrupt leaves taken
stop_event      asks loops to end, also from a signal handler
service_thread  runs a loop of a store in a thread, started and stopped once
"""
