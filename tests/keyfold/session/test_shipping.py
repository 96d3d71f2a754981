"""The zip that workers get: the same from the same files, importable, and refused where a worker's versions differ."""

import json
import os
import re
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
from keyfold.session.shipping import zip_packages
from keyfold.session.workers import _explained

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


def test_the_same_files_give_the_same_bytes_under_the_same_name(tmp_path, extension):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    one = zip_packages(("keyfold", "extension_of_a_test"), first)
    for file in extension.rglob("*.py"):
        os.utime(file, (1, 1))
    (extension / "__pycache__").mkdir()
    (extension / "__pycache__" / "number.cpython-311.pyc").write_bytes(b"compiled since")
    other = zip_packages(("keyfold", "extension_of_a_test"), second)
    assert other.name == one.name
    assert other.read_bytes() == one.read_bytes()
    (extension / "deep" / "number.py").write_text("NUMBER = 43\n")
    assert zip_packages(("keyfold", "extension_of_a_test"), second).name != one.name


def test_a_worker_imports_our_package_and_the_user_s_from_the_zip(tmp_path, extension):
    archive = zip_packages(("keyfold", "extension_of_a_test"), tmp_path)
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
    archive = zip_packages(("keyfold",), tmp_path)
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


def test_a_package_with_compiled_modules_is_refused_with_the_remedy(tmp_path):
    with pytest.raises(KeyfoldError, match=r"\.so is compiled, .* install numpy in the workers' Python"):
        zip_packages(("numpy",), tmp_path)


def test_a_package_that_is_not_there_is_named(tmp_path):
    with pytest.raises(KeyfoldError, match=r"no_such_package .* is not installed here"):
        zip_packages(("no_such_package",), tmp_path)


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


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (
            "Lost task 0.3 in stage 0.0 (TID 6) (10.0.0.7 executor 1): pyspark.errors.exceptions.base.PySparkRuntimeError: "
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: 3.11, PySpark cannot",
            "node 10.0.0.7 has Python 3.12, the driver 3.11: give every node",
        ),
        (
            'Lost task 0.0 in stage 0.0 (TID 0) (node-7 executor 1): java.io.IOException: Cannot run program "/opt/py": error=2',
            "node node-7 has no Python at /opt/py",
        ),
        ("x\nspark_jobs.errors.KeyfoldError: node seven has other versions\n\tat y", "^node seven has other versions$"),
        ("Lost task (TID 0) (node-7 executor 1): something\n\tat java", "failed on node node-7: Lost task"),
    ],
)
def test_what_spark_says_of_a_worker_that_cannot_work_becomes_a_line_with_its_node(told, message):
    assert re.search(message, _explained(told))
