"""Kills a master and the follower of its log, and cuts the line between them."""
