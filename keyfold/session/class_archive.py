"""Java's archive of Spark's loaded and verified classes (CDS), with which Spark starts in half the time.

`keyfold archive-classes` writes it beside the installed packages, for one version of Java and of Spark. Java checks that it
fits the jars, and ignores it if it does not.

Source: JEP 350, Dynamic CDS Archives.
"""

import os
import sys
from hashlib import sha256
from pathlib import Path

import pyspark

_WRITES = "-XX:ArchiveClassesAtExit="
_QUIETLY = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Suppresses Java's warnings about classes it cannot archive and archives that do not fit, which only affect speed."""


def class_archive(java: str) -> Path:
    """Return the path of the archive, which need not exist.

    Args:
        java: the output of `java -version`.
    """
    name = sha256(f"{pyspark.__version__}\0{java}".encode()).hexdigest()[:16]
    return Path(sys.prefix) / "share" / "keyfold" / f"spark-{name}.jsa"


def written_to(archive: Path) -> str:
    """Return the Java options that write an archive when Java ends."""
    return f'"{_WRITES}{archive}" {_QUIETLY}'


def with_class_archive(options: str, java: str) -> str:
    """Add the Java options that start from the archive, if there is one.

    Args:
        options: the options of the process.
        java: the output of `java -version`.
    """
    archive = class_archive(java)
    # Java accepts one archive: an option of the user wins.
    if _WRITES in options or "SharedArchiveFile" in options or not os.access(archive, os.R_OK):
        return options
    return f'{options} "-XX:SharedArchiveFile={archive}" {_QUIETLY}'.strip()
