"""The contract on a store, and the ledger settled by it: what is there then must stay, what is not must not come."""

from pathlib import Path

from flintmq.format import properties
from flintmq.testing.contract import ContractReport, check_contract, read_ledger
from tests.robustness.crash.lives import FILE_SIZE, PutLedger
from tests.support import engine

COUNTS = (
    "acknowledged", "unknown", "uncommitted", "stored", "lost", "phantom", "altered", "duplicated", "holes", "derived",
    "unserved",
)  # fmt: skip


def judge(root: Path, ledger: Path) -> ContractReport:
    """Recover, compare with the ledger (see check_contract), and settle the ledger."""
    found = check_contract(root, ledger)
    if not found.wrong:
        settle(root, ledger)
    return found


def discount(ledger: Path, since_ns: int) -> set[str]:
    """Messages that were answered OK since a moment (of the monotonic clock): no longer taken as promises.

    Nor is it what an answer said since then of how far the log is flushed.
    """
    answers = {
        identity: answer for identity, answer in read_ledger(ledger)[1].items() if answer.get("at", 0) >= since_ns
    }
    lines = PutLedger(ledger)
    for identity, answer in answers.items():
        outcome = "failed" if answer["outcome"] == "failed" else "unknown"
        lines.line(told=identity, outcome=outcome, committed=None)
    lines.close()
    return {identity for identity, answer in answers.items() if answer["outcome"] == "ok"}


def settle(root: Path, ledger: Path) -> None:
    """Write down as answers what the log says, for every message that was sent."""
    sent, told = read_ledger(ledger)
    log = {properties.parse_bytes(r.properties)["KEYS"]: r for r in engine.records(root, FILE_SIZE)}
    lines = PutLedger(ledger)
    try:
        for identity in sent:
            before, r = told.get(identity, {}), log.get(identity)
            if r is None and before.get("outcome") != "failed":
                lines.line(told=identity, outcome="failed")
            elif r is not None and (before.get("outcome") != "ok" or before["committed"] is not None):
                lines.line(
                    told=identity, outcome="ok", queue_offset=r.queue_offset, place=r.physical_offset, size=r.size,
                    time=r.store_timestamp, committed=None,
                )  # fmt: skip
    finally:
        lines.close()


def there(ledger: Path) -> set[str]:
    """What is in the store, by a settled ledger."""
    return {identity for identity, answer in read_ledger(ledger)[1].items() if answer["outcome"] == "ok"}
