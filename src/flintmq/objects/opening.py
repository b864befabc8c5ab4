"""Opens the bucket of a URL."""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.metadata import version

from flintmq.config.releases import is_older
from flintmq.config.s3 import S3Options
from flintmq.errors import MissingExtraError
from flintmq.objects.bucket import Bucket
from flintmq.objects.web_hdfs import WebHdfs

OLDEST = (0, 10)
"""The first obstore that finds names with characters other than ASCII."""
_SECRETS = ("AWS_", "GOOGLE_", "AZURE_", "OSS_")


def bucket_of(url: str, options: S3Options | None = None) -> tuple[Bucket, str]:
    """Return the bucket of a URL, and the key below it ("" for the bucket itself).

    `options`: how to reach it; the environment supplies missing options.
    """
    kind, _, rest = url.partition("://")
    name, _, key = rest.partition("/")
    # Clients keep the credentials that they found: who sets others in the same process gets another client.
    secrets = hash(tuple(sorted(item for item in os.environ.items() if item[0].startswith(_SECRETS))))
    return _opened(kind, name, (options or S3Options()).with_environment(), secrets), key


@lru_cache(maxsize=32)
def _opened(kind: str, name: str, options: S3Options, _secrets: int) -> Bucket:
    if kind == "hdfs":
        return WebHdfs(name, options)
    try:
        from flintmq.objects.cloud import cloud_bucket
    except ImportError as error:
        raise MissingExtraError(
            f"{kind}://{name}: object storage needs obstore; `pip install 'flintmq[objects]'` brings it"
        ) from error
    if is_older(version("obstore"), OLDEST):
        raise MissingExtraError(
            f"{kind}://{name}: object storage needs obstore 0.10 or later; `pip install 'flintmq[objects]'` brings it "
            f"(here is {version('obstore')})"
        )
    return cloud_bucket(kind, name, options)
