"""Clocks that step while RocketMQ stores: every door gives what RocketMQ gives.

lives     brokers whose clock is set back, living, stopped or killed, and stores made byte by byte like theirs
doors     asks every door about such a store
clock     (C) the wall clock that a broker is given
__main__  the long form
"""
