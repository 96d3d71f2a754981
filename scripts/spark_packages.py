"""Fetch the jars of Spark's packages, so that later starts need no network, and check that Spark starts.

Spark's resolver looks into the local Maven repository before the network. If Maven is installed, it fills that repository
first, through the user's mirrors and proxies; otherwise Spark fetches the jars itself.

Jars of the locked packages (Delta, S3) are verified by `spark_jars.sha256`, which has a hash and a name in each line: existing
jars before Spark starts, and the jars that it used afterwards. Packages that a user adds (KEYFOLD_SPARK_PACKAGES) are not
verified. After a change of `DELTA_PACKAGE` or `S3_PACKAGES`, run `python scripts/spark_packages.py --lock` on a trusted
network.
"""

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.sax.saxutils import escape

from keyfold.errors import KeyfoldError
from keyfold.session import SparkSettings, build_session
from keyfold.session.packages import DELTA_PACKAGE, LEFT_OUT, S3_PACKAGES

LOCK = Path(__file__).with_name("spark_jars.sha256")
_RENEW = (
    "if DELTA_PACKAGE or S3_PACKAGES was changed on purpose, run `.venv/bin/python scripts/spark_packages.py --lock` and "
    "commit it"
)
_OURS = "|".join(re.escape("_".join(package.split(":")[:2])) for package in (DELTA_PACKAGE, *S3_PACKAGES))
RESOLVE = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:resolve"


def main() -> int:
    """Fetch the packages, start Spark, and return the exit status."""
    try:
        if sys.argv[1:] == ["--lock"]:
            lock(jars_of_spark(S3_PACKAGES))
            return 0
        packages = tuple(dict.fromkeys((DELTA_PACKAGE, *S3_PACKAGES, *SparkSettings.from_environment().all_packages)))
        print(f"setup: fetching Spark's packages: {', '.join(packages)}", flush=True)
        if maven := shutil.which("mvn"):
            warm(maven, packages)
        locked = read_lock()
        check(fetched_before(), locked)
        used = jars_of_spark(packages[1:])
        check(used, locked)
        check_all_used(used, locked)
    except KeyfoldError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    return 0


def jars_of_spark(more: tuple[str, ...]) -> list[Path]:
    """Start Spark, and return the jars of packages that it uses."""
    spark = build_session(SparkSettings(master="local[1]", packages=more))
    try:
        listed = spark.sparkContext.getConf().get("spark.jars") or ""
    finally:
        spark.stop()
    return [Path(unquote(urlsplit(jar).path)) for jar in listed.split(",") if jar]


def fetched_before() -> list[Path]:
    """The jars in the cache of Spark's resolver, which it would use without fetching them."""
    return sorted(Path.home().glob(".ivy2*/jars/*.jar"))


def check(jars: Iterable[Path], locked: dict[str, str]) -> None:
    """Verify the hashes of jars. Jars that are not locked are skipped.

    Raises:
        KeyfoldError: a jar of the locked packages has another hash, or none; the message says what to do.
    """
    for jar in jars:
        if re.match(rf"({_OURS})-\d", jar.name) and jar.name not in locked:
            raise KeyfoldError(f"{jar} is in no line of {LOCK.name}; {_RENEW}")
        if jar.name in locked and digest(jar) != locked[jar.name]:
            raise KeyfoldError(
                f"{jar} is not the jar in {LOCK.name}: its SHA-256 is {digest(jar)}, but must be {locked[jar.name]}. It was "
                f"changed, or its repository serves another: delete {jar.parent}, Spark's cache beside it and the jar in "
                "~/.m2/repository, and run this again; if the error comes back, do not use that repository"
            )


def check_all_used(jars: Iterable[Path], locked: dict[str, str]) -> None:
    """Check that Spark uses all locked jars.

    Raises:
        KeyfoldError: it does not use one; the message says what to do.
    """
    if missing := locked.keys() - {jar.name for jar in jars}:
        raise KeyfoldError(f"Spark did not take {', '.join(sorted(missing))}, which {LOCK.name} names; {_RENEW}")


def read_lock() -> dict[str, str]:
    """The hashes of the locked jars, by name."""
    lines = LOCK.read_text(encoding="ascii").splitlines()
    return {name: sha256 for sha256, name in (line.split() for line in lines)}


def lock(jars: Iterable[Path]) -> None:
    """Write the hashes of jars to the lock file."""
    lines = sorted((jar.name, digest(jar)) for jar in jars)
    LOCK.write_text("".join(f"{sha256}  {name}\n" for name, sha256 in lines), encoding="ascii")


def digest(jar: Path) -> str:
    """A jar's SHA-256."""
    with jar.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def warm(maven: str, packages: Sequence[str]) -> None:
    """Fetch each package with Maven, without the dependencies that Spark's resolver excludes."""
    with tempfile.TemporaryDirectory(prefix="keyfold-") as folder:
        for package in packages:
            pom = Path(folder) / "pom.xml"
            pom.write_text(project_with(package), encoding="utf-8")
            command = [maven, "-B", "-q", "-Dstyle.color=never", "-f", str(pom), RESOLVE, "-DincludeScope=runtime"]
            run = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
            if run.returncode != 0:
                why = re.search(r"Could not [^(]*|ERROR.*", run.stdout + run.stderr)
                reason = why[0].strip() if why else "no reason given"
                print(f"setup: Maven could not fetch {package} ({reason}); Spark will try", flush=True)


def project_with(package: str) -> str:
    """A Maven project whose only dependency is the package."""
    group, artifact, version = map(escape, package.split(":"))
    exclusions = "".join(
        f"<exclusion><groupId>{group}</groupId><artifactId>{artifact}</artifactId></exclusion>"
        for group, artifact in (coordinates.split(":") for coordinates in LEFT_OUT)
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
