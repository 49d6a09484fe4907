"""The four cloud services on the loopback, in their documented shapes.

Each checks what it is asked (method, path, headers, signature, body), decodes the image and answers from its pixels: a
scene is painted so that every object's box, label and score can be read from it. A test knows the right answer without
asking the code under test, and it is right only if the image arrived intact.
"""

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email import message_from_bytes
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import cv2
import numpy as np
import pytest
from loopback import Server, running_server

from misdetect.detectors import load_detector
from misdetect.detectors.cloud.services import CloudDetector
from misdetect.detectors.names import COCO
from misdetect.nouns.detections import Detections

WIDTH, HEIGHT = 130, 90
SECRETS = {
    "AWS_ACCESS_KEY_ID": "AKIDSECRETSECRET",
    "AWS_SECRET_ACCESS_KEY": "aws/secret+key/EXAMPLE0123456789",
    "AWS_SESSION_TOKEN": "IQoJb3JpZ2luX2VjSESSIONTOKEN//////////wEaCXVz=",
    "GOOGLE_VISION_API_KEY": "AIzaSyGOOGLESECRET0123456789",
    "AZURE_VISION_KEY": "0123456789abcdefAZURESECRET",
}
Thing = tuple[int, int, tuple[int, int, int, int]]
"""Which of the service's labels, the score in percent, and the box x0, y0, x1, y1."""

SCENE: list[Thing] = [
    (0, 91, (0, 0, 40, 60)),
    (1, 66, (50, 30, 130, 90)),
    (2, 83, (60, 5, 71, 22)),
    (3, 75, (0, 70, 20, 90)),
]


def paint(things: list[Thing], width: int = WIDTH, height: int = HEIGHT) -> Any:
    """A black picture with the things on it, each a rectangle whose colour says what it is."""
    picture = np.zeros((height, width, 3), dtype=np.uint8)
    for i, (label, percent, (x0, y0, x1, y1)) in enumerate(things):
        picture[y0:y1, x0:x1] = (10 + label, percent, 100 + i)
    return picture


def look(file: bytes) -> tuple[list[Thing], int, int]:
    """What is painted on an image file, and the image's width and height."""
    picture = cv2.imdecode(np.frombuffer(file, dtype=np.uint8), cv2.IMREAD_COLOR)[:, :, ::-1]
    things = []
    for i in sorted(set(picture[:, :, 2].ravel().tolist()) - {0}):
        ys, xs = np.nonzero(picture[:, :, 2] == i)
        red, green, _ = picture[ys[0], xs[0]].tolist()
        things.append((red - 10, green, (int(xs.min()), int(ys.min()), int(xs.max()) + 1, int(ys.max()) + 1)))
    return things, picture.shape[1], picture.shape[0]


def wanted(things: list[Thing], names: tuple[str, ...] = COCO) -> Detections:
    """The detections of a scene: labels 0, 1 and 2 are these classes, the others have no name."""
    classes = ("person", "dining table", "cell phone")
    kept = [thing for thing in things if thing[0] < 3]
    return Detections(
        np.array([box for _, _, box in kept], dtype=np.float64).reshape(-1, 4),
        np.array([percent / 100 for _, percent, _ in kept]),
        np.array([names.index(classes[label]) for label, _, _ in kept], dtype=np.int64),
    )


def same(found: Any, expected: Detections) -> bool:
    """Equal up to the rounding of shares of the image."""
    assert isinstance(found, Detections), found
    return (
        found.labels.tolist() == expected.labels.tolist()
        and np.allclose(found.boxes, expected.boxes, atol=1e-9)
        and np.allclose(found.scores, expected.scores, atol=1e-12)
    )


@dataclass(frozen=True)
class Cloud:
    """A service: the spec for an address, its check of a request (which gives the image file), its answer to a scene,
    its body for an error, where in the answer the list of objects is, and which variables hold its secrets."""

    spec: str
    check: Callable[[str, str, dict[str, str], bytes], bytes]
    answer: Callable[[list[Thing], int, int], Any]
    error: Callable[[int, str], Any]
    things: Callable[[Any], list[Any]]
    secrets: tuple[str, ...] = ()

    def script(self, handler: Any, n: int, body: bytes) -> None:
        """Answer as the service would; a request that it would not understand is answered with what is wrong."""
        headers = {name.lower(): value for name, value in handler.headers.items()}
        try:
            file = self.check(handler.command, handler.path, headers, body)
        except (AssertionError, KeyError, ValueError) as wrong:
            handler.reply(f"not understood: {wrong!r}".encode(), 418)
            return
        handler.reply(self.answer(*look(file)))


# ------------------------------------------------------------------------------------------------------ Rekognition


def check_signature(method: str, path: str, headers: dict[str, str], body: bytes) -> None:
    """AWS Signature Version 4, from its description: what the service itself does with a request."""
    found = re.fullmatch(
        r"AWS4-HMAC-SHA256 Credential=(\w+)/(\d{8})/([a-z0-9-]+)/rekognition/aws4_request, "
        r"SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})",
        headers["authorization"],
    )
    assert found, headers["authorization"]
    access, day, region, names, signature = found.groups()
    assert access == SECRETS["AWS_ACCESS_KEY_ID"]
    assert headers["x-amz-date"].startswith(day)
    must = {"host", "x-amz-date", "x-amz-target"} | ({"x-amz-security-token"} & headers.keys())
    assert must <= set(names.split(";"))
    lines = "".join(f"{name}:{headers[name]}\n" for name in names.split(";"))
    request = f"{method}\n{path}\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    hashed = hashlib.sha256(request.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{headers['x-amz-date']}\n{day}/{region}/rekognition/aws4_request\n{hashed}"

    def mac(key: bytes, message: str) -> bytes:
        return hmac.new(key, message.encode(), hashlib.sha256).digest()

    key = mac(
        mac(mac(mac(f"AWS4{SECRETS['AWS_SECRET_ACCESS_KEY']}".encode(), day), region), "rekognition"), "aws4_request"
    )
    assert mac(key, text).hex() == signature, "the signature is wrong"


def _check_rekognition(method: str, path: str, headers: dict[str, str], body: bytes) -> bytes:
    assert (method, path) == ("POST", "/")
    assert headers["content-type"] == "application/x-amz-json-1.1"
    assert headers["x-amz-target"] == "RekognitionService.DetectLabels"
    check_signature(method, path, headers, body)
    document = json.loads(body)
    assert set(document) == {"Image", "MaxLabels", "MinConfidence"}
    assert document["MaxLabels"] == 1000
    assert document["MinConfidence"] == 55
    assert set(document["Image"]) == {"Bytes"}
    return base64.b64decode(document["Image"]["Bytes"], validate=True)


def _answer_rekognition(things: list[Thing], width: int, height: int) -> Any:
    vocabulary = ("Person", "Dining Table", "Mobile Phone", "Tire")

    def instances(label: int) -> list[Any]:
        return [
            {
                "BoundingBox": {
                    "Width": (x1 - x0) / width,
                    "Height": (y1 - y0) / height,
                    "Left": x0 / width,
                    "Top": y0 / height,
                },
                "Confidence": float(percent),
            }
            for which, percent, (x0, y0, x1, y1) in things
            if which == label
        ]

    labels = [
        {
            "Name": name,
            "Confidence": 99.5,
            "Instances": instances(i),
            "Parents": [{"Name": "Furniture"}],
            "Aliases": [{"Name": "Cell Phone"}] if name == "Mobile Phone" else [],
            "Categories": [{"Name": "Everyday Objects"}],
        }
        for i, name in enumerate(vocabulary)
    ]
    # The same people once more under other labels, the same phones under a synonym, and what is nowhere in particular.
    labels.insert(1, labels[0] | {"Name": "Adult"})
    labels.append(labels[3] | {"Name": "Cell Phone"})
    labels.append({"Name": "Indoors", "Confidence": 98.1, "Instances": [], "Parents": []})
    return {"LabelModelVersion": "3.0", "Labels": labels}


# ----------------------------------------------------------------------------------------------------------- Google


def _check_google(method: str, path: str, headers: dict[str, str], body: bytes) -> bytes:
    assert (method, path) == ("POST", "/v1/images:annotate"), path
    assert headers["x-goog-api-key"] == SECRETS["GOOGLE_VISION_API_KEY"]
    assert headers["content-type"] == "application/json"
    (request,) = json.loads(body)["requests"]
    assert request["features"] == [{"type": "OBJECT_LOCALIZATION", "maxResults": 100}]
    return base64.b64decode(request["image"]["content"], validate=True)


def _answer_google(things: list[Thing], width: int, height: int) -> Any:
    vocabulary = ("Man", "Kitchen & dining room table", "Mobile phone", "Mouse")  # the mouse is the animal

    def vertex(x: float, y: float) -> dict[str, float]:
        return {name: value for name, value in (("x", x / width), ("y", y / height)) if value}  # zeros are not written

    found = [
        {
            "mid": "/m/0",
            "name": vocabulary[label],
            "score": percent / 100,
            "boundingPoly": {"normalizedVertices": [vertex(x0, y0), vertex(x1, y0), vertex(x1, y1), vertex(x0, y1)]},
        }
        for label, percent, (x0, y0, x1, y1) in things
    ]
    return {"responses": [{"localizedObjectAnnotations": found} if found else {}]}


# ------------------------------------------------------------------------------------------------------------ Azure


def _check_azure(path: str, query: dict[str, list[str]]) -> Callable[[str, str, dict[str, str], bytes], bytes]:
    def check(method: str, address: str, headers: dict[str, str], body: bytes) -> bytes:
        parts = urlsplit(address)
        assert (method, parts.path) == ("POST", path), address
        assert parse_qs(parts.query) == query | {"model-version": ["latest"]}, address
        assert headers["ocp-apim-subscription-key"] == SECRETS["AZURE_VISION_KEY"]
        assert headers["content-type"] == "application/octet-stream"
        return body

    return check


def _answer_azure_4(things: list[Thing], width: int, height: int) -> Any:
    vocabulary = ("person", "dining table", "Mobile phone", "kitchen appliance")
    values = [
        {
            "boundingBox": {"x": x0, "y": y0, "w": x1 - x0, "h": y1 - y0},
            "tags": [{"name": vocabulary[label], "confidence": percent / 100}],
        }
        for label, percent, (x0, y0, x1, y1) in things
    ]
    size = {"width": width, "height": height}
    return {"modelVersion": "2023-10-01", "metadata": size, "objectsResult": {"values": values}}


def _answer_azure_3(things: list[Thing], width: int, height: int) -> Any:
    """The table is only known by its grandparent, whose confidence is the painted one."""
    objects = []
    for label, percent, (x0, y0, x1, y1) in things:
        score = percent / 100
        said: Any = {
            0: {"object": "person", "confidence": score},
            1: {
                "object": "trestle",
                "confidence": 0.51,
                "parent": {"object": "Worktop", "confidence": 0.52, "parent": {"object": "table", "confidence": score}},
            },
            2: {"object": "Mobile phone", "confidence": score, "parent": {"object": "telephone", "confidence": 0.99}},
            3: {"object": "stove", "confidence": score, "parent": {"object": "kitchen appliance", "confidence": 0.8}},
        }[label]
        objects.append({"rectangle": {"x": x0, "y": y0, "w": x1 - x0, "h": y1 - y0}, **said})
    size = {"width": width, "height": height, "format": "Png"}
    return {"objects": objects, "requestId": "25018882", "metadata": size, "modelVersion": "2021-05-01"}


# -------------------------------------------------------------------------------------------------------------- MAX


def _check_max(method: str, path: str, headers: dict[str, str], body: bytes) -> bytes:
    assert (method, path) == ("POST", "/model/predict?threshold=0.7"), path
    head = f"Content-Type: {headers['content-type']}\r\n\r\n".encode()
    (part,) = message_from_bytes(head + body).get_payload()  # type: ignore[misc]
    assert part.get_param("name", header="Content-Disposition") == "image"  # type: ignore[union-attr]
    assert part.get_filename() == "image.png"  # type: ignore[union-attr]
    assert part.get_content_type() == "image/png"  # type: ignore[union-attr]
    return part.get_payload(decode=True)  # type: ignore[union-attr,return-value]


def _answer_max(things: list[Thing], width: int, height: int) -> Any:
    vocabulary = (("1", "person"), ("67", "dining table"), ("77", "cell phone"), ("12", "street sign"))
    predictions = [
        {
            "label_id": vocabulary[label][0],
            "label": vocabulary[label][1],
            "probability": percent / 100,
            "detection_box": [y0 / height, x0 / width, y1 / height, x1 / width],
        }
        for label, percent, (x0, y0, x1, y1) in things
    ]
    return {"status": "ok", "predictions": predictions}


def _google_error(status: int, text: str) -> Any:
    return {"error": {"code": status, "message": text, "status": "PERMISSION_DENIED"}}


def _azure_error(status: int, text: str) -> Any:
    return {"error": {"code": str(status), "message": text}}


CLOUDS: dict[str, Cloud] = {
    "rekognition": Cloud(
        "rekognition:eu-west-1,endpoint={url}",
        _check_rekognition,
        _answer_rekognition,
        lambda status, text: {"__type": "AccessDeniedException", "Message": text},
        lambda document: document["Labels"],
        ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    ),
    "google": Cloud(
        "google-vision:,endpoint={url}",
        _check_google,
        _answer_google,
        _google_error,
        lambda document: document["responses"][0]["localizedObjectAnnotations"],
        ("GOOGLE_VISION_API_KEY",),
    ),
    "azure 4.0": Cloud(
        "azure-vision:{url}",
        _check_azure("/computervision/imageanalysis:analyze", {"api-version": ["2024-02-01"], "features": ["objects"]}),
        _answer_azure_4,
        _azure_error,
        lambda document: document["objectsResult"]["values"],
        ("AZURE_VISION_KEY",),
    ),
    "azure 3.2": Cloud(
        "azure-vision:,endpoint={url}/,api=3.2",
        _check_azure("/vision/v3.2/analyze", {"visualFeatures": ["Objects"]}),
        _answer_azure_3,
        _azure_error,
        lambda document: document["objects"],
        ("AZURE_VISION_KEY",),
    ),
    "max": Cloud(
        "max:{url}",
        _check_max,
        _answer_max,
        lambda status, text: {"status": "error", "message": text},
        lambda document: document["predictions"],
    ),
}


@contextmanager
def cloud_server(patch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server whose ``url`` is that of its root, and ``SECRETS`` as the only credentials."""
    only_these_credentials(patch)
    with running_server() as running:
        running.url = running.url.removesuffix("/detect")
        yield running


@contextmanager
def clouds_at(server: Server) -> Iterator[Callable[..., CloudDetector]]:
    """A function that makes the detector of a service, which ``server`` then is; they are closed in the end."""
    made: list[CloudDetector] = []

    def build(cloud: Cloud, options: str = "") -> CloudDetector:
        server.script = cloud.script
        detector = load_detector(f"{cloud.spec.format(url=server.url)},backoff=0.01{options}")
        assert isinstance(detector, CloudDetector)
        made.append(detector)
        return detector

    yield build
    for detector in made:
        detector.close()


def coco(folder: Path, pictures: list[Any]) -> str:
    """The spec of a data set of these pictures in ``folder``, without annotations, of three of COCO's classes."""
    images = []
    for i, picture in enumerate(pictures):
        cv2.imwrite(str(folder / f"{i}.png"), picture[:, :, ::-1])
        images.append({"id": i + 1, "file_name": f"{i}.png", "width": picture.shape[1], "height": picture.shape[0]})
    categories = [{"id": 1, "name": "person"}, {"id": 67, "name": "dining table"}, {"id": 77, "name": "cell phone"}]
    (folder / "data.json").write_text(json.dumps({"images": images, "annotations": [], "categories": categories}))
    return f"coco:{folder / 'data.json'}"


def only_these_credentials(patch: pytest.MonkeyPatch) -> None:
    """Set ``SECRETS`` in the environment, and keep what else this machine may know away from every SDK."""
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN", "GOOGLE_API_KEY"):
        patch.delenv(name, raising=False)
    for name in ("VISION_KEY", "VISION_ENDPOINT", "AZURE_VISION_ENDPOINT", "GOOGLE_APPLICATION_CREDENTIALS"):
        patch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        patch.setenv(name, "/nowhere/at/all")
    patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    patch.setenv("NO_GCE_CHECK", "true")
    for name, value in SECRETS.items():
        patch.setenv(name, value)
