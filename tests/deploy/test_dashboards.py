"""Grafana's dashboards ask for metrics and labels that stores, engines and brokers really give, and for all of them."""

import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode

import pytest

import flintmq
from flintmq import Message, MessageStore
from flintmq.broker import Broker
from flintmq.ha import Follower
from flintmq.metrics.page import BROKER_METRICS, CONTENT_TYPE, ENGINE_METRICS, STORE_METRICS
from tests.broker.talk import Line, heartbeat, pop, popped, pull, send
from tests.compat.stores import Golden
from tests.support.prometheus import Samples, samples
from tests.support.threads import within

ROOT = Path(__file__).resolve().parents[2]
BOARDS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (ROOT / "deploy/grafana").glob("*.json")}
FAMILIES = {"stores": {*STORE_METRICS}, "broker": {*ENGINE_METRICS, *BROKER_METRICS}}
KEYS = {"mappedFileSizeCommitLog": 1 << 20}
PULL, HEARTBEAT, SEND, POP = 11, 34, 310, 200050
FUNCTIONS = {"sum", "max", "min", "topk", "rate", "time", "label_values"}
LABELS_FOLLOW = {"by", "on"}
WORDS = {"or"}
TOKEN = re.compile(r'"[^"\\]*"|[A-Za-z_:][\w:]*|\[\$?\w+\]|\d+|=~|==|[-+*/(){},=>]|\s+')
Labels = dict[str, set[str]]
"""Metric -> the labels that its samples have."""


def labels_of(*found: Samples) -> Labels:
    labels: Labels = {}
    for one in found:
        for name, rows in one.items():
            labels.setdefault(name, set()).update(key for row in rows for key, _ in row)
    return labels


@pytest.fixture(scope="module")
def texts_of_stores(golden: Callable[[str], Golden], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What stores give: RocketMQ's with groups, of which files go next, one that was killed, a copy."""
    folder = tmp_path_factory.mktemp("stores")
    written = int(time.time()) - 3600
    root = golden("config").copy(folder)
    for file in (root / "commitlog").iterdir():
        os.utime(file, (written, written))
    lives = {"fileReservedTime": 100, "cleanFileForciblyEnable": False}
    crashed = golden("crash").path
    with MessageStore(folder / "m", KEYS, ha_listen=("127.0.0.1", 0)) as master:
        assert master.ha is not None
        master.put(Message("T", b"one"))
        with Follower(folder / "copy", "{}:{}".format(*master.ha.address), config=KEYS) as follower:
            assert follower.wait_caught_up(30)
            copy: list[str] = []  # what it says of itself it notes once a second or so
            assert within(
                lambda: copy.append(flintmq.store_metrics(folder / "copy")) or "follower_behind_bytes{" in copy[-1]
            )
            return [flintmq.store_metrics(root, set=lives, queue_lag=9), flintmq.store_metrics(crashed), copy[-1]]


@pytest.fixture(scope="module")
def texts_of_brokers(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What a broker with clients, and engines with a pool, a follower and a refused put, give from inside."""
    folder = tmp_path_factory.mktemp("brokers")
    texts = []
    with MessageStore(folder / "pool", {**KEYS, "transientStorePoolEnable": True}) as pooled:
        assert pooled.put(Message("T", b"x" * (5 << 20))).status.name == "MESSAGE_ILLEGAL"
        texts.append(flintmq.engine_metrics(pooled.stats()))
    with MessageStore(folder / "m", KEYS, ha_listen=("127.0.0.1", 0)) as master:
        assert master.ha is not None
        master.put(Message("T", b"one"))
        with Follower(folder / "copy", "{}:{}".format(*master.ha.address), config=KEYS, ack=True) as follower:
            assert follower.wait_caught_up(30)
            texts.append(flintmq.engine_metrics(master.stats(), followers=master.ha.followers()))
    with Broker(folder / "store", config=KEYS) as broker, Line(broker.address) as talk:
        assert isinstance(broker.store, MessageStore)
        assert talk.ask(SEND, send(), b"x").code == 0
        broker.store.put(Message("%DLQ%G", b"x"))
        assert broker.store.wait_dispatched(60)
        assert talk.ask(PULL, pull()).body and len(popped(talk.ask(POP, pop(group="P")))) == 1
        assert talk.ask(HEARTBEAT, body=heartbeat("c", "G", topics={"T": "*"})).code == 0
        producer = {"clientID": "p", "producerDataSet": [{"groupName": "P"}]}
        assert talk.ask(HEARTBEAT, body=json.dumps(producer).encode()).code == 0
        assert talk.ask(9999).code == 3
        broker.store.commit_offset("G", "T", 0, 0)
        texts.append(broker.metrics())
    return texts


@pytest.fixture(scope="module")
def of_stores(texts_of_stores: list[str]) -> Labels:
    return labels_of(*map(samples, texts_of_stores))


@pytest.fixture(scope="module")
def of_brokers(texts_of_brokers: list[str]) -> Labels:
    return labels_of(*map(samples, texts_of_brokers))


@pytest.fixture(params=sorted(BOARDS))
def board(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return request.param, BOARDS[request.param]


@pytest.fixture
def given(board: tuple[str, dict[str, Any]], of_stores: Labels, of_brokers: Labels) -> Labels:
    return {"stores": of_stores, "broker": of_brokers}[board[0]]


def panels(board: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from (panel for panel in board["panels"] if panel["type"] != "row")


def expressions(board: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The place, the expression and the legend of everything that a dashboard asks of Prometheus."""
    for panel in panels(board):
        for target in panel["targets"]:
            yield panel["title"], target["expr"], target["legendFormat"]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"], ""


def words_of(expression: str) -> list[str]:
    found = [match[0] for match in TOKEN.finditer(expression)]
    assert "".join(found) == expression, f"what is this? {expression}"
    return [word for word in found if word.strip()]


def metrics_of(expression: str) -> set[str]:
    return {word for word in words_of(expression) if re.fullmatch(r"(rocketmq|flintmq)_\w+", word)} | {
        name for names in re.findall(r'__name__=~"([^"]+)"', expression) for name in names.split("|")
    }


def complaints(expression: str, legend: str, given: Labels) -> list[str]:
    """What an expression names and nobody gives, and what is not of the part of PromQL that is used here."""
    words, named = words_of(expression), metrics_of(expression)
    common = set.intersection(*(given.get(name, set()) for name in named)) if named else set()
    found = [f"no metric {name}" for name in sorted(named - given.keys())]
    found += [] if all(words.count(a) == words.count(b) for a, b in ("()", "{}")) else ["a bracket is open"]
    metric, inside = "", ""  # inside: whose labels come now, those of a selector or of `by`
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if word in "{}(),":
            inside = "{" if word == "{" else "by" if word == "(" and inside == "by" else inside if word in "(," else ""
        elif not re.match(r"[A-Za-z_]", word):
            continue
        elif inside:
            known = common if inside == "by" else given.get(metric, common | {"__name__"})
            found += [f"no label {word} of {metric or named}"] if word not in known else []
        elif word in named:
            metric = word
        elif word in LABELS_FOLLOW:
            inside = "by"
        elif not (word in FUNCTIONS and after in ("(", "by")) and word not in WORDS:
            found.append(f"no word {word}") if expression[:12] != "label_values" or word not in common else None
    known = set().union(*(given.get(name, set()) for name in named))
    return found + [f"no label {one} for the legend" for one in re.findall(r"{{(\w+)}}", legend) if one not in known]


def left_out() -> dict[str, str]:
    """The families that the page says no panel has, each with its reason."""
    text = (ROOT / "docs/operations/kit.md").read_text(encoding="utf-8")
    rows = text.partition("| no panel has | because |\n|---|---|\n")[2].partition("\n\n")[0]
    return dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", rows, re.MULTILINE))


def test_each_family_has_a_sample(of_stores: Labels, of_brokers: Labels) -> None:
    """So that the labels of each are known here."""
    assert of_stores.keys() == FAMILIES["stores"] and of_brokers.keys() == FAMILIES["broker"]


def test_each_expression_names_what_is_there(board: tuple[str, dict[str, Any]], given: Labels) -> None:
    asked = list(expressions(board[1]))
    assert len(asked) > 30
    wrong = {(place, one): found for place, one, legend in asked if (found := complaints(one, legend, given))}
    assert wrong == {}


@pytest.mark.parametrize(
    ("expression", "legend", "found"),
    [
        ('sum by (topic) (flintmq_topic_messages{cluster=~"$cluster"})', "{{topic}}", []),
        ("flintmq_topic_mesages", "", ["no metric flintmq_topic_mesages"]),
        ('flintmq_topic_messages{toppic="a"}', "", ["no label toppic of flintmq_topic_messages"]),
        ("sum by (group) (flintmq_topic_messages)", "", ["no label group of {'flintmq_topic_messages'}"]),
        ("flintmq_topic_messages", "{{group}}", ["no label group for the legend"]),
        ("avrage(flintmq_topic_messages)", "", ["no word avrage"]),
        ("sum(flintmq_topic_messages", "", ["a bracket is open"]),
        ("label_values(flintmq_topic_messages, topc)", "", ["no word topc"]),
        ("topic:lag_messages", "", ["no word topic:lag_messages"]),
    ],
)
def test_what_is_wrong_is_seen(expression: str, legend: str, found: list[str]) -> None:
    assert complaints(expression, legend, {"flintmq_topic_messages": {"cluster", "topic"}}) == found


def test_each_family_is_in_a_panel_or_left_out_with_a_reason(board: tuple[str, dict[str, Any]]) -> None:
    name, content = board
    shown = set().union(*(metrics_of(target["expr"]) for panel in panels(content) for target in panel["targets"]))
    assert shown <= FAMILIES[name]
    assert FAMILIES[name] - shown == left_out().keys() & FAMILIES[name]
    assert all(re.fullmatch(r".{10,}\.", reason) for reason in left_out().values())


def test_rates_are_of_what_only_rises(board: tuple[str, dict[str, Any]]) -> None:
    for place, expression, _ in expressions(board[1]):
        for name in re.findall(r"rate\((\w+)", expression):
            assert name.endswith("_total") or name == "flintmq_log_end_offset", place
        assert expression.count("rate(") == expression.count("[$__rate_interval]"), place


def test_zero_is_never_said_where_nothing_is_known() -> None:
    """`or vector(0)` is green also where Prometheus asks nobody."""
    assert [place for board in BOARDS.values() for place, one, _ in expressions(board) if "vector(" in one] == []


def test_the_form_is_what_grafana_imports(board: tuple[str, dict[str, Any]]) -> None:
    name, content = board
    assert content["uid"] == f"flintmq-{name}" and content["title"] and content["schemaVersion"] >= 36
    variables = {one["name"]: one for one in content["templating"]["list"]}
    assert variables["datasource"] | {"type": "datasource", "query": "prometheus"} == variables["datasource"]
    asked = json.dumps([content["panels"], content["templating"]])
    assert set(re.findall(r"\$\{?(\w+)", asked)) == {*variables, "__rate_interval", "__all"}
    sources = [one["datasource"] for one in [*panels(content), variables["cluster"], variables["node"]]]
    assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)
    ids = [panel["id"] for panel in content["panels"]]
    assert len(set(ids)) == len(ids) and len({panel["title"] for panel in panels(content)}) > 20
    for panel in panels(content):
        letters = [target["refId"] for target in panel["targets"]]
        assert letters == sorted(set(letters)) and letters, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]


def test_no_panel_lies_on_another(board: tuple[str, dict[str, Any]]) -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in board[1]["panels"]:
        x, y, w, h = (panel["gridPos"][side] for side in "xywh")
        assert x + w <= 24 and h > 0
        for place in ((x + i, y + j) for i in range(w) for j in range(h)):
            assert taken.setdefault(place, panel["title"]) == panel["title"]


def test_no_two_dashboards_are_alike() -> None:
    assert len(BOARDS) == 2 and len({board["uid"] for board in BOARDS.values()}) == 2
    assert {*BOARDS} == {*FAMILIES}


@contextmanager
def prometheus(texts: list[str], folder: Path) -> Iterator[Callable[[str], list[Any]]]:
    """A real Prometheus that reads these texts; gives the samples that answer an expression."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.end_headers()
            self.wfile.write(texts[int(self.path.strip("/"))].encode())

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server, socket.create_server(("127.0.0.1", 0)) as taken:
        here, there = (f"127.0.0.1:{one.getsockname()[1]}" for one in (server.socket, taken))
        taken.close()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        of = {"honor_labels": True, "static_configs": [{"targets": [here]}]}
        jobs = [{"job_name": str(at), "metrics_path": f"/{at}", **of} for at in range(len(texts))]
        (folder / "p.json").write_text(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}))
        words = [f"--config.file={folder / 'p.json'}", f"--storage.tsdb.path={folder}", f"--web.listen-address={there}"]
        with (folder / "log").open("w") as log, subprocess.Popen(["prometheus", *words], stderr=log) as process:

            def answers(expression: str) -> list[Any]:
                url = f"http://{there}/api/v1/query?{urlencode({'query': expression})}"
                with urllib.request.urlopen(url, timeout=30) as answer:  # HTTPError: it cannot be parsed
                    found: list[Any] = json.load(answer)["data"]["result"]
                return found

            def is_ready() -> bool:
                with suppress(URLError):
                    return len(answers("count_over_time(up[1m]) >= 3")) == len(texts)
                return False

            try:
                assert within(is_ready), (folder / "log").read_text()
                yield answers
            finally:
                process.terminate()
                server.shutdown()


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")
def test_prometheus_answers_each_expression(
    texts_of_stores: list[str], texts_of_brokers: list[str], tmp_path: Path
) -> None:
    with prometheus([*texts_of_stores, *texts_of_brokers], tmp_path) as answers:
        empty = []
        for board in BOARDS.values():
            for panel in panels(board):
                for target in panel["targets"]:
                    asked = re.sub(r"\$(cluster|node)", ".*", target["expr"]).replace("$__rate_interval", "10s")
                    empty += [] if answers(asked) else [panel["title"]]
        assert empty == ["Queues whose committed offset is outside"]  # as in no store of these
        [unread] = answers("sum(flintmq_retention_unread_messages)")
        assert int(unread["value"][1]) > 0


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_has_nothing_to_say(texts_of_stores: list[str], texts_of_brokers: list[str]) -> None:
    for text in (*texts_of_stores, *texts_of_brokers, "no_type 1\nno_type 1\n"):
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
        said = done.stdout + done.stderr
        assert bool(said or done.returncode) == text.startswith("no_type"), said
