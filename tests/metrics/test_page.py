"""The text, as the parser of Prometheus' own client reads it."""

import re
from pathlib import Path

import pytest

from flintmq.metrics.page import BROKER_METRICS, ENGINE_METRICS, STORE_METRICS, Page
from tests.support.prometheus import samples

HELP = {"a_total": "Count.", "b_size": "Size."}


@pytest.mark.parametrize(
    "text",
    [
        "Orders",
        "库存",
        'say "hi"',
        "two\nlines",
        "a,b}",
        "",
        " ",
        "%RETRY%g",
        "\U0001f600",
    ],
)
def test_labels_come_back_as_they_were(text: str) -> None:
    page = Page(HELP)
    page.add("b_size", 3, {"topic": text, "other": "x"})
    assert samples(page.text()) == {"b_size": {(("other", "x"), ("topic", text)): 3.0}}


def test_what_a_terminal_would_obey_and_what_is_no_utf_8_becomes_visible() -> None:
    page = Page(HELP)
    for number, text in enumerate(("\x1b[31mred", "\udcff\udcfe", "\u202efdp", "\ud800", "a\rb", "\x00")):
        page.add("b_size", number, {"topic": text})
    text = page.text()
    assert all(c.isprintable() or c == "\n" for c in text)
    topics = [dict(labels)["topic"] for labels in samples(text)["b_size"]]
    assert topics == ["\\x1b[31mred", "\\udcff\\udcfe", "\\u202efdp", "\\ud800", "a\\rb", "\\x00"]


def test_no_two_labels_come_out_alike() -> None:
    page = Page(HELP)
    for number, text in enumerate(("g\x01", "g\\x01", "g\\\x01", "g\\\\x01", "\n", "\\n", '\\"')):
        page.add("b_size", number, {"topic": text})
    topics = [dict(labels)["topic"] for labels in samples(page.text())["b_size"]]
    assert topics == ["g\\x01", "g\\\\x01", "g\\\\\\x01", "g\\\\\\\\x01", "\n", "\\\\n", '\\\\"']


def test_samples_of_one_metric_are_together_and_empty_metrics_are_left_out() -> None:
    page = Page(HELP)
    page.add("b_size", 1, {"t": "x"})
    page.add("a_total", 2**63, {"t": "x"})
    page.add("b_size", 0.5, {"t": "y"})
    assert page.text() == (
        "# HELP a_total Count.\n# TYPE a_total counter\n"
        'a_total{t="x"} 9223372036854775808\n'
        "# HELP b_size Size.\n# TYPE b_size gauge\n"
        'b_size{t="x"} 1\nb_size{t="y"} 0.5\n'
    )
    assert Page(HELP).text() == ""


def test_a_metric_has_no_more_samples_than_the_limit() -> None:
    page = Page(HELP, 2)
    for number in range(4):
        page.add("b_size", number, {"t": str(number)})
    page.add("a_total", 1, {})
    assert samples(page.text()) == {"a_total": {(): 1}, "b_size": {(("t", "0"),): 0, (("t", "1"),): 1}}
    assert page.left_out == 2


@pytest.mark.parametrize("metrics", [STORE_METRICS, ENGINE_METRICS, BROKER_METRICS])
def test_names_are_legal_and_help_needs_no_escape(metrics: dict[str, str]) -> None:
    for name, text in metrics.items():
        assert re.fullmatch(r"(rocketmq|flintmq)_[a-z_]+[a-z]", name)
        assert re.fullmatch(r"[^\\\n]+\.", text), name


def test_rocketmqs_names_are_rocketmqs() -> None:
    """Of BrokerMetricsConstant and DefaultStoreMetricsConstant, RocketMQ 5.3 to 5.5."""
    theirs = {
        "rocketmq_storage_size", "rocketmq_storage_flush_behind_bytes", "rocketmq_storage_dispatch_behind_bytes",
        "rocketmq_storage_message_reserve_time", "rocketmq_topic_number", "rocketmq_consumer_group_number",
        "rocketmq_consumer_lag_messages", "rocketmq_consumer_lag_latency", "rocketmq_messages_in_total",
        "rocketmq_messages_out_total", "rocketmq_throughput_in_total", "rocketmq_throughput_out_total",
        "rocketmq_broker_permission", "rocketmq_send_to_dlq_messages_total", "rocketmq_producer_connections",
        "rocketmq_consumer_connections", "rocketmq_consumer_inflight_messages", "rocketmq_consumer_ready_messages",
    }  # fmt: skip
    ours = {name for name in (*STORE_METRICS, *ENGINE_METRICS, *BROKER_METRICS) if name.startswith("rocketmq_")}
    assert ours == theirs


def test_the_page_lists_them_all() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "operations" / "metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| .*? \| (.*) \|$", page, re.MULTILINE)
    assert rows == [*STORE_METRICS.items(), *BROKER_METRICS.items()]
