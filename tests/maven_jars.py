"""Jars of real servers for tests, by Maven, with the user's own mirrors and proxies; held to a list of what each must be."""

import hashlib
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


@dataclass(frozen=True)
class MavenJars:
    """What a server is made of.

    Attributes:
        who: the server, for people.
        what: is fetched, and how much of it.
        folder: where the jars are to be.
        lock: the file with a line a jar: SHA-256, name.
        dependency: group, artifact and version of what brings all of them.
    """

    who: str
    what: str
    folder: Path
    lock: Path
    dependency: tuple[str, str, str]

    def why_not(self, command: str) -> str:
        """Why the server cannot be run here; empty where it can."""
        if self.folder.is_dir():
            return ""
        return f"the jars of {self.who} are not in {self.folder}: `{command}` fetches them, and wants Maven"

    def fetch(self) -> int:
        """Fetch the jars, unless they are there; what cannot be had is said, and is no failure."""
        if self.folder.is_dir():
            return 0
        maven = shutil.which("mvn")
        if not maven:
            print(f"tests: no Maven, so no {self.who}: tests that need it are skipped", flush=True)
            return 0
        print(f"tests: fetching {self.what}", flush=True)
        with tempfile.TemporaryDirectory(prefix="keyfold-", dir=self.folder.parent) as folder:
            pom, part = Path(folder) / "pom.xml", Path(folder) / "jars"
            pom.write_text(self._pom(), encoding="utf-8")
            run = subprocess.run(
                [maven, "-B", "-q", "-Dstyle.color=never", "-f", str(pom), _COPY, f"-DoutputDirectory={part}"],
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                check=False,
            )
            if run.returncode:
                told = (run.stdout + run.stderr).strip().splitlines()[:1]
                print(f"tests: Maven could not fetch {self.who} ({told}): tests that need it are skipped", flush=True)
                return 0
            wanted = {name: sha256 for sha256, name in map(str.split, self.lock.read_text("ascii").splitlines())}
            found = {jar.name: _digest(jar) for jar in part.glob("*.jar")}
            if wanted != found:
                differing = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
                print(
                    f"tests: these jars are not those that {self.lock.name} names: {', '.join(differing)}",
                    file=sys.stderr,
                )
                return 1
            part.rename(self.folder)
        return 0

    def _pom(self) -> str:
        group, artifact, version = self.dependency
        return f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>keyfold</groupId><artifactId>server-for-tests</artifactId><version>1</version><packaging>pom</packaging>
<dependencies><dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>
<version>{version}</version></dependency></dependencies></project>"""


def _digest(jar: Path) -> str:
    with jar.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
