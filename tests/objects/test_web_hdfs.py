"""WebHDFS where servers fail: a standby, a lost answer, bytes that end too early. Real ones: test_bucket.py."""

import json
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from flintmq.config.s3 import S3Options
from flintmq.errors import StoreAccessError
from flintmq.objects.web_hdfs import WebHdfs
from tests.support.http_answers import answering


def node_of(answer):
    """A server; `answer(method, path, query, body)` gives status, headers and bytes, or None: the line breaks."""

    def told(asked):
        parts = urlsplit(asked.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        return answer(asked.method, unquote(parts.path).removeprefix("/webhdfs/v1/"), query, asked.body)

    return answering(told)


def refusal(status, kind, message="no"):
    return status, {}, json.dumps({"RemoteException": {"exception": kind, "message": message}}).encode()


def status_of(size):
    return json.dumps({"FileStatus": {"type": "FILE", "length": size, "modificationTime": 1}}).encode()


def test_a_standby_is_passed_over():
    asked = []

    def active(method, path, query, body):
        asked.append((method, path, query["op"], query["user.name"]))
        return 200, {}, status_of(7)

    with node_of(lambda *_: refusal(403, "StandbyException")) as standby, node_of(active) as other:
        bucket = WebHdfs("cluster", S3Options(hdfs_http=f"{standby},{other}", hdfs_user="shop", attempts=1))
        assert bucket.find("库存/a b").size == 7
    assert asked == [("GET", "库存/a b", "GETFILESTATUS", "shop")]


class NameNode:
    """Names and bytes; the answer to the first rename is lost after, or before, it was done."""

    def __init__(self, done):
        self.files, self.renames, self.done = {}, 0, done

    def __call__(self, method, path, query, body):
        operation = query["op"]
        if operation == "CREATE":
            self.files[path] = body
            return 201, {}, b""
        if operation == "GETFILESTATUS":
            return (
                (200, {}, status_of(len(self.files[path])))
                if path in self.files
                else refusal(404, "FileNotFoundException")
            )
        if operation == "DELETE":
            return 200, {}, b'{"boolean": true}'
        assert operation == "RENAME"
        self.renames += 1
        if self.renames == 1 and not self.done:
            return None
        target = query["destination"].lstrip("/")
        if path not in self.files:
            return refusal(404, "FileNotFoundException")
        if target in self.files and query["renameoptions"] == "NONE":
            return refusal(403, "FileAlreadyExistsException")
        self.files[target] = self.files.pop(path)
        return None if self.renames == 1 else (200, {}, b"")


@pytest.mark.parametrize("done", [True, False])
def test_of_a_lost_answer_the_outcome_is_found(done):
    node = NameNode(done)
    with node_of(node) as url:
        bucket = WebHdfs("h", S3Options(hdfs_http=url))
        assert bucket.put_new("a/b", b"") is True
        assert bucket.put_new("a/b", b"") is False
    assert node.renames == 3 and "a/b" in node.files


def test_bytes_that_end_too_early_are_asked_for_again():
    asked = []

    def node(method, path, query, body):
        asked.append(query)
        if len(asked) == 1:
            return 200, {"Content-Length": "5"}, b"012"
        return 200, {}, b"01234"

    with node_of(node) as url:
        assert WebHdfs("h", S3Options(hdfs_http=url)).read("k", 10, 15) == b"01234"
    assert [(query["offset"], query["length"]) for query in asked] == [("10", "5")] * 2


@pytest.mark.parametrize(
    "answer, told",
    [
        (refusal(403, "AccessControlException", "Permission denied:\nuser=x"), "Permission denied: user=x; check hdfs"),
        (
            refusal(403, "AccessControlException", "no\n\tat a.Checker.check(C.java:1)"),
            "AccessControlException: no; check",
        ),
        ((404, {}, b"<html>\n<h1>nothing</h1>"), "HTTP status 404: '<html>"),
        ((200, {}, b"not json"), "is no answer of WebHDFS; check hdfs"),
    ],
)
def test_refusals_are_one_line(answer, told):
    with node_of(lambda *_: answer) as url, pytest.raises(StoreAccessError) as caught:
        WebHdfs("h:8020", S3Options(hdfs_http=url, attempts=1)).find("a/b")
    assert str(caught.value).startswith("hdfs://h:8020/a/b: ") and told in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500
