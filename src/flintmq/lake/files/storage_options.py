"""Names the options of object storage for deltalake and PyIceberg.

These have clients of their own. Secrets are no options: both libraries find them in the environment, as the tools of a
cloud do.
"""

from __future__ import annotations

import os

from flintmq.config.s3 import S3Options


def storage_options(url: str, options: S3Options) -> dict[str, str]:
    """Return the options for deltalake. A commit is a put of a name that must not exist."""
    patience = {"allow_http": "true", "timeout": f"{options.timeout_s}s", "max_retries": str(options.attempts - 1)}
    return patience | _OPTIONS[url.partition("://")[0]](options)


def _s3(options: S3Options) -> dict[str, str]:
    known = {"aws_conditional_put": "etag"}
    if options.endpoint:
        known["aws_endpoint"] = options.endpoint
    if options.region or options.endpoint:
        known["aws_region"] = options.region or "us-east-1"
    return known | ({"aws_skip_signature": "true"} if options.anonymous else {})


def _oss(options: S3Options) -> dict[str, str]:
    keys = {"aws_access_key_id": "OSS_ACCESS_KEY_ID", "aws_secret_access_key": "OSS_ACCESS_KEY_SECRET"}
    own = {name: os.environ[variable] for name, variable in keys.items() if variable in os.environ}
    return {"aws_conditional_put": "etag", "aws_endpoint": options.oss_endpoint} | own


def _gs(options: S3Options) -> dict[str, str]:
    known = {"google_base_url": options.gs_endpoint} if options.gs_endpoint else {}
    anonymous = options.gs_anonymous or bool(os.environ.get("STORAGE_EMULATOR_HOST"))  # an emulator knows no keys
    return known | ({"google_skip_signature": "true"} if anonymous else {})


def _azure(options: S3Options) -> dict[str, str]:
    known = {"azure_endpoint": options.azure_endpoint} if options.azure_endpoint else {}
    return known | ({"azure_skip_signature": "true"} if options.azure_anonymous else {})


def _hdfs(options: S3Options) -> dict[str, str]:
    return {}


_OPTIONS = {"s3": _s3, "oss": _oss, "gs": _gs, "abfs": _azure, "hdfs": _hdfs}


def file_io_properties(options: S3Options) -> dict[str, str]:
    return {
        **({"s3.endpoint": options.endpoint} if options.endpoint else {}),
        **({"s3.region": options.region or "us-east-1"} if options.region or options.endpoint else {}),
        **({"s3.anonymous": "true"} if options.anonymous else {}),
        **({"gcs.service.host": options.gs_endpoint} if options.gs_endpoint else {}),
        "s3.request-timeout": str(options.timeout_s),
    }
