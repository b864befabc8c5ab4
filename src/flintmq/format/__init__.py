"""Codecs between bytes and values, without any I/O: one module per kind of file.

Each layout is declared once; the codec, its sizes and the tables of the documentation all come from that declaration.

layout          how a layout is declared; codec, sizes and tables follow from the declaration
text            text, hash and numbers as Java reads them
properties      the property string of a message
record          a record of the commit log, and when one counts
record_view     single numbers of a record, without decoding the rest
start_fields    properties that a start of RocketMQ parses, and cannot bear if they are no numbers
compression     the original of a compressed body
inner_batch     the entries of an inner batch (a record's body)
group_topics    names of the topics that groups have for themselves
recall_handle   the handle by which a waiting message is recalled
message_id      offset ids, client ids, hosts as text
consume_queue   units of 20 bytes, tags codes
consume_queue_ext, batch_queue, index, checkpoint, timer, flintmq_mark, zone_map    one kind of file each
config_json     the JSON dialects of config/
config_names    what its files are for, and what their keys mean
"""
