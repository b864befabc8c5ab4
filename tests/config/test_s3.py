"""The keys of object storage."""

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
    ],
)
def test_impossible_values(key, value):
    with pytest.raises(ConfigError, match=f"^{key}: "):
        StoreConfig.from_keys({key: value})


def test_unknown_keys_are_named_with_those_that_there_are():
    with pytest.raises(ConfigError, match=r"'s3.access.key' is not a key of object storage; these are: s3.endpoint, "):
        StoreConfig.from_keys({"s3.access.key": "x"})
    assert len(S3_KEYS) == 5


def test_the_environment_stands_for_what_is_left_open():
    environment = {"AWS_ENDPOINT_URL": "http://a:1", "AWS_ENDPOINT_URL_S3": "http://b:2/", "AWS_DEFAULT_REGION": "r"}
    assert S3Options().with_environment(environment) == S3Options("http://b:2", "r")
    assert S3Options("http://c:3", "q").with_environment(environment) == S3Options("http://c:3", "q")
    assert S3Options().with_environment({"AWS_REGION": ""}) == S3Options()
    with pytest.raises(ConfigError, match="s3.endpoint"):
        S3Options().with_environment({"AWS_ENDPOINT_URL": "nothing"})
