"""A sender made of a socket: many sends at once, each message once, in the bytes of a stock client."""

from __future__ import annotations

import random

from flintmq.format.message_id import parse_offset_msg_id
from flintmq.remoting.names import SEND_BATCH, SEND_SHORT, SUCCESS
from labs.broker.ledger import QUEUES, TOPIC, Sender, text_of
from tests.broker.talk import Line, batch, send

AT_ONCE = (1, 3, 20, 60)  # sends of which no answer is awaited before the last one went
BATCH = 8  # messages
RETRY_S = 0.02


class LineSender(Sender):
    """Sends over a connection of its own, and makes another where one ends; it tries nothing again."""

    def __init__(self, name: str, address: str, chance: random.Random, topic: str = TOPIC) -> None:
        super().__init__(name)
        self.address, self.chance, self.topic = address, chance, topic
        self.line: Line | None = None

    def send_once(self) -> None:
        try:
            if self.line is None:
                self.line = Line(self.address)
            self._send(self.line)
        except (OSError, EOFError):
            self.refused += 1
            if self.line is not None:
                self.line.close()
            self.line = None
            self.stopping.wait(RETRY_S)

    def _send(self, line: Line) -> None:
        """Send some, and wait for their answers, which may come in another order."""
        waiting = dict[int, list[str]]()
        for _ in range(self.chance.choice(AT_ONCE)):
            queue_id = self.chance.randrange(QUEUES)
            if self.chance.random() < 0.1:
                names = self.new(BATCH)
                body = batch(*((text_of(name).encode(), _key(name)) for name in names))
                waiting[line.start(SEND_BATCH, send(self.topic, queue_id, batch="true"), body)] = names
            else:
                [name] = names = self.new(1)
                fields = send(self.topic, queue_id, _key(name))
                waiting[line.start(SEND_SHORT, fields, text_of(name).encode())] = names
        while waiting:
            answer = line.frame()
            if answer is None:
                raise TimeoutError("no answer")
            if not answer.is_answer:
                continue
            names = waiting.pop(answer.opaque)
            if answer.code != SUCCESS:
                self.refused += 1
                continue
            first = int(answer.fields["queueOffset"])
            for number, (name, text) in enumerate(zip(names, answer.fields["msgId"].split(","), strict=True)):
                self.told(name, int(answer.fields["queueId"]), first + number, parse_offset_msg_id(text)[2])


def _key(name: str) -> str:
    return f"UNIQ_KEY\x01{name}\x02WAIT\x01true\x02"
