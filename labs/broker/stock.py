"""Stock clients of RocketMQ that send to a broker in all their ways, whatever happens to it."""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path

from flintmq.format.message_id import parse_offset_msg_id
from labs.broker.ledger import TOPIC, Sender, text_of
from labs.three_brokers.ledger import name_of
from tests.interop.stock_clients import Client, Refused, clients

KINDS = ("java-5.5.0", "java-5.3.3", "go")
WAYS = {"sync": (2, 5), "async": (3, 60), "batch": (1, 30)}  # how often, and how many messages at a time
NOT_OF_GO = "async"  # Go's client 2.1.2 ends its process where such a send has no answer in time
PAUSE_S = 0.1


def started(folder: Path, kinds: tuple[str, ...], stack: ExitStack) -> dict[str, Client]:
    """Clients of these kinds, two of each, which end with the stack; by their names.

    Raises pytest's Skipped: a kind cannot be had here.
    """
    found = {}
    for kind in kinds:
        for number in range(2):
            home = folder / f"{kind}-{number}"
            home.mkdir()
            found[home.name] = stack.enter_context(clients(kind, home))
    return found


class StockSender(Sender):
    """Has a stock client send; a client that gets no answer tries again by itself, so a message may be there twice."""

    def __init__(
        self, name: str, client: Client, address: str, chance: random.Random, pause_s: float = PAUSE_S
    ) -> None:
        super().__init__(name)
        self.client, self.address, self.chance, self.pause_s = client, address, chance, pause_s

    def send_once(self) -> None:
        ways = {how: often for how, (often, _) in WAYS.items() if self.client.kind != "go" or how != NOT_OF_GO}
        [how] = self.chance.choices(list(ways), list(ways.values()))
        names = self.new(WAYS[how][1])
        words = {"topic": TOPIC, "bodies": [text_of(name) for name in names], "how": how, "tags": how}
        try:
            rows = self.client.ask("send", self.address, **words)["sent"]
        except Refused:
            self.refused += 1
            rows = []
        for row in rows:
            if row["status"] == "SEND_OK":
                places = [parse_offset_msg_id(text)[2] for text in row["offsetId"].split(",")]
                sent = names if how == "batch" else [name_of(row["body"].encode())]
                for number, (name, place) in enumerate(zip(sent, places, strict=True)):
                    self.told(name, row["queue"], row["offset"] + number, place)
        self.stopping.wait(self.chance.uniform(0, self.pause_s))
