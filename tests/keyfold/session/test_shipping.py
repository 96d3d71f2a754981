"""The zip that workers get: importable, and refused where a worker's versions differ."""

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from keyfold.errors import KeyfoldError
from keyfold.session.shipped import MANIFEST, NEEDED_BY_WORKERS, versions
from keyfold.session.shipping import packed

ROOT = Path(__file__).parents[3]
SITES = os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))


@pytest.fixture
def extension(tmp_path, monkeypatch):
    """A package of a user's own, with a folder that has no __init__.py."""
    folder = tmp_path / "extension_of_a_test"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "number.py").write_text("NUMBER = 42\n")
    (folder / "words.txt").write_text("some words")
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder


def import_from(archive: Path, program: str) -> subprocess.CompletedProcess[str]:
    """A Python that has the zip first on its path, as a worker has, and the installed packages without ours."""
    # -S: the editable install of this project is of no worker.
    return subprocess.run(
        [sys.executable, "-S", "-c", program],
        env={"PYTHONPATH": os.pathsep.join([str(archive), SITES])},
        cwd=archive.anchor,  # a worker stands elsewhere than the driver
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_worker_imports_our_package_and_the_user_s_from_the_zip(tmp_path, extension):
    archive = packed(("extension_of_a_test",))
    done = import_from(
        archive,
        "import keyfold.keyed.execution.operator as ours, extension_of_a_test.deep.number as theirs\n"
        "print(ours.__file__, theirs.__file__, theirs.NUMBER)",
    )
    assert done.returncode == 0, done.stderr
    ours, theirs, number = done.stdout.split()
    assert ours == f"{archive}/keyfold/keyed/execution/operator.py"
    assert theirs == f"{archive}/extension_of_a_test/deep/number.py"
    assert number == "42"


@pytest.mark.parametrize("name", ["Python", "polars", "pyarrow", "deltalake", "pyspark"])
def test_a_worker_with_another_version_refuses_and_names_itself_and_both(tmp_path, name):
    archive = packed(())
    with zipfile.ZipFile(archive) as whole:
        content = {entry: whole.read(entry) for entry in whole.namelist()}
    manifest = json.loads(content[MANIFEST])
    here, manifest["driver"] = manifest["versions"][name], "driver.of.a.test"
    manifest["versions"][name] = "1.2.3"
    changed = tmp_path / "changed.zip"
    with zipfile.ZipFile(changed, "w") as archive_of_another:
        for entry, data in (content | {MANIFEST: json.dumps(manifest).encode()}).items():
            archive_of_another.writestr(entry, data)
    done = import_from(changed, "import keyfold")
    assert done.returncode == 1
    told = done.stderr.splitlines()[-1]
    assert f"node {os.uname().nodename} ({sys.executable}) has other versions" in told
    assert f"than the driver on driver.of.a.test: {name} {here} here, 1.2.3 there;" in told


def test_a_package_with_compiled_modules_is_refused_with_the_remedy():
    with pytest.raises(KeyfoldError, match=r"\.so is compiled, .* install numpy in the workers' Python"):
        packed(("numpy",))


def test_a_package_that_is_not_there_is_named():
    with pytest.raises(KeyfoldError, match=r"no_such_package .* is not installed here"):
        packed(("no_such_package",))


def test_whatever_workers_import_of_others_has_its_version_compared():
    modules = [
        "keyed.execution.operator",
        "keyed.execution.read",
        "keyed.execution.work",
        "ingestion.split_reader",
        "operators.ordering",
    ]
    program = "\n".join([*(f"import keyfold.{name}" for name in modules), "import spark_jobs.jobs.registry, sys, json"])
    program += "\nprint(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    owners = packages_distributions()
    loaded = {owner.lower() for name in json.loads(done.stdout.splitlines()[-1]) for owner in owners.get(name, [])}
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [declared["dependencies"], *declared["optional-dependencies"].values()]
    direct = {Requirement(text).name for group in groups for text in group} - {"keyfold"}
    assert loaded & direct - {"pyspark"} <= set(NEEDED_BY_WORKERS)
    assert "none" not in versions().values()
