"""What tests that leave sockets full have to know of TCP on the loopback."""

SMALL_BUFFER = 1 << 16
"""Bytes of a receive buffer that is soon full. With 4 KiB, TCP may send 2 KB and then wait for a fifth of a second,
again and again: an answer of 200 KB takes longer than a test waits for it."""
