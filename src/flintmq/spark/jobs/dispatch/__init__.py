"""Dispatches a log as a job, like RocketMQ's reput service.

job        keeps queues and index of a log current
preflight  checks the log and the target before a round, and truncates uncommitted data
tasks      places units and keys
index      plans and publishes index files
state      keeps the committed position in one small file
"""
