"""Hostile bytes against everything: docs/hostile-input.md says what must hold, these tests try it."""
