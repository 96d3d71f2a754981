"""`keyfold archive-classes`: write a class archive that makes Spark start faster."""

import os
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkContext

from keyfold.cli.options import AsJson
from keyfold.cli.terminal import failures, report
from keyfold.cli.warm_up import warm_up
from keyfold.errors import KeyfoldError
from keyfold.session import SparkSettings, build_session
from keyfold.session.class_archive import class_archive, written_to
from keyfold.session.gateway import java_text
from keyfold.session.settings import JAVA_OPTIONS


def archive_classes(as_json: AsJson = False) -> None:
    """Write a Java archive of Spark's classes, with which Spark starts in about half the time.

    The archive takes about 180 MB beside the installed packages. It fits this Java and this Spark only: write it again after
    an upgrade of either. Java ignores an archive that does not fit.
    """
    with failures():
        archive = class_archive(java_text())
        try:
            archive.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise KeyfoldError(
                f"{archive.parent} cannot be written ({error.strerror}): run this as the user that installed Keyfold"
            ) from None
        # Written to a temporary file first: a Java that starts meanwhile must not read half an archive.
        aside = archive.with_suffix(f".{os.getpid()}")
        # Java uses an archive only while the jars that it was written from are there: not those in a session's scratch folder.
        os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
        try:
            conf = {"spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} {written_to(aside)}"}
            spark = build_session(SparkSettings(master="local[2]", conf=conf))
            warm_up(spark)
            spark.stop()
            _end_java()
            if not aside.exists():
                raise KeyfoldError("Java ended and wrote no archive: check that the disk has 200 MB of free space")
            # Readable by every user of these packages: it contains Spark's classes and no data.
            archive.parent.chmod(0o755)
            aside.chmod(0o644)
            aside.replace(archive)
        finally:
            aside.unlink(missing_ok=True)
        size = archive.stat().st_size
        report({"archive": str(archive), "bytes": size}, as_json, f"wrote {archive}, {size / 1e6:.0f} MB")


def _end_java() -> None:
    """Stop Java, which writes the archive when it exits, and wait until it has exited."""
    gateway: Any = SparkContext._gateway
    java = gateway.proc
    gateway.shutdown()
    # PySpark's Java process runs until its standard input is closed.
    java.stdin.close()
    java.wait()
