import sys

import pytest

from flintmq.cli.lake.spark_job import spark_job
from flintmq.cli.output import Console


class Session:
    def __init__(self) -> None:
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("ran_before", [False, True])
def test_a_session_that_the_command_started_ends_with_it(
    ran_before: bool, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Session()
    asked = []

    def session(name: str, master: str | None) -> Session:
        asked.append((name, master))
        return made

    monkeypatch.setattr("flintmq.spark.session", session)
    monkeypatch.setattr(sys.modules["flintmq.spark.session"], "running", lambda: made if ran_before else None)
    try:
        with spark_job("verify", "local[3]", Console()) as (spark, progress):
            assert spark is made and not made.stopped  # type: ignore[comparison-overlap]
            progress(1, 2)
            if fails:
                raise ValueError("in the job")
    except ValueError:
        assert fails
    assert made.stopped != ran_before and asked == [("flintmq verify", "local[3]")]
