"""Names the options of object storage for deltalake and for PyIceberg, which have clients of their own.

Secrets are no options: both libraries find them in the environment, as the AWS tools do.
"""

from __future__ import annotations

from flintmq.config.s3 import S3Options


def storage_options(s3: S3Options) -> dict[str, str]:
    """Return the options for deltalake. A commit is a put of a name that must not exist."""
    return {
        "aws_conditional_put": "etag",
        "allow_http": "true",
        "timeout": f"{s3.timeout_s}s",
        **({"aws_endpoint": s3.endpoint} if s3.endpoint else {}),
        **({"aws_region": s3.region or "us-east-1"} if s3.region or s3.endpoint else {}),
        **({"aws_skip_signature": "true"} if s3.anonymous else {}),
    }


def file_io_properties(s3: S3Options) -> dict[str, str]:
    """Return the properties of a catalog for PyIceberg's files."""
    return {
        **({"s3.endpoint": s3.endpoint} if s3.endpoint else {}),
        **({"s3.region": s3.region or "us-east-1"} if s3.region or s3.endpoint else {}),
        **({"s3.anonymous": "true"} if s3.anonymous else {}),
        "s3.request-timeout": str(s3.timeout_s),
    }
