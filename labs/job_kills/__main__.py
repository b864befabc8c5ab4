"""Kill jobs of Spark at random moments; compare what they leave with what their pages promise.

    python -m labs.job_kills --kinds sink,replay,rebuild --kills 20 --seed 1 --record

`delta` and `iceberg` are the lake's own writers, fed by a stream of ours (with the jars of `make lake-writers`); `sink`
is a stream of ours into our sink; `replay` and `rebuild` are the commands. Each is killed in its driver (Python), its
JVM, the Python side of the source in the JVM (streams alone have one), a Python that Spark started (the lake's writers
have none), and, in each second round, on `local-cluster`, an executor. The store grows before each start. After some
kills a run goes to its end: the table must have each message of a queue once, the other store also in its order, and a
rebuild each byte of a local one. No process and no socket of a job that ended may be left. What is wrong ends the run,
and its folder is kept.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyspark

from flintmq import MessageStore
from labs.job_kills.jobs import ENDING, KINDS, STREAMS, VICTIMS, Job
from labs.torture import figures
from labs.torture.report import commit
from labs.torture_spark.streams import EXECUTORS
from labs.torture_spark.writer import KEYS, message
from tests.harness import class_archive

NAME = "job-kills"
COLUMNS = ("kind", "kills", *VICTIMS, "gave up", "messages", "comparisons", "wrong")
PER_ROUND, TO_THE_END = 10, 5  # kills of a round; after how many a run goes to its end
LONGEST_S = 400  # of a run that nobody kills


class Round:
    """One store, one job, and what was counted.

    Args:
        folder: an empty directory.
        chance: decides what is random.
    """

    def __init__(self, folder: Path, kind: str, master: str, chance: random.Random) -> None:
        self.job, self.chance = Job(folder, kind, master, chance.choice((30, 60, 100))), chance
        self.counted: Counter[str] = Counter()
        self.hurt: list[str] = []  # who was killed in this run
        self.open = False  # whether it has begun, and nobody has looked at its end

    def live(self, kills: int) -> None:
        """Kill so many times, and let it go to its end at times, and last."""
        try:
            while self.counted["kills"] < kills:
                if self._kill() and self.counted["kills"] % TO_THE_END == 0:
                    self._finish()
            self._finish()
        finally:
            self.job.end()

    def _start(self, grows: bool = True) -> None:
        if grows:
            self._grow()
        self.hurt, self.open = [], True
        self.job.start()

    def _grow(self) -> None:
        """Put more messages; those that a command moves in pieces are larger."""
        streams = self.job.kind in STREAMS
        with MessageStore(self.job.store, config=KEYS, unique_keys=False) as store:
            for _ in range(self.chance.randrange(200, 500) if streams else self.chance.randrange(1000, 3000)):
                put = message(str(self.counted["messages"]), self.chance, 1 if streams else 12)
                (result,) = store.put_many([put], delivered=True)  # only copies are prepared
                assert result.status.name == "PUT_OK"
                self.counted["messages"] += 1
            assert store.wait_dispatched(60)

    def _kill(self) -> bool:
        """Kill somebody at some moment; False if the job was over, or they were not there."""
        job, chance = self.job, self.chance
        if not job.runs:
            self._settle()
            self._start()
        whom = chance.choices(list(job.victims), list(job.victims.values()))[0]
        if chance.random() < 0.2:  # while it starts, too
            time.sleep(chance.uniform(0, 4))
        else:
            job.wait_for_a_task(60)
            time.sleep(chance.uniform(0, 0.5))
        if not job.runs or not job.kill(whom, chance) or self._code() == 0:
            return False
        self.hurt.append(whom)
        self.counted.update([whom, "kills"])
        if whom in ENDING:
            job.check_gone("side" not in self.hurt)  # the next Python side removes the socket of one that was killed
            self.open = False
        return True

    def _code(self) -> int | None:
        return self.job.process.poll() if self.job.process else None

    def _settle(self) -> None:
        """A run has ended by itself: rightly, or because somebody of it was killed."""
        if not self.open:
            return
        self.open = False
        self.job.check_gone()
        if self._code() == 0:
            self.job.check()
            self.counted["comparisons"] += 1
        else:
            assert self.hurt, f"ended with {self._code()} although nobody was killed"
            self.counted["gave up"] += 1
            words = [line for line in self.job.last_words() if "Exception" in line or "Error" in line]
            print(f"{self.job.kind} gave up after {self.hurt}: {words[-1][:300] if words else ''}", flush=True)

    def _finish(self) -> None:
        """Let the job go to its end, from what is there."""
        compared = self.counted["comparisons"]
        while self.counted["comparisons"] == compared:
            if not self.open:
                self._start(grows=False)
            assert self.job.process is not None
            self.job.process.wait(LONGEST_S)
            self._settle()


def killed(folder: Path, kind: str, kills: int, seed: int, masters: tuple[str, ...] = ()) -> Counter[str]:
    """Make a run with so many kills, and count.

    Raises:
        AssertionError: something is wrong; what is there is kept.
    """
    counted: Counter[str] = Counter()
    masters = masters or ("local[2,8]", EXECUTORS)  # eight attempts of a task; `local[2]` has one
    for number in range(-(-kills // PER_ROUND)):
        place = folder / f"{kind}{number}"
        place.mkdir()
        one = Round(place, kind, masters[number % len(masters)], random.Random(f"{kind} {seed} {number}"))
        try:
            one.live(min(PER_ROUND, kills - counted["kills"]))
        except Exception as error:
            last = "\n".join(one.job.last_words()[-30:])
            raise AssertionError(f"{place}: {error}; killed: {one.hurt}\n{last}") from error
        counted += one.counted
        print(f"{kind} on {masters[number % len(masters)]}: {dict(counted)}", flush=True)
        shutil.rmtree(place)
    return counted


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--kills", type=int, default=60, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true", help=f"add the run to {NAME}.json")
    words: Any = parser.parse_args()
    os.environ["JAVA_TOOL_OPTIONS"] = class_archive.options()  # they live for seconds
    begun, done, folder = figures.begun(), commit(), Path(tempfile.mkdtemp())
    rows = []
    try:
        for kind in words.kinds.split(","):
            counted = killed(folder, kind, words.kills, words.seed)
            rows.append([kind, *(counted[name] for name in COLUMNS[1:])])
    except AssertionError as error:
        print(f"WRONG: {error}", file=sys.stderr)
        return 1
    folder.rmdir()
    told = {"seed": words.seed, "spark": pyspark.__version__}
    series = figures.Series(list(COLUMNS), rows, [done], told, begun)
    print(*figures.shown(NAME, series), sep="\n")
    if words.record:
        figures.save(NAME, [*figures.read(NAME), series])
    return 0


if __name__ == "__main__":
    sys.exit(main())
