"""Check the streams that share a landing folder or a topic. Each row belongs to one stream."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from keyfold.errors import Misconfigured
from keyfold.stream.conditions import both_hold
from keyfold.stream.stream import Stream

_ALIKE = ("done_marker", "max_line_bytes", "max_file_bytes")
"""Settings that apply to whole files, and must be the same for all streams of a landing folder."""


def sharing(streams: Mapping[str, Stream], name: str) -> tuple[Stream, ...]:
    """Return all streams that share a stream's landing folder: the owner, then the others by name.

    Args:
        streams: all streams by name.
        name: the name of a stream that shares the landing folder, or of one that does not share it.

    Raises:
        Misconfigured: they cannot share it; see `check_sharing`.
    """
    owner = streams[name].landing or name
    if owner not in streams:
        raise Misconfigured(f"stream {name}: landing names {owner}, and no stream has this name: {', '.join(streams)}")
    sharers = sorted(one.name for one in streams.values() if one.landing == owner)
    return check_sharing([streams[owner], *(streams[other] for other in sharers)])


def check_sharing(streams: Sequence[Stream]) -> tuple[Stream, ...]:
    """Check that streams can share a landing folder, and return them.

    Args:
        streams: the owner of the landing folder, then the others.

    Raises:
        Misconfigured: a stream has no condition, two conditions hold for the same rows, settings of whole files differ,
            or the first stream is not the owner.
    """
    owner, others = streams[0], streams[1:]
    if owner.landing or any(one.landing != owner.name for one in others):
        raise Misconfigured(
            f"streams {', '.join(one.name for one in streams)} do not share a landing: the first must have one of its own, "
            f"and landing={owner.landing or owner.name!r} belongs to each of the others"
        )
    if not others:
        if owner.where is not None:
            raise Misconfigured(
                f"stream {owner.name}: where is for streams that share a landing, and no other stream has "
                f"landing={owner.name!r}; leave it out, or ingest all streams of the landing together"
            )
        return (owner,)
    for one in streams:
        if one.where is None:
            raise Misconfigured(
                f"stream {one.name} shares the landing of {owner.name} and has no condition: say with where= which rows are "
                "its own"
            )
    for one, other in combinations(streams, 2):
        if one.where is not None and other.where is not None and both_hold(one.where, other.where):
            raise Misconfigured(
                f"streams {one.name} and {other.name} share a landing, and both conditions (where) hold for the same rows: "
                "make them exclude each other"
            )
    for name in _ALIKE:
        if len({getattr(one, name) for one in streams}) > 1:
            raise Misconfigured(
                f"streams {', '.join(one.name for one in streams)} share a landing and differ in {name}, which is of whole "
                "files: give all of them the same"
            )
    return tuple(streams)


def streams_with(stream: Stream, project: Mapping[str, Stream]) -> tuple[Stream, ...]:
    """Return all streams that share a stream's landing folder; see `sharing`.

    Args:
        stream: the stream; it need not be in the project.
        project: streams of the project, by name.

    Raises:
        Misconfigured: they cannot share a landing folder.
    """
    return sharing({**project, stream.name: stream}, stream.name)
