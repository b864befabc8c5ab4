"""Answers about single messages that no tool of RocketMQ has.

Of any store, also one whose broker is gone.

steps    tells of one record which message it is of, and what happened to that
trace    joins the steps of each message: stored, delivered, retried, dead, passed by groups, deleted when
halves   lists half messages of transactions, and how they ended
timers   lists what waits: delay levels and timers
dead     lists dead letters and retries
send_dead  sends dead letters again, each once

collect  finds the records of the messages that are asked for
reading  reads whole queues, and outcomes of transactions
answer   is the result of each of these: rows, and what is lacking
"""
