"""Parse environment variables with an entry for each stream, such as KEYFOLD_LANDING."""

from collections.abc import Mapping

from keyfold.errors import Misconfigured
from keyfold.project import project_streams
from keyfold.session.settings import parse_conf


def values_by_stream(variable: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Parse the entries `stream=value` of a variable, separated by blanks.

    Raises:
        Misconfigured: an entry is invalid, there is no such stream, or the stream shares the landing of another one.
    """
    values = parse_conf(environment.get(variable, ""), variable)
    for stream in values:
        if stream not in project_streams():
            raise Misconfigured(
                f"{variable} names {stream}, but there is no such stream; streams: {', '.join(project_streams())}"
            )
        if owner := project_streams()[stream].landing:
            raise Misconfigured(f"{variable} names {stream}, which shares the landing of {owner}: name {owner} instead")
    return values
