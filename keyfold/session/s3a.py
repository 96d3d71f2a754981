"""Hadoop's settings for buckets, taken from the same AWS_… variables of the environment as Delta's own library takes.

Secrets are not among them: Java reads AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN by itself, so that
they never are settings, which Spark's pages and errors would tell.
"""

import os
from collections.abc import Mapping

_REGION = "us-east-1"
"""Servers that are not Amazon's want one and heed none."""


def s3a_conf(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What Spark is told of buckets: where they are, and how it writes there.

    Example:
        >>> s3a_conf({"AWS_ENDPOINT_URL": "http://127.0.0.1:9000"})["spark.hadoop.fs.s3a.connection.ssl.enabled"]
        'false'
    """
    # By default what is uploaded waits in files below /tmp, and it is people's data.
    conf = {"spark.hadoop.fs.s3a.fast.upload.buffer": "bytebuffer"}
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    if endpoint:
        conf |= {
            "spark.hadoop.fs.s3a.endpoint": endpoint,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": str(not endpoint.startswith("http://")).lower(),
        }
    if region or endpoint:
        conf["spark.hadoop.fs.s3a.endpoint.region"] = region or _REGION
    return conf
