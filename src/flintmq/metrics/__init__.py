"""Figures of stores for operators, as Prometheus reads them: one store, many stores, a running engine.

page         the Prometheus text: which metrics there are, and how they are written
families     figures of a store as metrics
background   a call in a thread of its own, waited for up to a deadline
stores       all stores that a user names, in bounded time
server       GET /metrics over HTTP
engine       metrics of a running MessageStore, from inside
"""
