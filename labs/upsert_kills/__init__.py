"""Exports of changes into tables that are killed: the tables must be those of a database."""
