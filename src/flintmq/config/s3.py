"""Declares the keys of object storage: `s3.*`, and those of the other kinds.

They are given in the same places as RocketMQ's own keys (`--set`, Spark options, `set=`). Secrets are not keys: each
process reads them where the tools of a cloud do (the environment, ~/.aws, the role of the machine), so the plan of a
Spark job never contains one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from flintmq.config.text import short
from flintmq.errors import ConfigError

S3_KEYS = {
    "s3.endpoint": "URL of the server, where it is not Amazon's; else AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL",
    "s3.region": "region of the bucket; else AWS_REGION or AWS_DEFAULT_REGION",
    "s3.anonymous": "true: ask without keys, for public buckets",
    "s3.timeout": "seconds after which a request that brings nothing is given up: 1 to 600; for all kinds",
    "s3.attempts": "how often a request is tried: 1 to 20; for all kinds",
    "gs.endpoint": "URL of the server, where it is not Google's; else STORAGE_EMULATOR_HOST",
    "gs.anonymous": "true: ask without keys, for public buckets",
    "azure.endpoint": "URL of the account, where its host is not in the URL's; else AZURE_STORAGE_ENDPOINT",
    "azure.anonymous": "true: ask without keys, for public containers",
    "hdfs.http": "URL of the name node's WebHDFS, of several with commas between; else http://HOST:9870",
    "hdfs.user": "who asks, where the cluster believes it; else HADOOP_USER_NAME, or the user of this process",
    "oss.endpoint": "URL of S3's interface there, such as https://s3.oss-cn-hangzhou.aliyuncs.com; else OSS_ENDPOINT",
}
"""Name -> meaning."""

KINDS = tuple(dict.fromkeys(key.partition(".")[0] for key in S3_KEYS))

_ENVIRONMENT = {
    "s3.endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "s3.region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "gs.endpoint": ("STORAGE_EMULATOR_HOST",),
    "azure.endpoint": ("AZURE_STORAGE_ENDPOINT",),
    "hdfs.user": ("HADOOP_USER_NAME",),
    "oss.endpoint": ("OSS_ENDPOINT",),
}
_FIELDS = {
    "s3.timeout": "timeout_s",
    **{key: key.removeprefix("s3.").replace(".", "_") for key in S3_KEYS if key != "s3.timeout"},
}
_WITH_PATH = ("azure.endpoint", "hdfs.http")
_EXAMPLES = {
    "azure.endpoint": "http://127.0.0.1:10000/devstoreaccount1",
    "hdfs.http": "http://namenode:9870",
    "oss.endpoint": "https://s3.oss-cn-hangzhou.aliyuncs.com",
}


@dataclass(frozen=True)
class S3Options:
    """The values of the keys of object storage; those without another prefix are of S3.

    `azure_endpoint`: URL of the account without a trailing slash; empty for the one that the account's name gives.
    """

    endpoint: str = ""  # URL without a trailing slash; empty for Amazon's own
    region: str = ""
    anonymous: bool = False  # send requests without credentials
    timeout_s: int = 20  # seconds without a byte after which an attempt has failed, of each kind of storage
    attempts: int = 4  # attempts per request, of each kind of storage
    gs_endpoint: str = ""  # URL without a trailing slash; empty for Google's own
    gs_anonymous: bool = False  # send requests without credentials
    azure_endpoint: str = ""
    azure_anonymous: bool = False  # send requests without credentials
    hdfs_http: str = ""  # URLs of WebHDFS, with commas between them; empty for the usual port of the host
    hdfs_user: str = ""
    oss_endpoint: str = ""  # URL without a trailing slash

    def with_key(self, key: str, value: object) -> S3Options:
        return replace(self, **{_FIELDS[key]: _value(key, str(value).strip())})  # type: ignore[arg-type]

    def with_environment(self, environment: Mapping[str, str] = os.environ) -> S3Options:
        """Return a copy that takes from the environment what was not given.

        The driver calls this, so workers need not have the same environment.
        """
        options = self
        for key, variables in _ENVIRONMENT.items():
            found = next((environment[variable] for variable in variables if environment.get(variable)), None)
            if not getattr(options, _FIELDS[key]) and found is not None:
                if key == "gs.endpoint" and "://" not in found:
                    found = f"http://{found}"  # Google's clients take HOST:PORT too
                options = options.with_key(key, found)
        return options


def _value(key: str, text: str) -> str | bool | int:
    name = key.partition(".")[2]
    if name in ("endpoint", "http"):
        urls = [url.strip().rstrip("/") for url in text.split(",")] if key == "hdfs.http" else [text.rstrip("/")]
        if not all(_is_server(url, with_path=key in _WITH_PATH) for url in urls):
            example = _EXAMPLES.get(key, "http://127.0.0.1:9000")
            raise ConfigError(f"{key}: {short(text)} is no URL of a server, such as {example}")
        return ",".join(urls)
    if name == "region":
        if not re.fullmatch(r"[A-Za-z0-9-]{1,64}", text):
            raise ConfigError(f"{key}: {short(text)} is not a region, such as eu-central-1")
        return text
    if name == "user":
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9._$-]{0,63}", text):
            raise ConfigError(f"{key}: {short(text)} is not the name of a user, such as hdfs")
        return text
    if name == "anonymous":
        if text.lower() not in ("true", "false"):
            raise ConfigError(f"{key}: {short(text)} is neither true nor false")
        return text.lower() == "true"
    most = 600 if name == "timeout" else 20
    if not re.fullmatch(r"[0-9]{1,4}", text) or not 1 <= int(text) <= most:
        raise ConfigError(f"{key}: {short(text)} is not a whole number from 1 to {most}")
    return int(text)


def _is_server(url: str, *, with_path: bool) -> bool:
    try:
        parts = urlsplit(url)
        return bool(
            parts.scheme in ("http", "https")
            and parts.hostname
            and parts.port != 0
            and "@" not in parts.netloc
            and not (parts.query or parts.fragment)
            and (with_path or parts.path in ("", "/"))
        )
    except ValueError:  # a port that is no number
        return False
