"""Any HTTP endpoint: the detector, the formats it may speak, and the transport with retries and a budget."""

from misdetect.detectors.family import SENT, Family

_LOADER = "misdetect.detectors.http.endpoint:load_http"
HTTP = Family(
    "any HTTP endpoint",
    "Detector",
    "http://localhost:8000/detect,format=NAME",
    _LOADER,
    needs=("httpx",),
    extra="http",
    reach=lambda spec: SENT,
    place=110,
)
HTTPS = Family(
    "any HTTPS endpoint",
    "Detector",
    "https://example.org/detect,format=NAME",
    _LOADER,
    needs=("httpx",),
    extra="http",
    reach=lambda spec: SENT,
    place=120,
)
