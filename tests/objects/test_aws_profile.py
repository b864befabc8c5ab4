"""Credentials in ~/.aws and the region of a bucket, as Amazon's own tools find them."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from flintmq.config.s3 import S3Options
from flintmq.errors import StoreAccessError
from flintmq.objects.aws_profile import ProfileKeys, profile, provider, region_of
from flintmq.objects.opening import bucket_of
from tests.support import object_server

CREDENTIALS = """
[default]
aws_access_key_id = AKIADEFAULT
aws_secret_access_key = default-secret%with/signs+

[work]
aws_access_key_id=AKIAWORK
aws_secret_access_key=work-secret
aws_session_token=work-token
"""
CONFIG = """
[default]
region = eu-central-1

[profile work]
region = ap-northeast-1
s3 =
    max_concurrent_requests = 20

[profile role]
role_arn = arn:aws:iam::123456789012:role/reader
source_profile = default
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "credentials").write_text(CREDENTIALS)
    (tmp_path / "config").write_text(CONFIG)
    return {
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
    }


def test_a_profile(files):
    assert profile(files)["region"] == "eu-central-1"
    assert profile(files)["aws_secret_access_key"] == "default-secret%with/signs+"
    work = profile({**files, "AWS_PROFILE": "work"})
    assert (work["region"], work["aws_access_key_id"]) == ("ap-northeast-1", "AKIAWORK")
    assert profile({name: path + "-none" for name, path in files.items()}) == {}


def test_keys_are_read_anew(files, tmp_path):
    keys = provider({**files, "AWS_PROFILE": "work"})
    first = keys()
    assert isinstance(keys, ProfileKeys)
    assert (first["access_key_id"], first["secret_access_key"], first["token"]) == (
        "AKIAWORK",
        "work-secret",
        "work-token",
    )
    (tmp_path / "credentials").write_text(CREDENTIALS.replace("work-secret", "renewed"))
    assert keys()["secret_access_key"] == "renewed"


def test_the_environment_comes_first(files):
    assert provider({**files, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}) is None
    assert provider({**files, "AWS_WEB_IDENTITY_TOKEN_FILE": "/t", "AWS_ROLE_ARN": "a"}) is None
    assert provider({name: path + "-none" for name, path in files.items()}) is None


def test_a_profile_that_is_not_there(files):
    with pytest.raises(StoreAccessError, match="^AWS_PROFILE=other: no such profile in ~/.aws; check its name$"):
        profile({**files, "AWS_PROFILE": "other"})


def test_a_file_that_is_none_shows_no_secret(files, tmp_path):
    (tmp_path / "credentials").write_text("aws_secret_access_key = very-secret\n")
    with pytest.raises(StoreAccessError, match="credentials: MissingSectionHeaderError; ") as caught:
        profile(files)
    assert "very-secret" not in str(caught.value) and "\n" not in str(caught.value)


def test_a_profile_with_a_role_is_left_to_boto3(files, monkeypatch):
    boto3 = pytest.importorskip("boto3", reason="boto3 is not installed")
    for name, value in {**files, "AWS_PROFILE": "role"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    assert type(provider()).__module__ == "obstore.auth.boto3" and boto3


def test_keys_of_a_profile_open_a_bucket(tmp_path, objects, monkeypatch):
    text = f"[shop]\naws_access_key_id = {object_server.KEYS['AWS_ACCESS_KEY_ID']}\naws_secret_access_key = test\n"
    (tmp_path / "credentials").write_text(text)
    for name in object_server.KEYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_PROFILE", "shop")
    bucket, _ = bucket_of("s3://stores", S3Options(objects.endpoint))
    bucket.put("of-a-profile", b"1")
    assert bucket.read("of-a-profile") == b"1"


@contextmanager
def amazon(status, headers):
    """A server that answers HEAD, and notes what was asked."""
    asked = []

    class Answer(BaseHTTPRequestHandler):
        def do_HEAD(self):
            asked.append(self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_):
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("status", [200, 301, 403])
def test_the_region_of_a_bucket(status):
    with amazon(status, {"x-amz-bucket-region": "eu-west-3", "Location": "http://127.0.0.1:9/"}) as (url, asked):
        assert region_of("my.bucket", 5, url) == "eu-west-3"
        assert asked == ["/my.bucket"]


def test_a_region_that_nobody_knows():
    with amazon(404, {}) as (url, _), pytest.raises(StoreAccessError, match="there is no such bucket; give s3.region$"):
        region_of("b", 5, url)
    with pytest.raises(
        StoreAccessError, match="^s3://b: http://127.0.0.1:9 was asked for its region: .*give s3.region$"
    ):
        region_of("b", 5, "http://127.0.0.1:9")
