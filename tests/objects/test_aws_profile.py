"""Credentials in ~/.aws and the region of a bucket, as Amazon's own tools find them."""

import os
import sys
from datetime import UTC, datetime, timedelta

import pytest

from flintmq.config.s3 import S3Options
from flintmq.errors import MissingExtraError, StoreAccessError
from flintmq.objects.aws_profile import profile, provider, region_of
from flintmq.objects.opening import bucket_of
from tests.support import object_server
from tests.support.http_answers import answering

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

[profile process]
credential_process = /bin/false
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A directory with both files, which the environment names, and nothing else that gives keys."""
    (tmp_path / "credentials").write_text(CREDENTIALS)
    (tmp_path / "config").write_text(CONFIG)
    for name in os.environ:
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    return tmp_path


@pytest.fixture
def boto3():
    return pytest.importorskip("boto3", reason="boto3 is not installed")


def test_a_profile(files, boto3, monkeypatch):
    assert profile()["region"] == "eu-central-1"
    assert profile()["aws_secret_access_key"] == "default-secret%with/signs+"
    monkeypatch.setenv("AWS_PROFILE", "work")
    assert (profile()["region"], profile()["aws_access_key_id"]) == ("ap-northeast-1", "AKIAWORK")


def test_no_profile(files, boto3, monkeypatch):
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(files / "none"))
    assert profile() == {} and provider() is None
    (files / "config").write_text("[default]\nregion = eu-central-1\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(files / "config"))
    assert provider() is None, "a region gives no keys: obstore asks for the role of the machine"


def test_keys_are_read_anew(files, boto3, monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "work")
    keys = provider()
    first = keys()
    assert (first["access_key_id"], first["secret_access_key"], first["token"]) == (
        "AKIAWORK",
        "work-secret",
        "work-token",
    )
    assert timedelta(minutes=4) < first["expires_at"] - datetime.now(UTC) <= timedelta(minutes=5)
    (files / "credentials").write_text(CREDENTIALS.replace("work-secret", "renewed"))
    assert keys()["secret_access_key"] == "renewed"


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE"])
def test_the_environment_comes_first(files, monkeypatch, name):
    monkeypatch.setenv(name, "x")
    assert provider() is None


def test_a_profile_that_is_not_there(files, boto3, monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "other")
    with pytest.raises(StoreAccessError, match=r"^boto3: .*\(other\) could not be found; check AWS_PROFILE"):
        profile()


def test_a_file_that_is_none_shows_no_secret(files, boto3):
    (files / "credentials").write_text("aws_secret_access_key = very-secret\n")
    with pytest.raises(StoreAccessError, match="/credentials; check AWS_PROFILE and the files") as caught:
        profile()
    assert "very-secret" not in str(caught.value) and "\n" not in str(caught.value)


def test_a_profile_with_a_role_is_renewed_by_boto3(files, boto3, monkeypatch):
    from botocore.credentials import RefreshableCredentials

    monkeypatch.setenv("AWS_PROFILE", "role")
    assert isinstance(provider().credentials, RefreshableCredentials)


def test_a_profile_that_gives_no_keys(files, boto3, monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "process")
    with pytest.raises(StoreAccessError, match="^boto3: .*; log in with this profile of ~/.aws again$") as caught:
        provider()
    assert "\n" not in str(caught.value)


def test_a_profile_without_boto3_names_the_extra(files, monkeypatch):
    for name in ("boto3", "botocore", "botocore.session", "botocore.credentials"):
        monkeypatch.setitem(sys.modules, name, None)
    assert profile() == {}
    with pytest.raises(MissingExtraError, match=r"pip install 'flintmq\[aws\]'"):
        provider()
    (files / "credentials").unlink()
    assert provider() is None, "nobody asked for a profile"
    monkeypatch.setenv("AWS_PROFILE", "work")
    with pytest.raises(MissingExtraError, match=r"pip install 'flintmq\[aws\]'"):
        bucket_of("s3://stores", S3Options("http://127.0.0.1:9"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    assert provider() is None, "keys of the environment come first"


@pytest.mark.parametrize(("line", "asks"), [("role_arn = arn:aws:a", True), ("region = eu-central-1", False)])
def test_a_config_without_boto3_is_refused_if_it_gives_keys(files, monkeypatch, line, asks):
    """Its default profile was passed over without a word, and the server then refused a request without keys."""
    for name in ("boto3", "botocore", "botocore.session", "botocore.credentials"):
        monkeypatch.setitem(sys.modules, name, None)
    (files / "only").write_text(f"[default]\n{line}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(files / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(files / "only"))
    if asks:
        with pytest.raises(MissingExtraError, match=r"pip install 'flintmq\[aws\]'"):
            provider()
    else:
        assert provider() is None


def test_keys_of_a_profile_open_a_bucket(tmp_path, boto3, objects, monkeypatch):
    text = f"[shop]\naws_access_key_id = {object_server.KEYS['AWS_ACCESS_KEY_ID']}\naws_secret_access_key = test\n"
    (tmp_path / "credentials").write_text(text)
    for name in object_server.KEYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_PROFILE", "shop")
    bucket, _ = bucket_of("s3://stores", S3Options(objects.endpoint))
    bucket.put("of-a-profile", b"1")
    assert bucket.read("of-a-profile") == b"1"


@pytest.mark.parametrize("status", [200, 301, 403])
def test_the_region_of_a_bucket(status):
    asked, headers = [], {"x-amz-bucket-region": "eu-west-3", "Location": "http://127.0.0.1:9/"}
    with answering(lambda request: asked.append(request[:2]) or (status, headers, b"")) as url:
        assert region_of("my.bucket", 5, url) == "eu-west-3"
        assert asked == [("HEAD", "/my.bucket")]


def test_a_region_that_nobody_knows():
    with (
        answering(lambda _: (404, {}, b"")) as url,
        pytest.raises(StoreAccessError, match="there is no such bucket; give s3.region$"),
    ):
        region_of("b", 5, url)
    with pytest.raises(
        StoreAccessError, match="^s3://b: http://127.0.0.1:9 was asked for its region: .*give s3.region$"
    ):
        region_of("b", 5, "http://127.0.0.1:9")
