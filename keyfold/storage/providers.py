"""Providers of buckets: Amazon S3 and stores with its interface, Google Cloud Storage, Azure Blob Storage.

One client reaches all of them. It reads the same variables of the environment as Delta's library and Polars.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from keyfold.lazy_names import from_extra

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore, S3Store
else:
    S3Store, GCSStore, AzureStore = from_extra("buckets", "obstore.store", "S3Store", "GCSStore", "AzureStore")


@dataclass(frozen=True)
class Provider:
    """Where buckets are kept.

    Attributes:
        name: its name in messages.
        scheme: the scheme of its URLs, as Keyfold shows them.
        url_scheme: the scheme that Delta's library and Polars take.
        client: makes the client of a bucket.
        endpoint: variable that names another address.
        credentials: variables, each of which is a way to give credentials.
        needed: the variables to name when there are none.
        secrets: variables whose values must not be shown.
    """

    name: str
    scheme: str
    url_scheme: str
    client: Callable[..., Any]
    endpoint: str
    credentials: tuple[str, ...]
    needed: str
    secrets: tuple[str, ...]

    @property
    def address(self) -> str:
        """The address of the store that the environment names; empty for the provider's own."""
        if self.is_emulated:
            return os.environ.get("AZURITE_BLOB_STORAGE_URL", "http://127.0.0.1:10000")
        return os.environ.get(self.endpoint, "")

    @property
    def is_emulated(self) -> bool:
        """Whether the environment names Azure's emulator, which has credentials of its own."""
        return self is AZURE and os.environ.get("AZURE_STORAGE_USE_EMULATOR", "").lower() in ("1", "true")

    @property
    def shown(self) -> str:
        """The store that the environment names, for messages."""
        region = f" in {os.environ.get('AWS_REGION') or 'us-east-1'}" if self is AMAZON else ""
        return self.without_secrets(self.address) or f"{self.name}{region}"

    @property
    def has_credentials(self) -> bool:
        """Whether the environment gives credentials."""
        return self.is_emulated or any(os.environ.get(name) for name in self.credentials)

    def store(self, bucket: str, *, retries: dict[str, Any], **options: Any) -> Any:
        """Return a client of a bucket, configured by the environment."""
        options["allow_http"] = self.address.startswith("http://")
        return self.client(bucket, client_options=options, retry_config=retries)

    def without_secrets(self, text: str) -> str:
        """Return an error's text in one line, without the client's debug output and the values of secret variables."""
        text = " ".join(text.split("\n\nDebug source:", maxsplit=1)[0].split())
        for name in self.secrets:
            if secret := os.environ.get(name):
                text = text.replace(secret, "(hidden)")
        return _SIGNATURE.sub(r"\1(hidden)", text)


# A request with a shared access signature has it in its URL, which errors quote.
_SIGNATURE = re.compile(r"([?&]sig=)[^&\s]+")

AMAZON = Provider(
    name="Amazon S3",
    scheme="s3a",
    url_scheme="s3",
    client=S3Store,
    endpoint="AWS_ENDPOINT_URL",
    credentials=(
        "AWS_ACCESS_KEY_ID",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    ),
    needed="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    secrets=("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID"),
)
GOOGLE = Provider(
    name="Google Cloud Storage",
    scheme="gs",
    url_scheme="gs",
    client=GCSStore,
    endpoint="GOOGLE_BASE_URL",
    credentials=(
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_SERVICE_ACCOUNT",
        "GOOGLE_SERVICE_ACCOUNT_PATH",
        "GOOGLE_SERVICE_ACCOUNT_KEY",
        "GOOGLE_BEARER_TOKEN",
    ),
    needed="GOOGLE_APPLICATION_CREDENTIALS",
    secrets=("GOOGLE_SERVICE_ACCOUNT_KEY", "GOOGLE_BEARER_TOKEN"),
)
AZURE = Provider(
    name="Azure Blob Storage",
    scheme="az",
    url_scheme="az",
    client=AzureStore,
    endpoint="AZURE_STORAGE_ENDPOINT",
    credentials=(
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_SAS_KEY",
        "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_STORAGE_TOKEN",
        "AZURE_CLIENT_ID",
        "AZURE_STORAGE_CLIENT_ID",
        "IDENTITY_ENDPOINT",
    ),
    needed="AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
    secrets=(
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_SAS_KEY",
        "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_STORAGE_TOKEN",
        "AZURE_CLIENT_SECRET",
        "AZURE_STORAGE_CLIENT_SECRET",
    ),
)

PROVIDERS = {"s3": AMAZON, "s3a": AMAZON, "gs": GOOGLE, "az": AZURE}
"""Providers by the scheme of a URL."""
FORMS = "s3://BUCKET/FOLDER, gs://BUCKET/FOLDER or az://CONTAINER/FOLDER"
