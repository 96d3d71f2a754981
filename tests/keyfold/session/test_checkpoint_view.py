"""Checkpoints made to be hostile: Spark gets none of them to read."""

import json
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

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


def test_a_moved_checkpoint_is_read_on_this_machine_by_links_and_corrected_paths(checkpoint):
    (checkpoint / "commits").mkdir()
    with pytest.raises(KeyfoldError, match=r"set KEYFOLD_SPARK_MASTER=local\[\*\]"):
        view_of(SimpleNamespace(conf={"spark.master": "spark://host:7077"}), checkpoint)  # type: ignore[arg-type]
    moved = checkpoint.rename(checkpoint.with_name("50% more"))
    view = view_of(SimpleNamespace(conf={"spark.master": "local[2]"}), moved)  # type: ignore[arg-type]
    assert f'"file:{view.name}/state/0/_stateSchema/default/0_a"' in (Path(view.name) / METADATA).read_text()
    copy = Path(view.name) / "state" / "0" / "0" / "1.zip"
    assert copy.read_bytes() == (moved / "state/0/0/1.zip").read_bytes()
