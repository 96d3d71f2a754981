"""The Java packages that Spark is started with, the excluded dependencies, and Hadoop's settings for buckets."""

import os
from collections.abc import Mapping

DELTA_PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"

S3_PACKAGES = (
    # The version of the Hadoop that Spark ships.
    "org.apache.hadoop:hadoop-aws:3.5.0",
    *(f"software.amazon.awssdk:{part}:2.35.4" for part in ("s3", "s3-transfer-manager", "sts", "apache-client")),
)
"""The packages with which Java reaches a bucket (19 MB), for sessions whose lakehouse directory is in one."""

SHIPPED_WITH_SPARK = (
    "at.yawk.lz4:lz4-java",
    "com.fasterxml.jackson.core:jackson-annotations",
    "com.fasterxml.jackson.core:jackson-core",
    "com.fasterxml.jackson.core:jackson-databind",
    "com.fasterxml.jackson.datatype:jackson-datatype-jsr310",
    "com.github.luben:zstd-jni",
    "com.google.code.findbugs:jsr305",
    "commons-codec:commons-codec",
    "commons-logging:commons-logging",
    "commons-pool:commons-pool",
    "io.airlift:aircompressor",
    "io.netty:netty-buffer",
    "io.netty:netty-codec",
    "io.netty:netty-codec-http",
    "io.netty:netty-codec-http2",
    "io.netty:netty-common",
    "io.netty:netty-handler",
    "io.netty:netty-resolver",
    "io.netty:netty-transport",
    "io.netty:netty-transport-classes-epoll",
    "io.netty:netty-transport-native-unix-common",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.apache.httpcomponents:httpclient",
    "org.apache.httpcomponents:httpcore",
    "org.apache.logging.log4j:log4j-api",
    "org.apache.logging.log4j:log4j-core",
    "org.apache.logging.log4j:log4j-slf4j2-impl",
    "org.apache.parquet:parquet-column",
    "org.apache.parquet:parquet-common",
    "org.apache.parquet:parquet-encoding",
    "org.apache.parquet:parquet-format-structures",
    "org.apache.parquet:parquet-hadoop",
    "org.apache.parquet:parquet-jackson",
    "org.locationtech.jts:jts-core",
    "org.lz4:lz4-java",
    "org.roaringbitmap:RoaringBitmap",
    "org.roaringbitmap:shims",
    "org.scala-lang:scala-library",
    "org.slf4j:slf4j-api",
    "org.xerial.snappy:snappy-java",
)
"""Excluded dependencies: Spark ships its own versions, and resolvers choose different ones."""

LEFT_OUT = (
    *SHIPPED_WITH_SPARK,
    # A jar of 600 MB with all of Amazon's services. `S3_PACKAGES` has the parts that are used.
    "software.amazon.awssdk:bundle",
)
"""All excluded dependencies."""

_REGION = "us-east-1"
"""The default region. Stores other than Amazon's need some region and ignore it."""


def s3a_conf(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return Spark settings for the endpoint of buckets, from the AWS_… variables that Delta's library uses too.

    Secrets are not among them: Java reads AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN from the environment. As
    settings, they would show in Spark's web pages and errors.

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
