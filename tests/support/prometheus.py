"""Prometheus text, read by the parser of Prometheus' own client."""

from prometheus_client.parser import text_string_to_metric_families

Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]


def samples(text: str) -> Samples:
    """Metric -> (sorted labels) -> value. The text is valid: no metric twice or without help, no sample twice."""
    assert text.endswith("\n")
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation and family.type in ("gauge", "counter")
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            mine = found.setdefault(sample.name, {})
            assert labels not in mine, sample
            mine[labels] = sample.value
    heads = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads))
    return found


def only(found: Samples, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    """The samples of a metric by the values of some labels, which must tell them apart."""
    result: dict[tuple[str, ...], float] = {}
    for own, value in found.get(name, {}).items():
        key = tuple(dict(own)[label] for label in labels)
        assert key not in result, (name, key)
        result[key] = value
    return result
