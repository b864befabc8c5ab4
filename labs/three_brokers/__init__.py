"""Follows three real brokers of one name server at once, which are killed and moved under load."""
