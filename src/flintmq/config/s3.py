"""Declares the keys `s3.*`, which configure object storage.

They are given in the same places as RocketMQ's own keys (`--set`, Spark options, `set=`). Secrets are not keys: each
process reads them where the AWS tools do (the environment, ~/.aws, the role of the machine), so the plan of a Spark
job never contains one.
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
    "s3.timeout": "seconds after which a request that brings nothing is given up: 1 to 600",
    "s3.attempts": "how often a request is tried: 1 to 20",
}
"""Name -> meaning."""

_ENVIRONMENT = {
    "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
}


@dataclass(frozen=True)
class S3Options:
    """The values of the keys `s3.*`.

    Attributes:
        endpoint: URL without a trailing slash; empty for Amazon's own.
        region: empty if it is to be determined.
        anonymous: send requests without credentials.
        timeout_s: seconds without a byte after which an attempt has failed.
        attempts: attempts per request.
    """

    endpoint: str = ""
    region: str = ""
    anonymous: bool = False
    timeout_s: int = 20
    attempts: int = 4

    def with_key(self, key: str, value: object) -> S3Options:
        """Return a copy with one key set.

        Raises:
            ConfigError: the key cannot have this value.
        """
        text = str(value).strip()
        if key == "s3.endpoint":
            parts = urlsplit(text)
            if parts.scheme not in ("http", "https") or not parts.netloc or parts.path not in ("", "/"):
                raise ConfigError(f"{key}: {short(text)} is no URL of a server, such as http://127.0.0.1:9000")
            return replace(self, endpoint=text.rstrip("/"))
        if key == "s3.region":
            if not re.fullmatch(r"[A-Za-z0-9-]{1,64}", text):
                raise ConfigError(f"{key}: {short(text)} is not a region, such as eu-central-1")
            return replace(self, region=text)
        if key == "s3.anonymous":
            if text.lower() not in ("true", "false"):
                raise ConfigError(f"{key}: {short(text)} is neither true nor false")
            return replace(self, anonymous=text.lower() == "true")
        most = 600 if key == "s3.timeout" else 20
        if not re.fullmatch(r"[0-9]{1,4}", text) or not 1 <= int(text) <= most:
            raise ConfigError(f"{key}: {short(text)} is not a whole number from 1 to {most}")
        return replace(self, timeout_s=int(text)) if key == "s3.timeout" else replace(self, attempts=int(text))

    def with_environment(self, environment: Mapping[str, str] = os.environ) -> S3Options:
        """Return a copy that takes from the environment what was not given.

        The driver calls this, so workers need not have the same environment.

        Raises:
            ConfigError: the environment has an impossible value.
        """
        options = self
        for name, variables in _ENVIRONMENT.items():
            found = next((environment[variable] for variable in variables if environment.get(variable)), None)
            if not getattr(options, name) and found is not None:
                options = options.with_key(f"s3.{name}", found)
        return options
