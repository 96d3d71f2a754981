"""The archive of Spark's classes: Java starts from it where it is there, and as before where it is not."""

import subprocess
import sys
from pathlib import Path

import pytest

from keyfold.session.class_archive import class_archive, with_class_archive, written_to
from keyfold.session.gateway import java_text

JAVA = 'openjdk version "17.0.15"'
OURS = "-Xmx1g"


@pytest.fixture
def archive(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "an environment"))
    path = class_archive(JAVA)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"classes")
    return path


def test_java_starts_from_the_archive_that_is_of_it(archive):
    assert with_class_archive(OURS, JAVA).startswith(f'{OURS} "-XX:SharedArchiveFile={archive}"')
    assert with_class_archive(OURS, f"{JAVA}.1") == OURS


def test_options_stay_where_there_is_no_archive_or_they_say_which(archive):
    for given in ("-XX:SharedArchiveFile=own.jsa", written_to(archive)):
        assert with_class_archive(given, JAVA) == given
    archive.unlink()
    assert with_class_archive(OURS, JAVA) == OURS


def test_java_ignores_an_archive_that_is_none_without_a_word(archive):
    options = with_class_archive("", JAVA).replace('"', "|").split("|")
    given = [part for text in options for part in ([text] if text.startswith("-XX") else text.split())]
    told = subprocess.run(["java", *given, "-version"], capture_output=True, text=True, check=True)
    assert "warning" not in told.stdout + told.stderr


def test_java_has_mapped_the_archive_that_setup_wrote(spark):
    archive = class_archive(java_text())
    if not archive.exists():
        pytest.skip("`make setup` could not write the archive, and has said so")
    assert str(archive) in Path(f"/proc/{spark.sparkContext._gateway.proc.pid}/maps").read_text(encoding="utf-8")


# The test above is of the archive that `make setup` wrote by this command.
@pytest.mark.slow
def test_the_command_writes_it_and_a_session_starts_from_it(monkeypatch, tmp_path):
    monkeypatch.setenv("KEYFOLD_SPARK_CONF", "")
    made = class_archive(java_text())
    before = made.stat().st_mtime_ns if made.exists() else 0
    keyfold = Path(sys.executable).with_name("keyfold")
    subprocess.run([keyfold, "archive-classes"], check=True, cwd=tmp_path)
    assert made.stat().st_mtime_ns > before
    code = "from keyfold import session; s = session.build_session(); print(open(f'/proc/{s._sc._gateway.proc.pid}/maps').read())"
    maps = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert str(made) in maps
