"""Check the sources of a stream that read nested data: objects and lists."""

from collections.abc import Iterable, Mapping

import pyarrow as pa

from keyfold.stream.source import EACH, Path, Source, list_of, name_of, path_of


def check_nested(
    schema: pa.Schema, sources: Mapping[str, Source], private: Iterable[str], event_id: Iterable[str]
) -> None:
    """Check that sources that read nested data go together.

    Args:
        schema: the columns of the stream's events.
        sources: the source of each column.
        private: private columns.
        event_id: columns that identify an event.

    Raises:
        ValueError: a source is invalid, or two exclude each other.
    """
    try:
        elements = list_of([name for source in sources.values() for name in source.raw_names])
    except ValueError as error:
        raise ValueError(f"{error}; the elements of one list alone become events") from None
    for column, source in sources.items():
        _check_kind(schema.field(column), source)
        if source.json:
            _check_json(column, sources, private)
    if (placed := [column for column, source in sources.items() if source.place]) and elements is None:
        raise ValueError(
            f"the source of {', '.join(sorted(placed))} has place=True, and no other leads into the elements of a list, such as "
            "Source('readings[].value')"
        )
    identifying = [sources[column] for column in event_id]
    if elements is not None and identifying and not any(_tells_elements_apart(source) for source in identifying):
        raise ValueError(
            f"event_id has no column of the elements of {name_of(elements)}, so that all elements of a list would be copies; "
            "add a column of the element, or its place: Source(place=True)"
        )


def _check_kind(column: pa.Field, source: Source) -> None:
    argument, kind = ("place", pa.int64()) if source.place else ("json", pa.string())
    if not (source.place or source.json):
        return
    if column.type != kind or source.time or (source.place and (source.json or source.names)):
        raise ValueError(f"the source of {column.name} has {argument}=True, which is for a column of type {kind}")


def _check_json(column: str, sources: Mapping[str, Source], private: Iterable[str]) -> None:
    names = sources[column].names
    if in_lists := [name for name in names if not all(isinstance(step, str) for step in path_of(name))]:
        raise ValueError(
            f"the source of {column} has json=True, which keeps what keys of objects lead to, and {', '.join(in_lists)} leads "
            "into a list"
        )
    # The text of an object contains the values below it, and so those of private columns.
    tops: list[Path] = [path_of(name) for name in names] or [()]
    inside = [
        other
        for other in private
        if any(path_of(name)[: len(top)] == top for name in sources[other].names for top in tops)
    ]
    if inside and column not in private:
        raise ValueError(
            f"{column} keeps the text that the private {', '.join(inside)} is taken from; name it in private too"
        )


def _tells_elements_apart(source: Source) -> bool:
    return source.place or any(EACH in path_of(name) for name in source.names)
