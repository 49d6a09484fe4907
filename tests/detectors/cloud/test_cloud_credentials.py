"""Credentials of the cloud services: found where their own tools look, sent right, and never to be read anywhere else.

AWS's published example and, where they are installed, boto3 and google-auth themselves are the oracles.
"""

import base64
import json
import logging
import pickle
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from cloud_services import (
    CLOUDS,
    SCENE,
    SECRETS,
    WIDTH,
    check_signature,
    coco,
    paint,
    same,
    wanted,
)
from loopback import Server

from misdetect.detectors import load_detector
from misdetect.detectors.cloud.credentials import AwsKeys, sign_v4
from misdetect.detectors.cloud.services import CloudDetector
from misdetect.said.errors import BadSpec, DetectorFailed, MissingExtra

pytestmark = pytest.mark.usefixtures("server")


def asked(server: Server, name: str, options: str = ",backoff=0.01,retries=1") -> tuple[CloudDetector, Any]:
    """The detector of a service at ``server`` and its answer to the scene; closed, since a closed one opens again."""
    detector = load_detector(CLOUDS[name].spec.format(url=server.url) + options)
    assert isinstance(detector, CloudDetector)
    (answer,) = detector.detect([paint(SCENE)])
    detector.close()
    return detector, answer


# ----------------------------------------------------------------------------------------------------- signatures


def test_the_signature_is_that_of_awss_own_example() -> None:
    """The worked example of the AWS General Reference, "Signing AWS requests with Signature Version 4" (IAM, 2015)."""
    request = httpx.Request(
        "GET",
        "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08",
        headers={"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"},
    )
    keys = AwsKeys("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
    sign_v4(request, keys, "us-east-1", "iam", datetime(2015, 8, 30, 12, 36, tzinfo=UTC))
    assert request.headers["Authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, "
        "SignedHeaders=content-type;host;x-amz-date, "
        "Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
    )


@pytest.mark.parametrize("token", ["", "IQo/session+token=="])
@pytest.mark.parametrize("address", ["https://h.example/", "http://127.0.0.1:81/a%20b/c?x=1&b=%2F&b=&B=~é"])
def test_botocore_signs_the_same(token: str, address: str) -> None:
    pytest.importorskip("boto3", reason="boto3 is not installed")
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    body, headers = b'{"Image": {}}', {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": "A.B"}
    request = httpx.Request("POST", address, content=body, headers=headers)
    theirs = AWSRequest("POST", str(request.url), headers=headers, data=body)
    SigV4Auth(Credentials("AKID", "s/e+cret", token or None), "rekognition", "eu-west-1").add_auth(theirs)
    now = datetime.strptime(theirs.context["timestamp"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    sign_v4(request, AwsKeys("AKID", "s/e+cret", token), "eu-west-1", "rekognition", now)
    assert request.headers["Authorization"] == theirs.headers["Authorization"]


def test_boto3_itself_asks_and_understands_the_same(server: Server) -> None:
    """What boto3's client sends to the test's server is what we send, and it reads the server's answers and errors:
    the server speaks the service's protocol."""
    boto3 = pytest.importorskip("boto3", reason="boto3 is not installed")
    from botocore.config import Config

    server.script = CLOUDS["rekognition"].script
    _, answer = asked(server, "rekognition")
    assert same(answer, wanted(SCENE))
    ((method, path, headers, body),) = server.requests
    client = boto3.client(
        "rekognition", "eu-west-1", endpoint_url=server.url, config=Config(retries={"total_max_attempts": 1})
    )
    file = base64.b64decode(json.loads(body)["Image"]["Bytes"])
    said = client.detect_labels(Image={"Bytes": file}, MaxLabels=1000, MinConfidence=55)
    assert said["Labels"] == CLOUDS["rekognition"].answer(SCENE, WIDTH, 90)["Labels"]
    theirs = server.requests[1]
    assert theirs[:2] == (method, path)
    assert json.loads(theirs[3]) == json.loads(body)
    for name in ("Content-Type", "X-Amz-Target", "X-Amz-Security-Token"):
        assert theirs[2][name] == headers[name]
    check_signature(method, path, {k.lower(): v for k, v in theirs[2].items()}, theirs[3])
    server.script = lambda handler, n, body: handler.reply({"__type": "ThrottlingException", "message": "x"}, 400)
    with pytest.raises(client.exceptions.ThrottlingException):
        client.detect_labels(Image={"Bytes": file})


# ------------------------------------------------------------------------------------------- where keys come from


def test_the_environment_is_enough_without_boto3(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    server.script = CLOUDS["rekognition"].script
    assert same(asked(server, "rekognition")[1], wanted(SCENE))
    assert server.requests[0][2]["X-Amz-Security-Token"] == SECRETS["AWS_SESSION_TOKEN"]
    monkeypatch.delenv("AWS_SESSION_TOKEN")
    assert same(asked(server, "rekognition")[1], wanted(SCENE))
    assert "X-Amz-Security-Token" not in server.requests[1][2]


def test_without_keys_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    monkeypatch.setitem(sys.modules, "google.auth", None)
    for name in ("AWS_SECRET_ACCESS_KEY", "GOOGLE_VISION_API_KEY", "AZURE_VISION_KEY"):
        monkeypatch.delenv(name)
    for spec in ("rekognition:eu-west-1", "google-vision:"):
        with pytest.raises(MissingExtra, match="in the environment needs the 'cloud' extra: pip install "):
            load_detector(spec)
    with pytest.raises(BadSpec, match="set the environment variable VISION_KEY"):
        load_detector("azure-vision:https://h")


def test_boto3s_chain_is_used_where_it_is_installed(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A profile in the shared files, and the region in the configuration; and a sentence where there is nothing."""
    pytest.importorskip("boto3", reason="boto3 is not installed")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    with pytest.raises(BadSpec, match="boto3 found no AWS credentials"):
        load_detector("rekognition:eu-west-1")
    access, secret = SECRETS["AWS_ACCESS_KEY_ID"], SECRETS["AWS_SECRET_ACCESS_KEY"]
    (tmp_path / "keys").write_text(f"[mine]\naws_access_key_id = {access}\naws_secret_access_key = {secret}\n")
    (tmp_path / "config").write_text("[profile mine]\nregion = ap-south-1\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "keys"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "mine")
    server.script = CLOUDS["rekognition"].script
    detector = load_detector(f"rekognition:,endpoint={server.url}")
    assert isinstance(detector, CloudDetector)
    assert same(detector.detect([paint(SCENE)])[0], wanted(SCENE))
    detector.close()
    assert "/ap-south-1/rekognition/" in server.requests[0][2]["Authorization"]
    assert secret not in repr((pickle.dumps(detector), detector.settings))


def test_google_auths_token_is_fetched_once_and_sent(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A service account whose token endpoint is the test's server: real google-auth, from key file to bearer token."""
    pytest.importorskip("google.auth", reason="google-auth is not installed")
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric import rsa

    private = rsa.generate_private_key(65537, 2048).private_bytes(
        forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption()
    )
    account = {
        "type": "service_account",
        "client_email": "a@b.iam.gserviceaccount.com",
        "private_key": private.decode(),
        "token_uri": f"{server.url}/token",
        "project_id": "p",
    }
    (tmp_path / "key.json").write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
    monkeypatch.delenv("GOOGLE_VISION_API_KEY")
    tokens = []

    def script(handler: Any, n: int, body: bytes) -> None:
        if handler.path == "/token":
            tokens.append(body)
            handler.reply({"access_token": "ya29.TOKENSECRET", "expires_in": 3600, "token_type": "Bearer"})
            return
        assert handler.headers["Authorization"] == "Bearer ya29.TOKENSECRET"
        if n % 2:
            handler.reply(b"I saw ya29.TOKENSECRET", 403)
        else:
            handler.reply(CLOUDS["google"].answer(SCENE, WIDTH, 90))

    server.script = script
    with caplog.at_level(logging.DEBUG):
        detector = load_detector(f"google-vision:,endpoint={server.url},concurrency=1")
        assert isinstance(detector, CloudDetector)
        first, second = detector.detect([paint(SCENE)] * 2)
        detector.close()
    assert len(tokens) == 1
    failures = [answer for answer in (first, second) if isinstance(answer, DetectorFailed)]
    assert len(failures) == 1
    assert "I saw ***" in str(failures[0])
    assert "TOKENSECRET" not in repr((detector, pickle.dumps(detector), detector.settings, caplog.text))
    assert "X-Goog-Api-Key" not in server.requests[1][2]


def test_a_key_that_no_header_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_VISION_KEY", "a\nb")
    with pytest.raises(BadSpec, match="AZURE_VISION_KEY holds characters that no header can"):
        load_detector("azure-vision:https://h")


# -------------------------------------------------------------------------------------- and where they do not go


def leaks(text: str) -> list[str]:
    """The secrets in ``text``, plain, or all but their last character (an echo that was cut off)."""
    return [name for name, value in SECRETS.items() if value[:12] in text or value[:-1] in text]


ECHOES = {
    "plain": lambda secret: f"bad key {secret}".encode(),
    "JSON with escaped slashes": lambda secret: json.dumps({"message": secret}).replace("/", "\\/").encode(),
    "cut off": lambda secret: (f"{secret} " * 2 + "x" * 30 + f" {secret}")[: 2 * len(secret) + 52].encode(),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("echo", ECHOES)
@pytest.mark.parametrize("status", [200, 400, 403, 500])
def test_a_service_that_repeats_the_key_does_not_put_it_into_messages(
    server: Server, caplog: pytest.LogCaptureFixture, echo: str, status: int
) -> None:
    """In refusals, in failures after retries and in answers that cannot be read; in logs down to the last detail."""
    for name, cloud in CLOUDS.items():
        for variable in cloud.secrets:
            body = ECHOES[echo](SECRETS[variable])
            server.script = lambda handler, n, _, body=body: handler.reply(body, status)  # type: ignore[misc]
            with caplog.at_level(logging.DEBUG):
                detector, failure = asked(server, name)
            assert isinstance(failure, DetectorFailed)
            assert not leaks(str(failure)), (name, str(failure))
            assert status == 200 or "***" in str(failure)
            assert not leaks(repr((detector, detector.spec, detector.settings, pickle.dumps(detector))))
    assert not leaks(caplog.text)


@pytest.mark.parametrize("name", ["rekognition", "google", "azure 4.0"])
def test_a_run_holds_no_key(
    server: Server,
    tmp_path: Path,
    run: Callable[..., tuple[int, str, str]],
    caplog: pytest.LogCaptureFixture,
    name: str,
) -> None:
    """A whole run through the command line, with failures that echo the keys: nothing that it writes has one."""

    def script(handler: Any, n: int, body: bytes) -> None:
        if n % 2:
            handler.reply(" ".join(SECRETS[variable] for variable in CLOUDS[name].secrets).encode(), 403)
        else:
            CLOUDS[name].script(handler, n, body)

    server.script = script
    data = coco(tmp_path, [np.roll(paint(SCENE), i, axis=1) for i in range(4)])
    spec = CLOUDS[name].spec.format(url=server.url) + ",max_requests=3"
    with caplog.at_level(logging.DEBUG):
        code, said, err = run("detect", "--detector", spec, "--data", data, "--out", tmp_path / "out", "--batch", 1)
    assert code == 0
    assert len(server.requests) == 3
    written = [path for path in (tmp_path / "out.partial").rglob("*") if path.is_file()]
    assert any(path.name == "run.json" for path in written)
    assert any(path.suffix == ".parquet" for path in written)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert not leaks(path.read_bytes().decode("latin-1")), path
    assert not leaks(said + err + caplog.text)
