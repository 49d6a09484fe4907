"""The requests and answers of the four cloud services, as documented: bytes and parsed JSON in, sightings out.

Pure functions that know nothing of sockets, credentials or class names. Each ``send_…`` makes the body of one request,
each ``read_…`` takes the boxes out of one answer in that service's own layout and units. Answers are untrusted.
"""

import json
from collections.abc import Callable
from typing import Any

import httpx

from misdetect.detectors.cloud.labels import Sighting
from misdetect.detectors.http.formats import Image, Request, member, number, send_json
from misdetect.said.errors import BadArray

Read = Callable[[Any, Image], list[Sighting]]
"""From an answer to what was sighted."""


def send_rekognition(image: Image, labels: int, score: float) -> Request:
    """``DetectLabels`` of the JSON 1.1 protocol, for up to ``labels`` labels of at least ``score`` (0 to 1)."""
    document = {"Image": {"Bytes": image.base64}, "MaxLabels": labels, "MinConfidence": round(100 * score, 4)}
    headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": "RekognitionService.DetectLabels"}
    return Request(send_json(document).content, headers)


def read_rekognition(document: Any, image: Image) -> list[Sighting]:
    """Boxes (left, top, width, height as shares) of all ``Instances``; labels without any are of the whole image.

    The score is the instance's, in percent. The label has one of its own: that it is somewhere in the image.
    """
    sightings = []
    for label in member(document, "Labels", list):
        name = member(label, "Name", str, "a label")
        for instance in _optional(label, "Instances", list, f"the label {name!r}"):
            what = f"an instance of {name!r}"
            box = _corner_and_size(
                member(instance, "BoundingBox", dict, what), ("Left", "Top", "Width", "Height"), what
            )
            percent = number(instance.get("Confidence"), f"the Confidence of {what}")
            sightings.append(Sighting(box, [(name, percent / 100)]))
    return sightings


def rekognition_passes(status: int, body: bytes) -> bool:
    """Whether a refusal is only throttling, which this service reports as a bad request (400)."""
    if status != 400:
        return False
    document = _parsed(body)
    kind = str(document.get("__type") or document.get("code") or "") if isinstance(document, dict) else ""
    return "throttl" in kind.lower() or "ProvisionedThroughputExceeded" in kind


def send_google(image: Image, objects: int) -> Request:
    """``images:annotate`` with the one feature ``OBJECT_LOCALIZATION``, for up to ``objects`` objects."""
    features = [{"type": "OBJECT_LOCALIZATION", "maxResults": objects}]
    return send_json({"requests": [{"image": {"content": image.base64}, "features": features}]})


def read_google(document: Any, image: Image) -> list[Sighting]:
    """Boxes (x0, y0, x1, y1 as shares) around ``normalizedVertices``, in which a coordinate of zero is left out."""
    responses = member(document, "responses", list)
    if len(responses) != 1 or not isinstance(responses[0], dict):
        raise BadArray(f"'responses' should hold one answer; found {len(responses)}: {str(responses)[:80]}")
    if "error" in responses[0]:
        error = member(responses[0], "error", dict, "the response")
        raise BadArray(f"it is an error: {error.get('message', 'no message')} (code {error.get('code')})")
    sightings = []
    for i, item in enumerate(_optional(responses[0], "localizedObjectAnnotations", list, "the response")):
        what = f"object {i}"
        poly = member(item, "boundingPoly", dict, what)
        vertices = member(poly, "normalizedVertices", list, f"the boundingPoly of {what}")
        if len(vertices) < 2 or not all(isinstance(vertex, dict) for vertex in vertices):
            raise BadArray(f"{what} should have four normalizedVertices; found {str(vertices)[:80]}")
        xs = [number(vertex.get("x", 0.0), f"x of {what}") for vertex in vertices]
        ys = [number(vertex.get("y", 0.0), f"y of {what}") for vertex in vertices]
        box = [min(xs), min(ys), max(xs), max(ys)]
        sightings.append(Sighting(box, [(member(item, "name", str, what), item.get("score", 0.0))]))
    return sightings


_PASSING_RPC = {4, 8, 13, 14}  # deadline exceeded, resource exhausted, internal, unavailable


def google_passes(status: int, body: bytes) -> bool:
    """Whether a success (200) holds, instead of the one image's answer, an error that passes."""
    if status != 200 or b'"error"' not in body:
        return False
    document = _parsed(body)
    responses = document.get("responses") if isinstance(document, dict) else None
    first = responses[0] if isinstance(responses, list) and responses else None
    error = first.get("error") if isinstance(first, dict) else None
    return isinstance(error, dict) and error.get("code") in _PASSING_RPC


def send_azure(image: Image) -> Request:
    """The image file as octets, in both versions."""
    return Request(image.encoded, {"Content-Type": "application/octet-stream"})


def read_azure_4(document: Any, image: Image) -> list[Sighting]:
    """Image Analysis 4.0: ``objectsResult.values``, boxes (x, y, width, height in pixels) with ``tags``."""
    _same_size(document, image)
    sightings = []
    for i, item in enumerate(member(member(document, "objectsResult", dict), "values", list, "objectsResult")):
        what = f"object {i}"
        tags = member(item, "tags", list, what)
        if not tags:
            raise BadArray(f"{what} should have a tag; found none")
        box = _corner_and_size(member(item, "boundingBox", dict, what), ("x", "y", "w", "h"), what)
        pairs = [(member(tag, "name", str, f"a tag of {what}"), tag.get("confidence")) for tag in tags]
        sightings.append(Sighting(box, pairs))
    return sightings


def read_azure_3(document: Any, image: Image) -> list[Sighting]:
    """Image Analysis 3.2: ``objects``, each a ``rectangle`` with its ``object`` and, more general each, ``parent``."""
    _same_size(document, image)
    sightings = []
    for i, item in enumerate(member(document, "objects", list)):
        what = f"object {i}"
        box = _corner_and_size(member(item, "rectangle", dict, what), ("x", "y", "w", "h"), what)
        node, tags = item, list[tuple[Any, Any]]()
        while isinstance(node, dict) and len(tags) < 20:
            tags.append((member(node, "object", str, what), node.get("confidence")))
            node = node.get("parent")
        sightings.append(Sighting(box, tags))
    return sightings


def send_max(image: Image) -> Request:
    """The image file as the field ``image`` of a form."""
    name = f"image.{image.media.removeprefix('image/')}"
    form = httpx.Request("POST", "http://form", files={"image": (name, image.encoded, image.media)})
    return Request(form.read(), {"Content-Type": form.headers["Content-Type"]})


def read_max(document: Any, image: Image) -> list[Sighting]:
    """``predictions``, each a ``detection_box`` (y0, x0, y1, x1 as shares) with ``label`` and ``probability``."""
    if isinstance(document, dict) and document.get("status", "ok") != "ok":
        raise BadArray(f"it is an error: {document.get('message') or document['status']}")
    return [
        Sighting(
            member(item, "detection_box", list, f"prediction {i}"),
            [(member(item, "label", str, f"prediction {i}"), item.get("probability"))],
        )
        for i, item in enumerate(member(document, "predictions", list))
    ]


def _corner_and_size(record: dict[str, Any], fields: tuple[str, ...], what: str) -> list[float]:
    """The four ``fields`` of a box, whose size is not negative."""
    box = [number(record.get(field), f"{field} of the box of {what}") for field in fields]
    if min(box[2:]) < 0:
        raise BadArray(f"the box of {what} should have a size; found {fields[2]} {box[2]:g} and {fields[3]} {box[3]:g}")
    return box


def _optional(record: Any, key: str, kind: type, what: str) -> Any:
    return member(record, key, kind, what) if isinstance(record, dict) and record.get(key) is not None else kind()


def _same_size(document: Any, image: Image) -> None:
    """Pixels are those of the image the service saw, so that must be the one that was sent."""
    seen = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(seen, dict):
        return
    size = [seen.get("width"), seen.get("height")]
    if size != [image.width, image.height]:
        raise BadArray(f"it is about an image of {size[0]} x {size[1]}; {image.width} x {image.height} was sent")


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
