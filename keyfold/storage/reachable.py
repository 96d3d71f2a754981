"""Whether a bucket's store can be reached, and keeps conditions: told at once, and not minutes into a run."""

import os
import re
import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from keyfold.errors import KeyfoldError, Misconfigured, Unreachable
from keyfold.extras import from_extra
from keyfold.storage.object_path import ObjectPath
from keyfold.storage.place import to_place
from keyfold.storage.remote_path import NotAnsweringError, RemotePath

if TYPE_CHECKING:
    import obstore
    from obstore.store import S3Store
else:
    (obstore,) = from_extra("s3", "obstore")
    (S3Store,) = from_extra("s3", "obstore.store", "S3Store")

_WITHIN = timedelta(seconds=10)

_TRIES_OF_A_BUSY_STORE = 10
_BUSY = re.compile(r"SlowDown|ServiceUnavailable|TooManyRequests|\b(429|500|503) [A-Z]")

_ROLES = "169.254.169.254"

# Each is a way to credentials that Delta's library, Polars and this code know.
_CREDENTIALS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)

_CERTIFICATE = re.compile(r"InvalidCertificate\(\s*(\w+)")
_BAD_CERTIFICATES = {
    "NotValidForName": "it is for another host name",
    "UnknownIssuer": "nobody whom this machine trusts has signed it",
    "BadSignature": "nobody whom this machine trusts has signed it",
    "Expired": "it has expired",
    "NotValidYet": "it is not valid yet by this machine's clock",
}
"""What the client says of a certificate that it refuses, by how that begins."""

# Not the number alone: a port or a key's name has it as well.
_REFUSALS = (
    "status code: 401",
    "status code: 403",
    "AccessDenied",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
)


def check_reachable(place: object, environment: Mapping[str, str] = os.environ) -> None:
    """See that a place, where it is one of a bucket, can be looked at; of any other, nothing.

    Raises:
        NotAnsweringError: the store does not answer.
        KeyfoldError: it does not know the bucket, or refuses; says what to set.
    """
    found = to_place(place) if isinstance(place, str | RemotePath) else None
    if not isinstance(found, ObjectPath):
        return
    # Once and not for long, since wrong settings are as wrong at the tenth try; but a store that is busy is asked again.
    for retries in (1, _TRIES_OF_A_BUSY_STORE):
        try:
            listed = obstore.list(_store(found, environment, retries), prefix=f"{found.key}/" if found.key else None)
            next(iter(listed), None)
        except (obstore.exceptions.BaseError, OSError) as error:
            if retries == 1 and _BUSY.search(str(error)):
                continue
            raise _told(found, error, environment) from None
        return


def check_conditions(home: object) -> None:
    """See that a bucket's store keeps the condition of a write: where it did not, two runs could hold one lease.

    Raises:
        KeyfoldError: it writes whether a condition holds or not, or cannot be written to.
    """
    place = to_place(home) if isinstance(home, str | RemotePath) else None
    if not isinstance(place, ObjectPath) or str(place) in _KEPT:
        return
    probe = place / f".conditions-{uuid.uuid4().hex}"
    try:
        tag = _created(probe, b"one")
        for attempt in (
            lambda: probe.create(b"two"),
            lambda: probe.write_if_unchanged(b"two", f'"{uuid.uuid4().hex}"'),
        ):
            try:
                attempt()
            except FileExistsError:
                continue
            raise Misconfigured(
                f"the store of {place} takes writes whose condition does not hold (If-None-Match, If-Match), so that nothing "
                "would keep two runs apart; use a store that keeps them: Amazon S3 does, and so do MinIO, Ceph and others in "
                "newer versions"
            )
        try:
            probe.write_if_unchanged(b"three", tag)
        except FileExistsError:
            # The answer to a first try was lost, and the second found what the first had written.
            if probe.read_bytes() != b"three":
                raise
    except OSError as error:
        raise Unreachable(f"{place} cannot be written: {error}") from None
    finally:
        probe.unlink(missing_ok=True)
    _KEPT.add(str(place))


def _created(probe: ObjectPath, content: bytes) -> str:
    """Create an object by a name that nobody else has: one that is there already is of a try whose answer was lost."""
    try:
        return probe.create(content)
    except FileExistsError:
        return probe.read_with_tag()[1]


_KEPT: set[str] = set()
"""Places whose store was seen to keep conditions."""


def _store(place: ObjectPath, environment: Mapping[str, str], retries: int) -> S3Store:
    plain = environment.get("AWS_ENDPOINT_URL", "").startswith("http://")
    return S3Store(
        place.bucket,
        client_options={"allow_http": plain, "connect_timeout": _WITHIN, "timeout": _WITHIN},
        retry_config={"max_retries": retries, "retry_timeout": 2 * _WITHIN},
    )


def _told(place: ObjectPath, error: Exception, environment: Mapping[str, str]) -> KeyfoldError:
    said = " ".join(str(error).split("\n\nDebug source:")[0].split())
    where = environment.get("AWS_ENDPOINT_URL") or f"Amazon S3 in {environment.get('AWS_REGION') or 'us-east-1'}"
    if "NoSuchBucket" in said:
        return KeyfoldError(f"{place}: {where} has no bucket {place.bucket}; make it, or name another")
    if "RequestTimeTooSkewed" in said:
        return KeyfoldError(
            f"{place}: {where} refuses requests of this machine, whose clock differs too much from its own: set the clock (by "
            "NTP), and run this again"
        )
    if found := _CERTIFICATE.search(str(error)):
        why = next((text for sign, text in _BAD_CERTIFICATES.items() if found[1].startswith(sign)), found[1])
        return Misconfigured(
            f"{place}: {where} shows a certificate that is not accepted: {why}; give AWS_ENDPOINT_URL the name that is in the "
            "certificate, or name the file of an authority that is trusted in SSL_CERT_FILE"
        )
    is_refused = any(sign in said for sign in _REFUSALS)
    # With no key set a machine's role is asked for, at this address; that one answers, and the store does not, is another matter.
    if (is_refused or _ROLES in said) and not any(environment.get(name) for name in _CREDENTIALS):
        return KeyfoldError(
            f"{place}: no credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set, and this machine has no role "
            "of its own; set them (docs/how-to/use-a-bucket.md)"
        )
    if is_refused:
        return KeyfoldError(
            f"{place}: {where} refuses these credentials; they must allow to list, read, write and delete there"
        )
    for name in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID"):
        if secret := environment.get(name):
            said = said.replace(secret, "(hidden)")
    return NotAnsweringError(
        f"{place}: {where} does not answer ({said[:200]}); check AWS_ENDPOINT_URL, AWS_REGION and the network"
    )
