"""Tests of the forms of bodies."""
