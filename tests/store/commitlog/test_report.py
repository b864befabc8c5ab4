"""A report keeps the first findings and counts all."""

from flintmq.store.commitlog.report import KEPT, Damage, Report


def test_findings_are_kept_up_to_a_bound_and_always_counted() -> None:
    report = Report()
    for n in range(KEPT + 5):
        report.damage(Damage("f", n, n, 2, "why"))
        report.note("code", str(n))
    assert (len(report.damages), report.damage_count, report.lost_bytes) == (KEPT, KEPT + 5, 2 * (KEPT + 5))
    assert (len(report.notes), report.note_counts) == (KEPT, {"code": KEPT + 5})
    assert report.damages[-1].position == KEPT - 1
