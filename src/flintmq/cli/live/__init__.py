"""The commands of what is live: other programs are connected while they run.

follow    a copy of a running broker's log, kept up to date
serve_ha  lets followers have a store's log
broker    serves a store to stock clients of RocketMQ
metrics   figures of stores as Prometheus text
others    a warning of addresses that others reach
"""
