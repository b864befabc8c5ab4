"""RocketMQ's own filters of SQL92: as recorded, and beside ours at conditions by chance."""

import random

import pytest

from labs.sql_filters import asked
from tests.broker.test_sql import TABLE, letters
from tests.interop.java import Java

pytestmark = pytest.mark.slow

NUMBERS = ["5", "-5", "0", "3L", "5.0", "-1.5", "2147483648", "1e3", "6"]
TORN = ["(", ")", "'", "''", "NOT ", "--", "\n", "/*", "*/", "IS NULL", "e5", ".", "L", "<", ">=", ",", "#", "IN ('x')"]


def test_answers_are_those_recorded(java: Java) -> None:
    conditions, answers = zip(*TABLE["conditions"], strict=True)
    assert asked(java, conditions, TABLE["messages"]) == list(answers)


class Chance(random.Random):
    """Makes conditions, most of them right."""

    def side(self, depth: int) -> str:
        if depth > 0 and self.random() < 0.2:
            return f"({self.whole(depth - 1)})"
        return self.choice(["a", "a", "a", "b", "b", "'5'", "'abc'", "TRUE", "NULL", self.choice(NUMBERS)])

    def part(self, depth: int) -> str:
        pick, no = self.choice, self.choice(["", "", "NOT "])
        name = self.side(depth) if self.random() < 0.2 else pick(["a", "b"])
        texts = self.sample(["5", "abc", "NaN", "007", ""], 2)
        return pick([
            f"{name} {pick(['=', '<>'])} {self.side(depth)}",
            f"{name} {pick(['<', '<=', '>', '>='])} {pick(['a', *NUMBERS])}",
            f"{name} {no}BETWEEN {pick(['a', *NUMBERS])} AND {pick(['b', *NUMBERS])}",
            f"{name} {no}IN ('{texts[0]}', '{texts[1]}')",
            f"{name} {no}{pick(['CONTAINS', 'STARTSWITH', 'ENDSWITH'])} '{pick(['5', 'a', '', 'c'])}'",
            f"{name} IS {no}NULL",
            f"{no}{self.side(depth)}",
        ])  # fmt: skip

    def whole(self, depth: int) -> str:
        found = self.part(depth)
        while self.random() < 0.4:
            found += f" {self.choice(['AND', 'OR', 'AND', 'OR', '=', '<>'])} {self.part(depth)}"
        return found

    def torn(self, text: str) -> str:
        """The same with a piece put in, taken out, or cut off."""
        at, end = sorted(self.randrange(len(text) + 1) for _ in range(2))
        return self.choice([text[:at] + self.choice(TORN) + text[at:], text[:at] + text[at + 2 :], text[at:end]])


@pytest.mark.parametrize("seed", range(3))
def test_conditions_by_chance(java: Java, seed: int) -> None:
    chance = Chance(f"{seed} {java.version}")
    made = [chance.whole(chance.randrange(3)) for _ in range(1000)]
    conditions = [*made, *map(chance.torn, made)]
    messages = chance.sample([one for one in TABLE["messages"] if len(str(one)) < 100], 30)
    theirs = asked(java, conditions, messages)
    for text, wanted in zip(conditions, theirs, strict=True):
        assert letters(text, messages) == wanted, (text, messages)
    assert sum(answer is not None for answer in theirs) > 500, "most are right"
