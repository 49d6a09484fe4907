"""``http://…`` and ``https://…``: a detector behind an address.

``HttpDetector`` joins a ``Transport`` (how to ask) to a ``Format`` (what to send and how to read the answer);
``load_http`` makes one from a spec. Cloud services bring their own ``Format`` and use the same two.
"""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from misdetect.detectors.http import formats
from misdetect.detectors.http.formats import FORMATS, Format, Image, Reading, Request
from misdetect.detectors.http.transport import Auth, Policy, Transport
from misdetect.detectors.names import read_names
from misdetect.detectors.outputs import CORNERS
from misdetect.kept.budget import Budget
from misdetect.nouns.detections import Detections
from misdetect.nouns.picture import Pixels, check_pixels, digest
from misdetect.nouns.spec import Spec
from misdetect.nouns.user_code import resolve
from misdetect.said.errors import BadArray, BadSpec, DetectorFailed

_SECRET = re.compile(r"auth|cookie|token|secret|passw|signature|api[-_]?key|(^|[-_])key$|(^|[-_])sig$", re.IGNORECASE)


class HttpDetector:
    """A detector behind an address (level ``Detector``).

    ``budget`` may be assigned: every attempt, retries included, takes one query from it (and from the spec's own
    limits) before it is sent. ``limits`` are those of the spec, as arguments for a ``Budget`` with a file to share
    between workers, ``counted_in`` that file where it is known already; ``asked_before`` counts requests that were made
    and are not in it.
    ``fingerprint`` is ``None`` unless the spec vouches for a ``version``: what is behind an address
    can change, and then answers of another run are not this detector's.
    """

    def __init__(
        self,
        spec: str,
        transport: Transport,
        format: Format,
        reading: Reading,
        *,
        encoding: tuple[str, int] = ("png", 95),
        budget: Budget | None = None,
        settings: dict[str, Any] | None = None,
        fingerprint: str | None = None,
        asked_before: int = 0,
    ) -> None:
        self.spec, self.transport, self.format, self.reading = spec, transport, format, reading
        self.encoding = encoding
        self.budget = self._own = budget
        self.settings = settings or {}
        self.fingerprint = fingerprint
        self.asked_before = asked_before
        self.names = reading.names
        self.concurrency = self.batch_size = transport.policy.concurrency

    @property
    def limits(self) -> dict[str, Any]:
        """The spec's ``queries``, ``usd`` and ``price``, ready for ``Budget(path=…, **limits)``."""
        own = self._own or Budget()
        return {"queries": own.queries, "usd": own.usd, "price": own.price}

    @property
    def counted_in(self) -> Path | None:
        """The file in which the spec's own limits are counted; ``None`` where that is this process's memory."""
        return None if self._own is None else self._own.path

    def detect(self, images: Sequence[Pixels]) -> list[Any]:
        """One entry per image, in order: ``Detections``, or the ``DetectorFailed`` or ``BudgetSpent`` in its place.

        Failures are entries and are not raised, because the other images' answers may have been paid for. (Typed
        ``Any`` so that this is still a ``Detector``, whose callers that do not expect failures see none in practice.)
        """
        images = [check_pixels(image) for image in images]
        encoded: list[Image | None] = [None] * len(images)

        def prepare(i: int) -> Request:
            image = encoded[i] = formats.encode(images[i], *self.encoding)
            try:
                return self.format.request(image)
            except Exception as error:
                raise self._wrong("making the request", error) from error

        bodies = self.transport.exchange([partial(prepare, i) for i in range(len(images))], self._take)
        return [
            self._read(body, image) if isinstance(body, bytes) and image is not None else body
            for body, image in zip(bodies, encoded, strict=True)
        ]

    def counted(self) -> dict[str, int]:
        """``requests`` since this was last asked, that for class names among them, and those that were ``retried``."""
        return self.transport.counted()

    def close(self) -> None:
        """Close connections and the background thread; a later ``detect`` opens them again."""
        self.transport.close()

    def __repr__(self) -> str:
        return f"HttpDetector({self.spec!r})"

    def _take(self) -> None:
        # Both, where the engine brought its own: its limit must not lift the one the user wrote into the spec. But one
        # that is counted in the same file holds both limits, and a request is counted once.
        same = self.budget is not None and self.budget.path is not None and self.budget.path == self.counted_in
        if self._own is not None and self._own is not self.budget and not same:
            self._own.take()
        if self.budget is not None:
            self.budget.take()

    def _read(self, body: bytes, image: Image) -> Detections | DetectorFailed:
        try:
            found = self.format.answer(formats.parse_json(body), image)
            return self.reading.detections(found, image)
        except BadArray as error:
            return self.transport.failed(f"gave an answer that cannot be used: {error}")
        except Exception as error:  # the user's own format may raise anything
            return self._wrong("reading the answer", error)

    def _wrong(self, doing: str, error: Exception) -> DetectorFailed:
        name = self.settings.get("format", "its format")
        return self.transport.failed(f"could not be used: {doing} by {name} raised {type(error).__name__}: {error}")


def load_http(spec: Spec) -> HttpDetector:
    """The detector of an ``http://`` or ``https://`` spec; its options are listed in docs/http.md."""
    url = address_of(spec)
    format_name, format, source = _format(spec)
    policy = policy_of(spec)
    transport = Transport(url, policy, auth=_auth(spec), headers=_headers(spec))
    budget, limits = budget_of(spec)
    encoding = (spec.take("encode", "png", choices=("png", "jpeg")), int(number_within(spec, "quality", 95, 1, 100)))
    how = {
        "layout": spec.take("layout", format.layout, choices=tuple(CORNERS)),
        "units": spec.take("units", format.units, choices=formats.UNITS),
        "ids": spec.take("ids", format.ids, choices=formats.IDS),
        "unknown": spec.take("unknown", "error", choices=("error", "drop")),
    }
    version, names_value = spec.take("version", ""), spec.take("names", "")
    tensor = {name: spec.options[name] for name in ("input", "tensor") if name in spec.options}
    spec.finish()
    asked = 0
    if names_value:
        names = read_names(names_value, spec.text)
    elif format_name == "misdetect":
        if spec.known_names is not None:
            names = spec.known_names
        else:
            names, asked = _fetch_names(transport, budget)
            if budget is not None and spec.counted is not None and budget.path == Budget(path=spec.counted).path:
                asked = 0
    else:
        raise BadSpec(f"{spec.text!r}: give names=coco or names=FILE; only format=misdetect can ask its endpoint.")
    answering: dict[str, Any] = {"url": url, "format": format_name, "encode": encoding[0], "headers": transport.headers}
    answering |= how | tensor
    if encoding[0] == "jpeg":
        answering["quality"] = encoding[1]
    asking = {"concurrency": policy.concurrency, "timeout": policy.timeout, "retries": policy.retries}
    known = digest("http", sorted(answering.items()), source, names, version) if version else None
    return HttpDetector(
        spec.text,
        transport,
        format,
        Reading(names, **how),
        encoding=encoding,
        budget=budget,
        settings=answering | asking | limits | {"version": version or None},
        fingerprint=known,
        asked_before=asked,
    )


def address_of(spec: Spec) -> str:
    """The URL, refused where it carries a secret: a spec is stored with every run."""
    try:
        url = httpx.URL(spec.target)
        urlsplit(spec.target)  # sees brackets that are open
    except (httpx.InvalidURL, ValueError) as error:
        raise BadSpec(f"{spec.target!r} is not an address: {error}.") from None
    if url.scheme not in ("http", "https") or not url.host or not 0 <= (url.port or 80) <= 65535:
        raise BadSpec(f"Expected an address such as http://host/path. Got {spec.target!r}.")
    if url.userinfo:
        raise BadSpec(
            f"The address of {url.host} holds a user or password, and specs are stored: use auth_env=VARIABLE."
        )
    for name in url.params:
        if _SECRET.search(name):
            raise BadSpec(
                f"The address of {url.host} holds {name!r}, and specs are stored: leave it out and give "
                f"auth_env=VARIABLE,auth_query={name}."
            )
    return spec.target


def _format(spec: Spec) -> tuple[str, Format, str]:
    """The format's name, the format, and a hash of its source where it is the user's own."""
    name = spec.take("format", "misdetect")
    if name == "kserve":
        tensor = spec.take("tensor", "base64", choices=("base64", "pixels"))
        return name, formats.kserve(spec.take("input", "image"), tensor), ""
    if name in FORMATS:
        return name, FORMATS[name], ""
    if not name.startswith("python:"):
        known = ", ".join([*FORMATS, "python:module:factory"])
        raise BadSpec(f"{spec.text!r}: format={name} is not one of {known}.")
    factory, source = resolve(name.removeprefix("python:"), spec.text)
    try:
        made = factory()
    except Exception as error:
        raise DetectorFailed(f"{spec.text!r}: calling {name} raised {type(error).__name__}: {error}.") from error
    return name, formats.own_format(made, spec.text), source


def number_within(spec: Spec, name: str, default: float, low: float, high: float) -> float:
    value = spec.take(name, default)
    if not low <= value <= high:
        raise BadSpec(f"{spec.text!r}: {name}={spec.options[name]} should be from {low:g} to {high:g}.")
    return value


def policy_of(spec: Spec) -> Policy:
    return Policy(
        concurrency=int(number_within(spec, "concurrency", 8, 1, 256)),
        timeout=number_within(spec, "timeout", 30.0, 0.001, 3600),
        retries=int(number_within(spec, "retries", 4, 0, 20)),
        backoff=number_within(spec, "backoff", 0.5, 0, 60),
        max_bytes=int(number_within(spec, "max_mb", 32.0, 0.001, 1024) * 2**20),
    )


def _auth(spec: Spec) -> Auth:
    auth = Auth(spec.take("auth_env", ""), spec.take("auth_header", "Authorization"), spec.take("auth_query", ""))
    if not auth.env and ("auth_header" in spec.options or auth.query):
        raise BadSpec(f"{spec.text!r}: auth_header= and auth_query= need auth_env=VARIABLE, which holds the secret.")
    if not re.fullmatch(r"[A-Za-z0-9-]+", auth.header):
        raise BadSpec(f"{spec.text!r}: auth_header={auth.header} is not the name of a header.")
    return auth


def _headers(spec: Spec) -> dict[str, str]:
    headers = {}
    for option in [name for name in spec.options if name.startswith("header.")]:
        # A spec reads '-' in an option's name as '_'; no server accepts the latter in a header.
        name, value = option.removeprefix("header.").replace("_", "-"), spec.take(option, "")
        if _SECRET.search(name):
            raise BadSpec(
                f"header.{name} looks like a secret, and specs are stored: give auth_env=VARIABLE,auth_header={name}."
            )
        if not re.fullmatch(r"[A-Za-z0-9-]+", name) or not value.isascii() or not value.isprintable():
            raise BadSpec(f"{spec.text!r}: header.{name}={value} is not a header.")
        headers[name] = value
    return dict(sorted(headers.items()))


def budget_of(spec: Spec) -> tuple[Budget | None, dict[str, Any]]:
    """The spec's own limits, as a budget (``None`` where it names none) and for the record."""
    queries, usd, price = spec.take("max_requests", 0), spec.take("usd", 0.0), spec.take("price", 0.0)
    file = spec.take("budget_file", "")
    if queries < 0:
        raise BadSpec(f"{spec.text!r}: max_requests={queries} should be 0 or more.")
    limits: dict[str, Any] = {
        "max_requests": queries if "max_requests" in spec.options else None,
        "usd": usd if "usd" in spec.options else None,
        "price": price,
    }
    if not {"max_requests", "usd", "price", "budget_file"} & spec.options.keys() and not spec.limited:
        return None, limits
    counted = Path(file) if file else spec.counted
    return Budget(limits["max_requests"], limits["usd"], price, path=counted), limits


def _fetch_names(transport: Transport, budget: Budget | None) -> tuple[tuple[str, ...], int]:
    """What ``GET url`` says its class names are, and how many requests that took: each is one like any other."""
    asked = 0

    def take() -> None:
        nonlocal asked
        if budget is not None:
            budget.take()
        asked += 1

    (body,) = transport.exchange([lambda: Request(b"", {}, method="GET")], take)
    if not isinstance(body, bytes):
        transport.close()
        raise body
    try:
        return formats.read_names_field(formats.parse_json(body)), asked
    except BadArray as error:
        raise transport.failed(f"did not say its class names (give names=): {error}") from None
