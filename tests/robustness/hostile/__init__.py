"""Hostile bytes against everything: docs/internals/hostile-input.md says what must hold, these tests try it."""
