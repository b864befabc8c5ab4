"""Tests of flintmq.forensics.diff."""
