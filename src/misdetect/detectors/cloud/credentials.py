"""Credentials of the cloud services: found where each service's own tools look, put on a request, never kept.

A ``Credentials`` signs one request and says which strings are secret, so that ``CloudTransport`` can strike them out
of messages. Specs, settings, pickles and reprs hold the *names* of environment variables at most.
"""

import asyncio
import hashlib
import hmac
import importlib
import os
import threading
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol
from urllib.parse import quote

import httpx

from misdetect.detectors.http.transport import Again, Policy, Transport, for_header, struck_out
from misdetect.said.errors import BadSpec, DetectorFailed, MissingExtra

_SIGNED = ("host", "content-type")
_UNRESERVED = "-_.~"


class Credentials(Protocol):
    """What ``CloudTransport`` needs of credentials; ``sign`` may be called from any thread and may ask the network."""

    def sign(self, request: httpx.Request) -> None: ...

    def secrets(self) -> list[str]: ...


class NoCredentials:
    """For a service that asks for none."""

    def sign(self, request: httpx.Request) -> None:
        pass

    def secrets(self) -> list[str]:
        return []


@dataclass(frozen=True)
class HeaderKey:
    """A key in the environment variable ``variable``, sent as ``header`` (never in an address, which gets logged)."""

    variable: str
    header: str

    def sign(self, request: httpx.Request) -> None:
        request.headers[self.header] = self._key()

    def secrets(self) -> list[str]:
        return [value] if (value := os.environ.get(self.variable, "").strip()) else []

    def _key(self) -> str:
        return for_header(self.variable, f"The environment variable {self.variable}", "key")


def header_key(variables: tuple[str, ...], header: str) -> HeaderKey | None:
    """The key in the first of ``variables`` that is set, checked; ``None`` where none is."""
    variable = next((name for name in variables if os.environ.get(name, "").strip()), None)
    if variable is None:
        return None
    key = HeaderKey(variable, header)
    key._key()
    return key


@dataclass(frozen=True)
class AwsKeys:
    """A set of AWS credentials; ``token`` only with temporary ones."""

    access: str = field(repr=False)
    secret: str = field(repr=False)
    token: str = field(default="", repr=False)


class AwsCredentials:
    """The AWS chain: environment, then (with boto3) profiles, SSO, containers and instance roles, renewed by boto3.

    The signature is computed here and not by botocore, whose signer writes the session token into its debug log.
    """

    def __init__(self, region: str, service: str) -> None:
        self.region, self.service = region, service
        boto3 = _module("boto3")
        self._chain: Any = None if boto3 is None else boto3.Session().get_credentials()
        if self._chain is None and boto3 is not None:
            raise BadSpec(
                f"{service}: boto3 found no AWS credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
                "AWS_PROFILE."
            )
        self._last = self._now()

    def __reduce__(self) -> Any:
        return AwsCredentials, (self.region, self.service)

    def _now(self) -> AwsKeys:
        if self._chain is not None:
            frozen = self._chain.get_frozen_credentials()
            return AwsKeys(frozen.access_key, frozen.secret_key, frozen.token or "")
        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        access, secret, token = (os.environ.get(name, "").strip() for name in names)
        if not access or not secret:
            raise MissingExtra.named(f"{self.service}: without {names[0]} and {names[1]} in the environment", "cloud")
        return AwsKeys(access, secret, token)

    def sign(self, request: httpx.Request) -> None:
        self._last = self._now()
        sign_v4(request, self._last, self.region, self.service, datetime.now(UTC))

    def secrets(self) -> list[str]:
        return [value for value in (self._last.secret, self._last.token, self._last.access) if value]


def sign_v4(request: httpx.Request, keys: AwsKeys, region: str, service: str, now: datetime) -> None:
    """Put AWS Signature Version 4 on ``request`` (its body is known), over its host, type and ``X-Amz-`` headers."""
    stamp = now.strftime("%Y%m%dT%H%M%SZ")
    request.headers["X-Amz-Date"] = stamp
    if keys.token:
        request.headers["X-Amz-Security-Token"] = keys.token
    signed = {
        name: " ".join(value.split())
        for name, value in sorted(request.headers.items())
        if name in _SIGNED or name.startswith("x-amz-")
    }
    params = [[quote(text, safe=_UNRESERVED) for text in pair] for pair in request.url.params.multi_items()]
    canonical = [
        request.method,
        quote(request.url.raw_path.partition(b"?")[0], safe=f"/{_UNRESERVED}"),  # encoded twice, as AWS wants it
        "&".join("=".join(pair) for pair in sorted(params)),
        *(f"{name}:{value}" for name, value in signed.items()),
        "",
        ";".join(signed),
        hashlib.sha256(request.read()).hexdigest(),
    ]
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    digest = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
    key = f"AWS4{keys.secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}".encode(), "sha256").hex()
    request.headers["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={keys.access}/{scope}, SignedHeaders={';'.join(signed)}, Signature={signature}"
    )


def aws_region(given: str) -> str:
    """The region ``given``, or the one of the environment, or of the AWS configuration (with boto3)."""
    region = given or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""
    if not region and (boto3 := _module("boto3")) is not None:
        region = boto3.Session().region_name or ""
    return region


class GoogleCredentials:
    """Google's application default credentials by google-auth: its token, renewed when it ends."""

    scope = "https://www.googleapis.com/auth/cloud-vision"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        auth = _module("google.auth")
        self._requests = _module("google.auth.transport.requests")
        if auth is None or self._requests is None:
            raise MissingExtra.named(
                "google-vision: without GOOGLE_VISION_API_KEY or GOOGLE_API_KEY in the environment", "cloud"
            )
        try:
            self._credentials, _ = auth.default(scopes=[self.scope])
        except auth.exceptions.DefaultCredentialsError:
            raise BadSpec(
                "google-vision: no credentials; set GOOGLE_VISION_API_KEY, or GOOGLE_APPLICATION_CREDENTIALS to a key "
                "file, or run 'gcloud auth application-default login'."
            ) from None

    def __reduce__(self) -> Any:
        return GoogleCredentials, ()

    def sign(self, request: httpx.Request) -> None:
        headers: dict[str, str] = {}
        with self._lock:
            if not self._credentials.valid:
                self._credentials.refresh(self._requests.Request())
            self._credentials.apply(headers)
        request.headers.update(headers)

    def secrets(self) -> list[str]:
        return [self._credentials.token] if self._credentials.token else []


class CloudTransport(Transport):
    """A ``Transport`` whose every attempt is signed by ``credentials``, and that asks again where ``passes(status,
    body)`` says that a refusal is one that passes."""

    def __init__(
        self,
        url: str,
        policy: Policy,
        credentials: Credentials,
        passes: Callable[[int, bytes], bool] | None = None,
    ) -> None:
        super().__init__(url, policy)
        self.credentials, self.passes = credentials, passes

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"credentials": self.credentials, "passes": self.passes}

    def _client(self) -> httpx.AsyncClient:
        client = super()._client()
        client.auth = _Signing(self.credentials)
        return client

    def _judge(self, response: httpx.Response, body: bytes | None) -> bytes | DetectorFailed | Again:
        if body is not None and self.passes is not None and self.passes(response.status_code, body):
            text = self._hide(" ".join(body.decode("utf-8", "replace").split()))[:200]
            return Again(f"status {response.status_code}: {text}")
        return super()._judge(response, body)

    def _hide(self, text: str) -> str:
        for secret in self.credentials.secrets():
            for form in {secret, quote(secret, safe=""), secret.replace("/", "\\/")}:
                text = struck_out(text, form)
        return text


class _Signing(httpx.Auth):
    """Lets ``credentials`` sign each attempt anew, off the event loop: they may have to be fetched first."""

    def __init__(self, credentials: Credentials) -> None:
        self.credentials = credentials

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        await asyncio.to_thread(self.credentials.sign, request)
        yield request


def _module(name: str) -> Any:
    """The module ``name``, or ``None`` where it is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None
