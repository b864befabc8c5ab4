"""The gRPC door: the calls of RocketMQ's 5.x clients, apache.rocketmq.v2.MessagingService.

http2        the seam to the library: bytes to calls, answers to bytes
line         gRPC on one connection
asked        a call, and who makes it; names that may be
service      who answers which call, and what an error becomes
needs        what calls need under an ACL
routes       topics and assignments
sessions     clients: their settings, heartbeats, and end
sending      sends
endings      ends of transactions, who is asked for one, recalls
consuming    receives, acknowledgements, and what is made invisible for longer
renewals     keeps messages invisible while their client lives
messages     messages and statuses, from and to their wire form
definitions_pb2  the classes of definitions.proto, written by `make definitions`

Needs the extra `grpc`: h2 and protobuf. Only `broker` imports this room, when it is wanted.
"""
