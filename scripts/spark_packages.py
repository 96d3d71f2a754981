"""Fetch the jars of Spark's packages once, so that no later start waits for the network, and prove that Spark starts.

Spark's resolver looks into the local Maven repository before the network. Where Maven is installed it fills that
repository first, with the user's own mirrors and proxies; elsewhere Spark fetches the jars itself.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from spark_jobs.errors import KeyfoldError
from spark_jobs.session import SparkSettings, build_session
from spark_jobs.session.settings import SHIPPED_WITH_SPARK

RESOLVE = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:resolve"


def main() -> int:
    """Warm the repository, start Spark; returns the exit status."""
    try:
        packages = SparkSettings.from_environment().all_packages
        print(f"setup: fetching Spark's packages: {', '.join(packages)}", flush=True)
        if maven := shutil.which("mvn"):
            warm(maven, packages)
        build_session(SparkSettings(master="local[1]", packages=packages[1:])).stop()
    except KeyfoldError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    return 0


def warm(maven: str, packages: Sequence[str]) -> None:
    """Have Maven fetch the packages, each for itself, leaving out what Spark's resolver is told to leave out."""
    with tempfile.TemporaryDirectory(prefix="keyfold-") as folder:
        for package in packages:
            pom = Path(folder) / "pom.xml"
            pom.write_text(project_with(package), encoding="utf-8")
            command = [maven, "-B", "-q", "-Dstyle.color=never", "-f", str(pom), RESOLVE, "-DincludeScope=runtime"]
            run = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
            if run.returncode != 0:
                why = re.search(r"Could not [^(]*|ERROR.*", run.stdout + run.stderr)
                told = why[0].strip() if why else "it does not say why"
                print(f"setup: Maven could not fetch {package} ({told}); Spark tries by itself", flush=True)


def project_with(package: str) -> str:
    """A Maven project whose only dependency is the package."""
    group, artifact, version = map(escape, package.split(":"))
    exclusions = "".join(
        f"<exclusion><groupId>{group}</groupId><artifactId>{artifact}</artifactId></exclusion>"
        for group, artifact in (coordinates.split(":") for coordinates in SHIPPED_WITH_SPARK)
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>keyfold</groupId><artifactId>spark-packages</artifactId><version>1</version>"
        "<packaging>pom</packaging><dependencies><dependency>"
        f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        f"<exclusions>{exclusions}</exclusions></dependency></dependencies></project>"
    )


if __name__ == "__main__":
    sys.exit(main())
