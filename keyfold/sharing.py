"""Streams that share a landing folder, or a topic: it is read once, and each row belongs to one of them."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from keyfold.conditions import both_hold
from keyfold.errors import Misconfigured
from keyfold.stream import Stream

_ALIKE = ("done_marker", "max_line_bytes", "max_file_bytes")
"""Settings that concern whole files."""


def sharing(streams: Mapping[str, Stream], name: str) -> tuple[Stream, ...]:
    """All streams that are read from the landing of a stream: the one that the landing is named after, then the others by name.

    Args:
        streams: all streams by name.
        name: of one of those that share it; a stream that shares its landing with none is alone.

    Raises:
        Misconfigured: they cannot share it; see `check_sharing`.
    """
    owner = streams[name].landing or name
    if owner not in streams:
        raise Misconfigured(f"stream {name}: landing names {owner}, and no stream has this name: {', '.join(streams)}")
    others = sorted(one.name for one in streams.values() if one.landing == owner)
    return check_sharing([streams[owner], *(streams[other] for other in others)])


def check_sharing(streams: Sequence[Stream]) -> tuple[Stream, ...]:
    """The streams of one landing, its own first, once it is seen that they can share it.

    Raises:
        Misconfigured: one has no condition, two conditions hold for the same rows, files would be whole, or too long, for
            one and not for another, or the first is not the one that the landing is named after.
    """
    owner, others = streams[0], streams[1:]
    if owner.landing or any(one.landing != owner.name for one in others):
        raise Misconfigured(
            f"streams {', '.join(one.name for one in streams)} do not share a landing: the first must have one of its own, and "
            f"landing={owner.landing or owner.name!r} belongs to each of the others"
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
                f"stream {one.name} shares the landing of {owner.name} and has no condition: say with where= which rows are its own"
            )
    for one, other in combinations(streams, 2):
        if one.where is not None and other.where is not None and both_hold(one.where, other.where):
            raise Misconfigured(
                f"streams {one.name} and {other.name} share a landing, and both conditions (where) hold for the same rows: make "
                "them exclude each other"
            )
    for name in _ALIKE:
        if len({getattr(one, name) for one in streams}) > 1:
            raise Misconfigured(
                f"streams {', '.join(one.name for one in streams)} share a landing and differ in {name}, which is of whole files: "
                "give all of them the same"
            )
    return tuple(streams)


def streams_with(stream: Stream, project: Mapping[str, Stream]) -> tuple[Stream, ...]:
    """All streams that are read with one, its landing's own first; see `sharing`.

    Args:
        stream: which; it need not be of the project.
        project: streams by name, among which the others are.

    Raises:
        Misconfigured: they cannot share a landing.
    """
    return sharing({**project, stream.name: stream}, stream.name)
