import re
from pathlib import Path

import pytest

from flintmq.config.keys import StoreConfig, from_settings
from flintmq.config.s3 import S3_KEYS, S3Options
from flintmq.errors import ConfigError


def test_keys_go_beside_rocketmqs():
    config = from_settings(["s3.endpoint=https://minio:9000/", "maxIndexNum=400", "s3.timeout=7", "s3.anonymous=TRUE"])
    assert config.s3 == S3Options("https://minio:9000", anonymous=True, timeout_s=7)
    assert config.given == {"maxIndexNum"}
    assert config.with_keys({"s3.region": "eu-west-1"}).s3.region == "eu-west-1"
    assert StoreConfig().s3 == S3Options()


def test_keys_of_other_kinds():
    keys = {
        "gs.endpoint": "http://127.0.0.1:4443/",
        "gs.anonymous": "true",
        "azure.endpoint": "http://127.0.0.1:10000/devstoreaccount1",
        "azure.anonymous": "false",
        "hdfs.http": "http://a:9870/, https://b:9871",
        "hdfs.user": "hdfs",
        "oss.endpoint": "https://s3.oss-cn-hangzhou.aliyuncs.com",
    }
    assert StoreConfig.from_keys(keys).s3 == S3Options(
        gs_endpoint="http://127.0.0.1:4443",
        gs_anonymous=True,
        azure_endpoint="http://127.0.0.1:10000/devstoreaccount1",
        hdfs_http="http://a:9870,https://b:9871",
        hdfs_user="hdfs",
        oss_endpoint="https://s3.oss-cn-hangzhou.aliyuncs.com",
    )


@pytest.mark.parametrize(
    "key, value",
    [
        ("s3.endpoint", "minio:9000"),
        ("s3.endpoint", "http://minio/path"),
        ("s3.endpoint", "ftp://minio"),
        ("s3.region", "a b"),
        ("s3.region", ""),
        ("s3.anonymous", "yes"),
        ("s3.timeout", "0"),
        ("s3.timeout", "601"),
        ("s3.attempts", "21"),
        ("s3.attempts", "1.5"),
        ("s3.endpoint", "http://user:word@minio"),
        ("s3.endpoint", "http://minio:port"),
        ("gs.endpoint", "http://h/path"),
        ("gs.anonymous", "1"),
        ("azure.endpoint", "127.0.0.1:10000/devstoreaccount1"),
        ("azure.endpoint", "http://h/a?sig=x"),
        ("hdfs.http", "http://a:9870,b:9870"),
        ("hdfs.user", "a b"),
        ("oss.endpoint", "oss-cn-hangzhou.aliyuncs.com"),
    ],
)
def test_impossible_values(key, value):
    with pytest.raises(ConfigError, match=f"^{key}: "):
        StoreConfig.from_keys({key: value})


def test_unknown_keys_are_named_with_those_that_there_are():
    with pytest.raises(ConfigError, match=r"'s3.access.key' is not a key of object storage; these are: s3.endpoint, "):
        StoreConfig.from_keys({"s3.access.key": "x"})
    with pytest.raises(ConfigError, match="^'azure.key' is not a key of object storage; "):
        StoreConfig.from_keys({"azure.key": "x"})
    assert len(S3_KEYS) == 12
    assert not any(re.search("secret|password|token|key$", name) for name in S3_KEYS)


def test_the_page_names_each_key():
    page = Path(__file__).parents[2] / "docs" / "operations" / "object-storage.md"
    rows = re.findall(r"^\| `([a-z0-9]+\.[a-z]+)` \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == list(S3_KEYS)


def test_the_environment_stands_for_what_is_left_open():
    environment = {"AWS_ENDPOINT_URL": "http://a:1", "AWS_ENDPOINT_URL_S3": "http://b:2/", "AWS_DEFAULT_REGION": "r"}
    assert S3Options().with_environment(environment) == S3Options("http://b:2", "r")
    assert S3Options("http://c:3", "q").with_environment(environment) == S3Options("http://c:3", "q")
    assert S3Options().with_environment({"AWS_REGION": ""}) == S3Options()
    others = {
        "STORAGE_EMULATOR_HOST": "127.0.0.1:4443",
        "AZURE_STORAGE_ENDPOINT": "http://h:1/a",
        "HADOOP_USER_NAME": "u",
        "OSS_ENDPOINT": "http://o:1",
    }
    assert S3Options().with_environment(others) == S3Options(
        gs_endpoint="http://127.0.0.1:4443", azure_endpoint="http://h:1/a", hdfs_user="u", oss_endpoint="http://o:1"
    )
    with pytest.raises(ConfigError, match="s3.endpoint"):
        S3Options().with_environment({"AWS_ENDPOINT_URL": "nothing"})
