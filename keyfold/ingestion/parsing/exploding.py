"""Explode a list into rows, one per element. Each row keeps its index, and a faulty element rejects only itself."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from keyfold.ingestion.parsing.json_texts import with_one_element
from keyfold.ingestion.parsing.mapping import raw_values, value_at
from keyfold.ingestion.parsing.rows import Reject, Rows
from keyfold.ingestion.parsing.text import in_bytes, row_sizes
from keyfold.stream import Stream
from keyfold.stream.source import EACH, PLACE, Path, name_of, path_of

PIECE_BYTES = 64 << 20
"""Bytes of exploded rows, each with the columns beside its list, that are made at once."""

LIST_BYTES = 256 << 20
"""Maximum bytes of one row after explosion. A long text beside a long list is hostile or a mistake."""

Numbers = npt.NDArray[np.int64]


def exploded(stream: Stream, rows: Rows) -> Iterator[Rows]:
    """Explode rows by the stream's list, if it has one.

    A faulty element is rejected with its index, and a row without the list is rejected as a whole.
    """
    import pyarrow.compute as pc  # noqa: PLC0415 - takes 50 ms

    path = stream.list_path
    count = rows.columns.num_rows
    if path is None or not count:
        yield rows
        return
    column = value_at(rows.columns, path)
    if column is None or not (types.is_list(column.type) or types.is_large_list(column.type)):
        column = pa.chunked_array([pa.nulls(count, pa.list_(pa.null()))])
    lists = column.combine_chunks()
    lists = pa.concat_arrays(lists.chunks) if isinstance(lists, pa.ChunkedArray) else lists
    beside = {name: raw_values(rows.columns, name) for name in stream.raw_names if EACH not in path_of(name)}
    outer = [(name, column) for name, columns in beside.items() if name != PLACE for column in columns]
    sizes = pc.call_function("list_value_length", [lists]).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    # Estimated bytes of the columns beside the list, which are repeated for each element; 64 for the row itself.
    bytes_beside = np.full(count, 64, dtype=np.int64)
    for _, outer_column in outer:
        bytes_beside += (
            np.concatenate([row_sizes(chunk) for chunk in outer_column.chunks]) if outer_column.num_chunks else 0
        )
    too_much = bytes_beside * sizes > LIST_BYTES
    absent = lists.is_null().to_numpy(zero_copy_only=False)
    rejects = list(rows.rejects)
    for at in np.flatnonzero(absent | too_much):
        reason = (
            f"{name_of(path)} is missing: there is no list whose elements would be events"
            if absent[at]
            else f"{name_of(path)} has {sizes[at]:,} elements, which with the values beside the list are more than "
            f"{in_bytes(LIST_BYTES)}"
        )
        rejects.append(Reject(rows.raw(int(at)), int(rows.lines[at]), reason))
    fitting = np.flatnonzero(~(absent | too_much))
    pieces = _pieces(fitting, (bytes_beside * sizes)[fitting])
    for number, piece in enumerate(pieces):
        yield _elements(stream, path, rows, lists, outer, piece, rejects if number == 0 else [])


def _pieces(rows: Numbers, weights: Numbers) -> list[Numbers]:
    """Cut rows into consecutive pieces of bounded weight; at least one piece."""
    cuts = np.flatnonzero(np.diff(np.cumsum(weights) // PIECE_BYTES)) + 1
    return np.split(rows, cuts)


def _elements(
    stream: Stream,
    path: Path,
    rows: Rows,
    lists: pa.Array,
    outer: list[tuple[str, pa.ChunkedArray]],
    piece: Numbers,
    rejects: list[Reject],
) -> Rows:
    import pyarrow.compute as pc  # noqa: PLC0415 - takes 50 ms

    some = lists.take(pa.array(piece))
    parents = pc.call_function("list_parent_indices", [some]).to_numpy(zero_copy_only=False).astype(np.int64)
    values = pc.call_function("list_flatten", [some])
    # The index of each element in its list: its position minus that of its list's first element.
    places = np.arange(len(parents)) - np.searchsorted(parents, parents)
    origin = piece[parents]
    raw = _RawElement(rows.raw, origin, places, path)
    is_wrong = np.zeros(len(parents), dtype=bool)
    if types.is_struct(values.type):
        is_wrong |= values.is_null().to_numpy(zero_copy_only=False)
    broken = {line: int(row) for row, line in enumerate(rows.lines.tolist())} if rows.broken else {}
    for line, place in rows.broken:
        first, end = np.searchsorted(origin, [broken[line], broken[line] + 1])
        is_wrong[first:end][place : place + 1] = True
    for position in np.flatnonzero(is_wrong):
        line, place = int(rows.lines[origin[position]]), int(places[position])
        reason = rows.broken.get((line, place), "not a JSON object: null")
        rejects.append(Reject(raw(int(position)), line, f"{_where(path, place)}{reason}"))
    good = np.flatnonzero(~is_wrong)
    taken, parent = pa.array(good), pa.array(origin[good])
    inner = pa.table({"": values.take(taken)})
    columns = [(name, column.take(parent)) for name, column in outer]
    for name in stream.raw_names:
        if EACH in path_of(name):
            inside = value_at(inner, ("", *path_of(name)[len(path) + 1 :]))
            columns += [] if inside is None else [(name, inside)]
    columns.append((PLACE, pa.chunked_array([pa.array(places[good])])))
    return replace(
        rows,
        columns=pa.table([column for _, column in columns], names=[name for name, _ in columns]),
        lines=rows.lines[origin[good]],
        raw=lambda position: raw(int(good[position])),
        rejects=rejects,
        place_of=lambda position: _where(path, int(places[good[position]])),
        broken={},
    )


def _where(path: Path, place: int) -> str:
    return f"{name_of(path)}[{place}]: "


class _RawElement:
    """The raw text of an element: that of its row, with only this element in the list."""

    def __init__(self, raw: Callable[[int], str], origin: Numbers, places: Numbers, path: Path) -> None:
        self._raw, self._origin, self._places, self._path = raw, origin, places, path
        self._row, self._cut = -1, with_one_element("", path)

    def __call__(self, position: int) -> str:
        row = int(self._origin[position])
        if row != self._row:
            self._row, self._cut = row, with_one_element(self._raw(row), self._path)
        return self._cut(int(self._places[position]))
