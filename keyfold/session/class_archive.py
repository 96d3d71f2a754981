"""Java's archive of Spark's classes, as they are once loaded and checked: with it Java starts Spark in half the time.

`keyfold archive-classes` writes it, beside the installed packages. It is of one Java and one Spark. Java itself checks that it
fits the jars, and goes on without it where it does not.

Source: JEP 350, Dynamic CDS Archives.
"""

import os
import sys
from hashlib import sha256
from pathlib import Path

import pyspark

_WRITES = "-XX:ArchiveClassesAtExit="
_QUIETLY = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Java warns of each class that it cannot archive, and of an archive that does not fit: a matter of speed alone."""


def class_archive(java: str) -> Path:
    """Where the archive is, or would be.

    Args:
        java: what `java -version` prints.
    """
    name = sha256(f"{pyspark.__version__}\0{java}".encode()).hexdigest()[:16]
    return Path(sys.prefix) / "share" / "keyfold" / f"spark-{name}.jsa"


def written_to(archive: Path) -> str:
    """The options with which Java writes an archive when it ends."""
    return f'"{_WRITES}{archive}" {_QUIETLY}'


def with_class_archive(options: str, java: str) -> str:
    """Java's options, and those that have it start from the archive; as they are where there is none.

    Args:
        options: of the process that is to start.
        java: what `java -version` prints.
    """
    archive = class_archive(java)
    if _WRITES in options or "SharedArchiveFile" in options or not os.access(archive, os.R_OK):
        return options
    return f'{options} "-XX:SharedArchiveFile={archive}" {_QUIETLY}'.strip()
