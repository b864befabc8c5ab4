"""RocketMQ's configuration keys: names, defaults, meanings, and the text forms that they come in.

keys         declares each key with its default: StoreConfig
key_effects  says what FlintMQ does with each key
text         reads broker.conf, KEY=VALUE words and lists of delay levels
s3           holds the keys `s3.*`: how object storage is reached
typed        types the settings of MessageStore, for editors; made by `docs`
docs         writes docs/operations/configuration.md
"""

from flintmq.config.keys import StoreConfig

__all__ = ["StoreConfig"]
