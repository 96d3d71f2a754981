"""Seal a record with a second line, which has its number and a digest of both: a torn or edited record is refused.

A plan and a commit record have the number of their batch. A record that is replaced, such as `clock.json` and `live.json`, has a
number that increases. The digest shows accidents, and not the changes of somebody who computes it again.
"""

from keyfold.lakehouse.checksums import checksum_of_bytes


def sealed(content: bytes, number: int) -> bytes:
    r"""Return a record of one line with its number and digest.

    Example:
        >>> sealed(b"{}", 3)
        b'{}\n3 97cc07420dca975c\n'
    """
    return content + f"\n{number} {checksum_of_bytes(content + str(number).encode())}\n".encode()


def unsealed(record: bytes) -> tuple[bytes, int]:
    """Return the content of a sealed record, and its number.

    Raises:
        ValueError: it has no digest, or another one.
    """
    content, _, end = record.partition(b"\n")
    number = end.partition(b" ")[0]
    if not number.isdigit():
        raise ValueError("it lacks the line with its checksum")
    if sealed(content, int(number)) != record:
        raise ValueError("its checksum is another one")
    return content, int(number)
