"""``rekognition:``, ``google-vision:``, ``azure-vision:`` and ``max:``: the four services that paper 4 tested.

One table of services; each row says how a spec becomes an address, credentials, a request and a reading. Asking itself
(concurrency, retries, budget) is the HTTP detector's. What each option means is in docs/cloud.md.
"""

import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from misdetect.detectors.cloud import credentials
from misdetect.detectors.cloud import formats as shapes
from misdetect.detectors.cloud.credentials import CloudTransport, Credentials
from misdetect.detectors.cloud.labels import Labels, read_labels, service_labels
from misdetect.detectors.http.endpoint import HttpDetector, address_of, budget_of, number_within, policy_of
from misdetect.detectors.http.formats import Format, Found, Image, Reading, Request
from misdetect.detectors.names import read_names
from misdetect.nouns.picture import digest
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadArray, BadSpec, DetectorFailed, MisdetectError

_MB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What a service accepts: images with sides of ``shortest`` to ``longest`` pixels, and ``size`` bytes of what
    (``part``) it counts."""

    shortest: int = 1
    longest: int = 1 << 20
    size: int = 1 << 40
    part: str = "image file"

    def check(self, service: str, image: Image, request: Request) -> None:
        """``BadArray`` where ``service`` would refuse ``image``: saying so here costs neither money nor time."""
        sides = f"the image has {image.width} x {image.height} pixels"
        if min(image.width, image.height) < self.shortest:
            raise BadArray(f"{sides}, and {service} takes none with a side below {self.shortest}")
        if max(image.width, image.height) > self.longest:
            raise BadArray(f"{sides}, and {service} takes none with a side above {self.longest}")
        size = len(request.content if self.part == "request" else image.encoded)
        if size > self.size:
            advice = "scale the image down" if image.media == "image/jpeg" else "give encode=jpeg"
            raise BadArray(
                f"the {self.part} has {size / _MB:.1f} MB as {image.media}, and {service} takes {self.size / _MB:g}: "
                f"{advice}"
            )


@dataclass(frozen=True)
class Call:
    """One way to ask a service: where, as whom, what to send, and how to read the answer."""

    url: str
    credentials: Credentials
    send: Callable[[Image], Request]
    read: shapes.Read
    layout: str
    units: str
    limits: Limits
    passes: Callable[[int, bytes], bool] | None = None
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Service:
    """A service's ``title``, its list ``price`` in USD per image, and how a spec becomes a ``call``."""

    title: str
    price: float
    call: Callable[[Spec], Call]


class CloudDetector(HttpDetector):
    """An ``HttpDetector`` whose ``left_out`` counts the labels that have no class name, by label, in this process."""

    left_out: Counter[str]

    def __repr__(self) -> str:
        return f"CloudDetector({self.spec!r})"

    def _wrong(self, doing: str, error: Exception) -> DetectorFailed:
        if isinstance(error, MisdetectError):
            return self.transport.failed(f"was not asked: {error}")
        return super()._wrong(doing, error)


def load_cloud(spec: Spec) -> CloudDetector:
    """The detector of a spec whose scheme is one of ``SERVICES``."""
    service = SERVICES[spec.scheme]
    if service.price:  # the list price is this service's default, so that usd= alone is a limit
        spec = replace(spec, options={"price": repr(service.price)} | spec.options)
    policy, (budget, limits) = policy_of(spec), budget_of(spec)
    encoding = (spec.take("encode", "png", choices=("png", "jpeg")), int(number_within(spec, "quality", 95, 1, 100)))
    names = read_names(spec.take("names", "coco"), spec.text)
    strict = spec.take("unknown", "drop", choices=("drop", "error")) == "error"
    own, version = spec.take("labels", ""), spec.take("version", "")
    labels = service_labels(spec.scheme, names, read_labels(own, names, spec.text) if own else {}, strict)
    call = service.call(spec)
    spec.finish()
    answering: dict[str, Any] = {"format": spec.scheme, "url": call.url, "encode": encoding[0], **call.settings}
    if encoding[0] == "jpeg":
        answering["quality"] = encoding[1]
    asking = {"concurrency": policy.concurrency, "timeout": policy.timeout, "retries": policy.retries}
    meaning = (names, dict(labels.known), strict)
    detector = CloudDetector(
        spec.text,
        CloudTransport(call.url, policy, call.credentials, call.passes),
        Format(partial(_request, service.title, call), partial(_answer, call.read, labels)),
        Reading(names, call.layout, call.units),
        encoding=encoding,
        budget=budget,
        settings=answering | asking | limits | {"labels": own or "built-in", "version": version or None},
        fingerprint=digest("cloud", answering, meaning, version) if version else None,
    )
    detector.left_out = labels.left_out
    return detector


def _request(title: str, call: Call, image: Image) -> Request:
    request = call.send(image)
    call.limits.check(title, image, request)
    return request


def _answer(read: shapes.Read, labels: Labels, document: Any, image: Image) -> Found:
    return labels.found(read(document, image))


def _rekognition(spec: Spec) -> Call:
    region = credentials.aws_region(spec.target)
    if not re.fullmatch(r"[a-z0-9-]+", region):
        found = f"Got {region!r}" if region else "Got none"
        raise BadSpec(f"{spec.text!r}: expected a region, as in rekognition:eu-west-1 or AWS_REGION. {found}.")
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    url = _url(spec, spec.take("endpoint", f"https://rekognition.{region}.{suffix}"), "/")
    labels, score = int(number_within(spec, "max", 1000, 1, 1000)), number_within(spec, "score", 0.55, 0, 1)
    return Call(
        url,
        credentials.AwsCredentials(region, "rekognition"),
        partial(shapes.send_rekognition, labels=labels, score=score),
        shapes.read_rekognition,
        "xywh",
        "relative",
        Limits(80, 10_000, 5 * _MB),
        shapes.rekognition_passes,
        {"region": region, "max": labels, "score": score},
    )


def _google(spec: Spec) -> Call:
    if spec.target:
        raise BadSpec(f"{spec.text!r}: write google-vision: alone; another address is endpoint=https://….")
    objects = int(number_within(spec, "max", 100, 1, 1000))
    key = credentials.header_key(("GOOGLE_VISION_API_KEY", "GOOGLE_API_KEY"), "X-Goog-Api-Key")
    return Call(
        _url(spec, spec.take("endpoint", "https://vision.googleapis.com"), "/v1/images:annotate"),
        key or credentials.GoogleCredentials(),
        partial(shapes.send_google, objects=objects),
        shapes.read_google,
        "xyxy",
        "relative",
        Limits(size=10 * _MB, part="request"),
        shapes.google_passes,
        {"max": objects},
    )


_AZURE = {
    "4.0": ("/computervision/imageanalysis:analyze?api-version=2024-02-01&features=objects", shapes.read_azure_4, 20),
    "3.2": ("/vision/v3.2/analyze?visualFeatures=Objects", shapes.read_azure_3, 4),
}


def _azure(spec: Spec) -> Call:
    variables = ("AZURE_VISION_ENDPOINT", "VISION_ENDPOINT")
    found = next((os.environ[name] for name in variables if os.environ.get(name)), "")
    endpoint = _given(spec) or found.strip()
    if not endpoint:
        raise BadSpec(
            f"{spec.text!r}: expected the resource's address, as in azure-vision:https://NAME.cognitiveservices.azure.com"
            " or VISION_ENDPOINT. Got none."
        )
    api = spec.take("api", "4.0", choices=tuple(_AZURE))
    path, read, megabytes = _AZURE[api]
    model = spec.take("model", "latest")
    if not re.fullmatch(r"(latest|\d{4}-\d{2}-\d{2})(-preview)?", model):
        raise BadSpec(f"{spec.text!r}: model={model} should be latest or a date, YYYY-MM-DD.")
    key = credentials.header_key(("AZURE_VISION_KEY", "VISION_KEY"), "Ocp-Apim-Subscription-Key")
    if key is None:
        raise BadSpec(f"{spec.text!r}: set the environment variable VISION_KEY to a key of the resource.")
    return Call(
        _url(spec, endpoint, f"{path}&model-version={model}"),
        key,
        shapes.send_azure,
        read,
        "xywh",
        "pixels",
        Limits(50, 16_000, megabytes * _MB),
        settings={"api": api, "model": model},
    )


def _max(spec: Spec) -> Call:
    endpoint = _given(spec).rstrip("/").removesuffix("/model/predict")
    if not endpoint:
        raise BadSpec(f"{spec.text!r}: expected the server's address, as in max:http://127.0.0.1:5000. Got none.")
    score = number_within(spec, "score", 0.7, 0, 1)
    return Call(
        _url(spec, endpoint, f"/model/predict?threshold={score:g}"),
        credentials.NoCredentials(),
        shapes.send_max,
        shapes.read_max,
        "yxyx",
        "relative",
        Limits(),
        settings={"score": score},
    )


def _given(spec: Spec) -> str:
    """The address that is the target of ``spec`` or its ``endpoint``."""
    endpoint = spec.take("endpoint", "")
    if endpoint and spec.target:
        raise BadSpec(f"{spec.text!r} gives two addresses, {spec.target} and endpoint={endpoint}; leave one out.")
    return endpoint or spec.target


def _url(spec: Spec, endpoint: str, path: str) -> str:
    """The address of ``path`` at ``endpoint``, which is refused where it carries a secret or a query of its own."""
    base = address_of(replace(spec, target=endpoint))
    if "?" in base or "#" in base:
        raise BadSpec(f"{spec.text!r}: expected an address without '?' and '#', such as https://host. Got {base!r}.")
    return base.rstrip("/") + path


SERVICES: dict[str, Service] = {
    "rekognition": Service("Amazon Rekognition", 0.001, _rekognition),
    "google-vision": Service("Google Vision", 0.00225, _google),
    "azure-vision": Service("Azure Vision", 0.001, _azure),
    "max": Service("IBM MAX", 0.0, _max),
}
"""The services by scheme. Prices are list prices of the first paid tier; docs/cloud.md says of when."""
