"""Copies of real brokers that are carried on in their place."""
