"""Files: the only door to the disk, to time and to randomness, and what is built on it."""
