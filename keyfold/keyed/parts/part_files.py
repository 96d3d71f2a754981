"""Write and read parts: sorted rows of state, as Parquet, or as Arrow files if they wait."""

import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from keyfold.keyed.calling.slots import SLOT
from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE
from keyfold.keyed.parts.arrow_part import ArrowPart, arrow_content
from keyfold.keyed.parts.manifest import NEVER, Part
from keyfold.keyed.parts.parquet_part import ParquetPart, name_with_footer, parquet_content
from keyfold.keyed.parts.part_rows import SIZES, Sizes
from keyfold.lakehouse.checksums import name_with_checksum
from keyfold.lakehouse.files import new_file
from keyfold.storage.place import Place

PARQUET, ARROW = ".parquet", ".arrow"

_TIMERS = (DEADLINE, PROCESSING_DEADLINE)


def write_part(rows: pl.DataFrame, batch: int, folder: Place, sizes: Sizes = SIZES, ending: str = PARQUET) -> Part:
    """Write rows as a part, durably.

    Args:
        rows: at least one row, with the columns of state, `SLOT` and `MARK`; sorted by `SLOT`.
        batch: the batch that makes it.
        folder: folder of the parts.
        sizes: sizes of parts.
        ending: suffix of the file, which selects its format.

    Raises:
        OSError: the disk is full or fails.
    """
    slots = rows[SLOT].to_numpy()
    identity = f"{batch:09d}-{uuid.uuid4().hex}"
    content = arrow_content(rows) if ending == ARROW else parquet_content(rows, slots, identity, sizes)
    deadline, processing_deadline = earliest_timers(rows)
    part = Part(batch, rows.height, _different(slots), int(slots[0]), len(content), deadline, processing_deadline)
    if len(content) <= sizes.inline_bytes:
        return replace(part, payload=content)
    stem = identity if ending == ARROW else name_with_footer(identity, content)
    path = folder / f"{stem}{ending}"
    named: list[str] = []

    def name(file: Any) -> str:
        named.append(name_with_checksum(Path(path.name), file))
        return named[0]

    with new_file(path, name) as file:
        file.write(content)
    return replace(part, file=named[0])


def open_part(part: Part, folder: Place) -> ParquetPart | ArrowPart:
    """Open a written part of either format."""
    is_arrow = part.file.endswith(ARROW) if part.file else part.payload.startswith(b"ARROW1")
    return ArrowPart(part, folder) if is_arrow else ParquetPart(part, folder)


def earliest_timers(rows: pl.DataFrame) -> tuple[int, int]:
    """Return the earliest deadline and processing_deadline of rows, in microseconds; `NEVER` without one."""
    earliest = (rows[column].to_physical().min() if column in rows.columns else None for column in _TIMERS)
    deadline, processing_deadline = (NEVER if one is None else int(one) for one in earliest)  # type: ignore[arg-type]
    return deadline, processing_deadline


def _different(slots: np.ndarray) -> int:
    return int(np.count_nonzero(np.diff(slots)) + 1)
