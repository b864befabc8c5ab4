"""Inspect, verify, rebuild and doctor: lenient, read-only, offline. The engine in store/ never imports this."""
