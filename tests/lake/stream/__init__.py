"""Tests of streams, without Spark."""
