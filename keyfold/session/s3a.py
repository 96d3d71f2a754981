"""Hadoop's settings for buckets, from the AWS_… environment variables that Delta's library uses too.

Secrets are not among them: Java reads AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN from the environment. As
settings, they would show in Spark's web pages and errors.
"""

import os
from collections.abc import Mapping

_REGION = "us-east-1"
"""The default region. Stores other than Amazon's need some region and ignore it."""


def s3a_conf(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return Spark settings for the endpoint of buckets, and for writing to them.

    Example:
        >>> s3a_conf({"AWS_ENDPOINT_URL": "http://127.0.0.1:9000"})["spark.hadoop.fs.s3a.connection.ssl.enabled"]
        'false'
    """
    # By default Hadoop buffers uploads, which hold users' data, in files below /tmp.
    conf = {"spark.hadoop.fs.s3a.fast.upload.buffer": "bytebuffer"}
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    if endpoint:
        conf |= {
            "spark.hadoop.fs.s3a.endpoint": endpoint,
            # Other stores than Amazon's seldom have a host name for each bucket.
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": str(not endpoint.startswith("http://")).lower(),
        }
    if region or endpoint:
        conf["spark.hadoop.fs.s3a.endpoint.region"] = region or _REGION
    return conf
