"""Checkpoints made to be hostile: Spark gets none of them to read."""

import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from keyfold.errors import KeyfoldError
from keyfold.session.checkpoint_view import LARGEST_DESCRIPTION, check_checkpoint_is_harmless, view_of

FILE = {"localFileName": "000008.sst", "dfsSstFileName": "000008-92c53bf6.sst", "sizeBytes": 1223}


def described(path: Path, **content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"v1\n{json.dumps(content)}")


def snapshot(checkpoint: Path, file: Mapping[str, object], **more: str) -> Path:
    path = checkpoint / "state" / "0" / "0" / "1.zip"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, content in {"metadata": f"v1\n{json.dumps({'sstFiles': [file], 'numKeys': 1})}", **more}.items():
            zipped.writestr(name, content)
    return path


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """As Spark writes one."""
    folder = tmp_path / "checkpoint"
    described(folder / "offsets" / "0", batchWatermarkMs=0)
    described(
        folder / "state" / "0" / "_metadata" / "v2" / "0",
        stateStoreInfo=[
            {"numPartitions": 2, "stateSchemaFilePaths": ["file:/was/here/state/0/_stateSchema/default/0_a"]}
        ],
    )
    snapshot(folder, FILE)
    check_checkpoint_is_harmless(folder)
    return folder


@pytest.mark.parametrize("name", ["../../out.sst", "/elsewhere/out.sst", ".."])
@pytest.mark.parametrize("field", ["localFileName", "dfsSstFileName"])
def test_a_snapshot_that_names_a_file_elsewhere(checkpoint, name, field):
    snapshot(checkpoint, FILE | {field: name})
    with pytest.raises(KeyfoldError, match=r"1\.zip names the file .* outside its folder"):
        check_checkpoint_is_harmless(checkpoint)


def test_a_snapshot_with_files_that_its_directory_hides(checkpoint):
    path = snapshot(checkpoint, FILE | {"localFileName": "../../out.sst"})
    hidden = path.read_bytes()
    path.write_bytes(hidden + snapshot(checkpoint, FILE).read_bytes())
    with pytest.raises(KeyfoldError, match=r"1\.zip holds files that its directory does not name"):
        check_checkpoint_is_harmless(checkpoint)


def test_a_snapshot_that_unpacks_to_far_more_than_it_is(checkpoint):
    snapshot(checkpoint, FILE, bomb="0" * (LARGEST_DESCRIPTION + 1))
    with pytest.raises(KeyfoldError, match=r"1\.zip unpacks to"):
        check_checkpoint_is_harmless(checkpoint)


@pytest.mark.parametrize("path", ["file:/a/state/0/_stateSchema/../../../../secret", "file:/etc/passwd", "/etc/passwd"])
def test_a_description_that_names_a_schema_elsewhere(checkpoint, path):
    described(checkpoint / "state/0/_metadata/v2/0", stateStoreInfo=[{"stateSchemaFilePaths": [path]}])
    with pytest.raises(KeyfoldError, match="outside its folder"):
        check_checkpoint_is_harmless(checkpoint)


def test_a_description_with_numbers_and_sizes_without_end(checkpoint):
    path = checkpoint / "state/0/_metadata/v2/0"
    described(path, stateStoreInfo=[{"numPartitions": 2_000_000_000}])
    with pytest.raises(KeyfoldError, match="2,000,000,000"):
        check_checkpoint_is_harmless(checkpoint)
    os.truncate(path, 3 << 30)
    with pytest.raises(KeyfoldError, match="has 3,221,225,472 bytes"):
        check_checkpoint_is_harmless(checkpoint)


@pytest.mark.parametrize("name", ["state/1", "offsets/1", "state/0/0/2.zip"])
def test_links_that_lead_out(checkpoint, tmp_path, name):
    (tmp_path / "secret").write_text("secret")
    (checkpoint / name).symlink_to(tmp_path / "secret")
    with pytest.raises(KeyfoldError, match="is a link out of its folder"):
        check_checkpoint_is_harmless(checkpoint)


def test_a_pipe_in_place_of_a_file(checkpoint):
    os.mkfifo(checkpoint / "offsets" / "1")
    with pytest.raises(KeyfoldError, match="is no regular file"):
        check_checkpoint_is_harmless(checkpoint)


def on(master: str) -> Any:
    """As much of a session as tells where its workers are."""
    return SimpleNamespace(conf={"spark.master": master})


def test_workers_of_a_cluster_read_a_moved_checkpoint_through_links_that_lie_beside_it(checkpoint):
    (checkpoint / "commits").mkdir()
    here, shared = view_of(on("local[2]"), checkpoint), view_of(on("spark://host:7077"), checkpoint)
    assert not Path(here.name).is_relative_to(checkpoint.parent)
    assert Path(shared.name).parent == checkpoint.parent
    for view in (here.name, shared.name):
        told = (Path(view) / "state" / "0" / "_metadata" / "v2" / "0").read_text()
        assert f'"file:{view}/state/0/_stateSchema/default/0_a"' in told
        assert (Path(view) / "state" / "0" / "0" / "1.zip").read_bytes() == (
            checkpoint / "state/0/0/1.zip"
        ).read_bytes()


def test_a_path_that_workers_could_not_read_is_refused_with_the_remedy(checkpoint):
    (checkpoint / "commits").mkdir()
    moved = checkpoint.rename(checkpoint.with_name("50% more"))
    with pytest.raises(KeyfoldError, match="on a cluster it must be in a folder that all see"):
        view_of(on("spark://host:7077"), moved)
