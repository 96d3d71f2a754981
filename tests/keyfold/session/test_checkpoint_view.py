"""Checkpoints made to be hostile: Spark gets none of them to read."""

import json
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from keyfold.errors import KeyfoldError
from keyfold.session.checkpoint_view import LARGEST_DESCRIPTION, check_checkpoint_is_harmless, view_of

METADATA = Path("state") / "0" / "_metadata" / "v2" / "0"
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
        folder / METADATA,
        stateStoreInfo=[
            {"numPartitions": 2, "stateSchemaFilePaths": ["file:/was/here/state/0/_stateSchema/default/0_a"]}
        ],
    )
    snapshot(folder, FILE)
    check_checkpoint_is_harmless(folder)
    return folder


def hide_a_snapshot(checkpoint: Path) -> None:
    """Put a snapshot behind another one, whose directory does not name its files."""
    path = snapshot(checkpoint, FILE | {"localFileName": "../../out.sst"})
    hidden = path.read_bytes()
    path.write_bytes(hidden + snapshot(checkpoint, FILE).read_bytes())


def of_operator(**content: object) -> Callable[[Path], None]:
    return lambda checkpoint: described(checkpoint / METADATA, stateStoreInfo=[content])


HOSTILE: list[tuple[Callable[[Path], object], str]] = [
    *(
        (
            lambda at, field=field, name=name: snapshot(at, FILE | {field: name}),
            r"1\.zip names the file .* outside its folder",
        )
        for field in ("localFileName", "dfsSstFileName")
        for name in ("../../out.sst", "/elsewhere/out.sst", "..")
    ),
    (hide_a_snapshot, r"1\.zip holds files that its directory does not name"),
    (lambda at: snapshot(at, FILE, bomb="0" * (LARGEST_DESCRIPTION + 1)), r"1\.zip unpacks to"),
    *(
        (of_operator(stateSchemaFilePaths=[path]), "outside its folder")
        for path in ("file:/a/state/0/_stateSchema/../../../../secret", "file:/etc/passwd", "/etc/passwd")
    ),
    (of_operator(numPartitions=2_000_000_000), "2,000,000,000"),
    (lambda at: os.truncate(at / METADATA, 3 << 30), "has 3,221,225,472 bytes"),
    *(
        (lambda at, name=name: (at / name).symlink_to("/etc/hostname"), "is a link out of its folder")
        for name in ("state/1", "offsets/1", "state/0/0/2.zip")
    ),
    (lambda at: os.mkfifo(at / "offsets" / "1"), "is no regular file"),
]


@pytest.mark.parametrize(("make", "refusal"), HOSTILE)
def test_a_hostile_checkpoint_is_refused_and_the_file_is_named(checkpoint, make, refusal):
    make(checkpoint)
    with pytest.raises(KeyfoldError, match=refusal):
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
        told = (Path(view) / METADATA).read_text()
        assert f'"file:{view}/state/0/_stateSchema/default/0_a"' in told
        assert (Path(view) / "state" / "0" / "0" / "1.zip").read_bytes() == (
            checkpoint / "state/0/0/1.zip"
        ).read_bytes()


def test_a_path_that_workers_could_not_read_is_refused_with_the_remedy(checkpoint):
    (checkpoint / "commits").mkdir()
    moved = checkpoint.rename(checkpoint.with_name("50% more"))
    with pytest.raises(KeyfoldError, match="on a cluster it must be in a folder that all see"):
        view_of(on("spark://host:7077"), moved)
