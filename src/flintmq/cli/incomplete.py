"""Says on stderr that an answer may lack messages, because the log is damaged there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flintmq.cli.output import Output
from flintmq.errors import CorruptStoreError
from flintmq.forensics.topic_tail import check_end

if TYPE_CHECKING:
    from flintmq.store.commitlog.report import Report
    from flintmq.store.view import StoreView


def report_incomplete(out: Output, view: StoreView, report: Report, what: str) -> int:
    code = 0
    if report.damages:
        first = min(report.damages, key=lambda damage: damage.offset)
        places = "place" if report.damage_count == 1 else "places"
        out.note(
            f"the answer may be incomplete: {what} cannot be read at {report.damage_count} {places}, the first in "
            f"{first.file}, position {first.position} ({first.reason}); run `flintmq verify`"
        )
        code = CorruptStoreError.exit_code
    try:
        check_end(view)
    except CorruptStoreError as error:
        out.note(f"the answer may be incomplete: {error}")
        code = error.exit_code
    return code
