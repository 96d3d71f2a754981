"""Check at the start of a run that a bucket's store can be reached, and that it supports conditional writes."""

import re
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from keyfold.errors import KeyfoldError, Misconfigured, Unreachable
from keyfold.lazy_names import from_extra
from keyfold.storage.bucket_object import check_bucket_exists
from keyfold.storage.bucket_path import BucketPath
from keyfold.storage.place import to_place
from keyfold.storage.store_failures import NotAnsweringError

if TYPE_CHECKING:
    import obstore
else:
    (obstore,) = from_extra("buckets", "obstore")

_WITHIN = timedelta(seconds=10)

_TRIES_OF_A_BUSY_STORE = 10
_BUSY = re.compile(r"SlowDown|ServiceUnavailable|TooManyRequests|\b(429|500|503) [A-Z]")

_ROLES = ("169.254.169.254", "metadata.google.internal")
"""Addresses that clients ask for the machine's role."""

_CERTIFICATE = re.compile(r"InvalidCertificate\(\s*(\w+)")
_BAD_CERTIFICATES = {
    "NotValidForName": "it is for another host name",
    "UnknownIssuer": "no authority that this machine trusts has signed it",
    "BadSignature": "no authority that this machine trusts has signed it",
    "Expired": "it has expired",
    "NotValidYet": "it is not valid yet by this machine's clock",
}
"""Why the client refuses a certificate, by the beginning of its error's name."""

# Not 401 or 403 alone: a port or an object's name may contain these digits.
_REFUSALS = (
    "status code: 401",
    "status code: 403",
    "AuthenticationFailed",
    "AuthorizationFailure",
    "AccessDenied",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
)


def check_reachable(place: object) -> None:
    """Check that a place in a bucket can be listed. For other places, do nothing.

    Raises:
        NotAnsweringError: the store does not answer.
        KeyfoldError: the bucket does not exist, or the store refuses access; the message says what to set.
    """
    # Text may be the URL of a bucket; a `Path` never is one.
    bucket = to_place(place) if isinstance(place, str | BucketPath) else None
    if not isinstance(bucket, BucketPath):
        return
    # One retry only, since retries do not help with wrong settings; more for a store that says it is busy.
    for retries in (1, _TRIES_OF_A_BUSY_STORE):
        try:
            listed = obstore.list(_store(bucket, retries), prefix=f"{bucket.key}/" if bucket.key else None)
            next(iter(listed), None)
        except (obstore.exceptions.BaseError, OSError) as error:
            if retries == 1 and _BUSY.search(str(error)):
                continue
            check_bucket_exists(bucket, error)
            raise _explained(bucket, error) from None
        return


def check_conditions(home: object) -> None:
    """Check that a bucket's store honours conditional writes. Without them, two runs could hold one lease.

    Raises:
        KeyfoldError: the store ignores the condition, or cannot be written to.
    """
    place = to_place(home) if isinstance(home, str | BucketPath) else None
    if not isinstance(place, BucketPath) or str(place) in _CHECKED:
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
                f"the store of {place} takes writes whose condition does not hold (If-None-Match, If-Match), so two runs could "
                "write at the same time; use a store with conditional writes: Amazon S3, Google Cloud Storage, Azure Blob "
                "Storage, or newer versions of MinIO, Ceph and others"
            )
        try:
            probe.write_if_unchanged(b"three", tag)
        except FileExistsError:
            # Not a failure if the first try succeeded, its answer was lost, and the retry found what it had written.
            if probe.read_bytes() != b"three":
                raise
    except OSError as error:
        raise Unreachable(f"{place} cannot be written: {error}") from None
    finally:
        probe.unlink(missing_ok=True)
    _CHECKED.add(str(place))


def _created(probe: BucketPath, content: bytes) -> str:
    """Create an object with a unique name. If it exists, it is ours: the answer to the first try was lost."""
    try:
        return probe.create(content)
    except FileExistsError:
        return probe.read_with_tag()[1]


_CHECKED: set[str] = set()
"""Places whose store was found to honour conditional writes."""


def _store(place: BucketPath, retries: int) -> Any:
    few = {"max_retries": retries, "retry_timeout": 2 * _WITHIN}
    return place.provider.store(place.bucket, retries=few, connect_timeout=_WITHIN, timeout=_WITHIN)


def _explained(place: BucketPath, error: Exception) -> KeyfoldError:
    provider = place.provider
    said, where = provider.without_secrets(str(error)), provider.shown
    if "RequestTimeTooSkewed" in said:
        return KeyfoldError(
            f"{place}: {where} refuses requests, since this machine's clock differs too much from its own: set the clock (by "
            "NTP), and run this again"
        )
    if found := _CERTIFICATE.search(str(error)):
        why = next((text for sign, text in _BAD_CERTIFICATES.items() if found[1].startswith(sign)), found[1])
        return Misconfigured(
            f"{place}: {where} shows a certificate that is not accepted: {why}; use the certificate's host name in "
            f"{provider.endpoint}, or give a file with a trusted authority in SSL_CERT_FILE"
        )
    is_refused = any(sign in said for sign in _REFUSALS)
    # Without a key, the client asks for the machine's role: its failure means missing credentials.
    if (is_refused or any(role in said for role in _ROLES)) and not provider.has_credentials:
        return KeyfoldError(
            f"{place}: no credentials: {provider.needed} are not set, and this machine has no role of its own; set them "
            "(docs/how-to/use-a-bucket.md)"
        )
    if is_refused:
        return KeyfoldError(
            f"{place}: {where} refuses these credentials; they must allow listing, reading, writing and deleting there"
        )
    return NotAnsweringError(
        f"{place}: {where} does not answer ({said[:200]}); check {provider.endpoint} and the network"
    )
