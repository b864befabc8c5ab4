"""Opens the bucket of a URL."""

from __future__ import annotations

from functools import lru_cache

from flintmq.config.s3 import S3Options
from flintmq.errors import MissingExtraError
from flintmq.objects.bucket import Bucket
from flintmq.storage.store_url import PREFIX


def bucket_of(url: str, options: S3Options | None = None) -> tuple[Bucket, str]:
    """Return the bucket of a URL, and the key below it ("" for the bucket itself).

    Args:
        url: in the form of store_url.store_path.
        options: how to reach it; the environment supplies missing options.

    Raises:
        MissingExtraError: obstore is not installed.
    """
    name, _, key = url.removeprefix(PREFIX).partition("/")
    return _opened(name, (options or S3Options()).with_environment()), key


@lru_cache(maxsize=32)
def _opened(name: str, options: S3Options) -> Bucket:
    try:
        from flintmq.objects.cloud import CloudBucket, s3_client
    except ImportError as error:
        raise MissingExtraError(
            f"{PREFIX}{name}: object storage needs obstore; `pip install flintmq[objects]` brings it"
        ) from error
    return CloudBucket(PREFIX + name, s3_client(name, options))
