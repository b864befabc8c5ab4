"""What `make torture` runs: every long form of the test programme, declared once."""

from __future__ import annotations

import os
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Run:
    """One long form.

    Attributes:
        name: in the table.
        words: what stands behind `python -m`; `{n}` is the number of the part.
        parts: how many of them make the whole; each is a command that ends.
        resumes: the command takes `--seconds` and `--state`, ends with 3 when the time is up, and the same command goes
            on. Such a run has one part.
        limit_s: after so long a part that does not resume has failed.
        tracked: it keeps its state in labs/torture/state, in the repository, so that another machine goes
            on.
        environment: variables of its own.
    """

    name: str
    words: str
    parts: int = 1
    resumes: bool = False
    limit_s: int = 1800
    tracked: bool = False
    environment: dict[str, str] = field(default_factory=dict)

    def command(self, part: int) -> str:
        """What a person would type for this part."""
        variables = "".join(f"{name}={value} " for name, value in self.environment.items())
        return f"{variables}python -m {self.words.format(n=part)}"


RUNS = (
    Run("kill -9", "labs.crash.loop --cycles 5000", resumes=True),
    Run("power cuts, ext4 and XFS", "labs.crash.cuts --cuts 1000", resumes=True),
    Run("each call fails", "labs.failing_calls.syscalls", resumes=True, tracked=True),
    Run(
        "power cuts, simulated",
        "labs.sim.crash --states {n}00000 --jobs 2 --state-file labs/torture/state/crash-sim.json",
        parts=21,
        limit_s=7200,
    ),
    Run("power cuts, a disk that forgets", "labs.crash.power --seeds 1 --first {n}", parts=20),
    Run("consumers, kill -9", "labs.crash.consuming --stores 10 --first {n}0", parts=15),
    Run("stale tails", "labs.torture.seeds stale-tail --first {n}000", parts=50),
    Run("clock steps", "labs.torture.seeds clock-steps"),
    Run("what is derived", "labs.torture.seeds derived --count 2560"),
    Run("slow syncs", "pytest -q tests/robustness/failing_calls/test_slow_sync.py", parts=50),
    Run("flipped bits", "labs.hostile.bits", resumes=True, tracked=True),
    Run("pages, lengths, names, subsets", "labs.hostile.pages", resumes=True, tracked=True),
    Run(
        "state machine",
        "pytest -q tests/robustness/soak/test_machine.py",
        environment={"FLINTMQ_MACHINE": "2000"},
        parts=10,
        limit_s=7200,
    ),
    Run("soak", "labs.soak.run --minutes 30", limit_s=3000),
    Run("salvage", "labs.salvaging --stores 100 --first {n}00 --java 10", parts=10, limit_s=3600),
    Run("damaged stores beside RocketMQ", "labs.interop.damaged --stores 1000", resumes=True, tracked=True),
    Run("mutants", "labs.mutants"),
    Run("fuzz", "labs.fuzz 120", parts=420),
    Run(
        "hostile input",
        "pytest -q tests/robustness/hostile",
        environment={"FLINTMQ_HOSTILE": "all", "FLINTMQ_LIVE_SECONDS": "60"},
    ),
    Run("beside each RocketMQ", "pytest -q tests/interop tests/spark/stream/test_live_java.py"),
    Run("all that take turns in make test", "pytest -q -m turn", limit_s=3600),
    Run("the demo at full size", "examples.demo --out artifacts/torture/demo"),
    Run("as RocketMQ 5.3.3", "labs.interop.differential --operations 20000 --seed {n}", parts=5),
    Run("as RocketMQ 5.4.0", "labs.interop.differential --operations 20000 --peer 5.4.0 --seed {n}", parts=5),
    Run("as RocketMQ 5.5.0", "labs.interop.differential --operations 20000 --peer 5.5.0 --seed {n}", parts=5),
    Run("streaming export", "labs.torture_spark.loop --kills 300", resumes=True),
    Run("followers of a master", "labs.replication --kills 40 --seed {n}0", parts=8),
    Run("three brokers of a name server", "labs.three_brokers --seed {n}", limit_s=3000),
    Run("a broker, kill -9", "labs.broker_kills --kills 200", resumes=True),
    Run("a broker, power cuts", "labs.broker_cuts --cuts 50", resumes=True),
    Run("hostile clients of a broker", "labs.broker_fuzz --minutes 10 --seed {n}", parts=6),
    Run("a broker under load", "labs.broker_soak --minutes 60 --connections 100", limit_s=5400),
    Run("a stream of a broker's store", "labs.broker_stream --seed {n}", parts=2, limit_s=3600),
    Run("tables on object storage", "labs.bucket_kills --kills 100 --seed {n}", parts=8),
    Run("streaming export of a cluster", "labs.torture_spark.cluster --kills 300", resumes=True),
)


def environment(run: Run) -> dict[str, str]:
    """The variables of a run's process."""
    return {**os.environ, **run.environment}
