"""The four services of paper 4, on top of ``http``."""

from misdetect.detectors.family import SENT, Family


def _service(what: str, example: str, place: int) -> Family:
    loader = "misdetect.detectors.cloud.services:load_cloud"
    return Family(
        what, "Detector", example, loader, needs=("httpx",), extra="http", reach=lambda spec: SENT, place=place
    )


REKOGNITION = _service(
    "Amazon Rekognition; AWS profiles and roles by the cloud extra",
    "rekognition:eu-west-1",
    130,
)
GOOGLE = _service(
    "Google Vision; application default credentials by the cloud extra",
    "google-vision:",
    140,
)
AZURE = _service("Azure Vision", "azure-vision:https://NAME.cognitiveservices.azure.com", 150)
MAX = _service("IBM MAX object detector", "max:http://127.0.0.1:5000", 160)
