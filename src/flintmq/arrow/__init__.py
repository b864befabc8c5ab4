"""Part of FlintMQ."""
