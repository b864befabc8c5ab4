"""Kills exports into tables, and copies of stores, on object storage."""
