"""RocketMQ's remoting protocol, which its clients, brokers and name servers speak.

names   the codes of requests and of answers
frames  bytes to requests and answers, and back; knows no socket
sends   the answer of a send
pulls   the fields of a pull, and its answer
client  asks a broker or a name server
"""
