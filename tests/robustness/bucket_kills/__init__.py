"""Kills exports into tables on object storage."""
