"""A report keeps the first findings and counts all."""

from flintmq.store.commitlog.report import KEPT, Damage, DamageKind, Report


def test_findings_are_kept_up_to_a_bound_and_always_counted() -> None:
    report = Report()
    for n in range(KEPT + 5):
        report.damage(Damage("f", n, n, 2, "why", DamageKind.RECORD))
        report.note("code", str(n))
    assert (len(report.damages), report.damage_count, report.lost_bytes) == (KEPT, KEPT + 5, 2 * (KEPT + 5))
    assert (len(report.notes), report.note_counts) == (KEPT, {"code": KEPT + 5})
    assert report.damages[-1].position == KEPT - 1


def test_a_report_is_added_to_another() -> None:
    whole, part = Report(), Report()
    for report, count in ((whole, KEPT - 1), (part, 3)):
        for n in range(count):
            report.damage(Damage("f", n, n, 2, "why", DamageKind.RECORD))
            report.note("code" if n else "first", str(n))
    whole.add(part)
    assert (len(whole.damages), whole.damage_count, whole.lost_bytes) == (KEPT, KEPT + 2, 2 * (KEPT + 2))
    assert (len(whole.notes), whole.notes[-1].text) == (KEPT, "0")
    assert whole.note_counts == {"first": 2, "code": KEPT}
