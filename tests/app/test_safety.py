"""Who may ask: names, other sites, tokens, large bodies; and that every answer carries what keeps a page closed."""

import httpx
import pytest
from served import serving
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from misdetect.app.safety import Guard

JSON = {"content-type": "application/json"}


async def said(request):
    return JSONResponse({"said": (await request.body()).decode()})


def plain(request):
    return Response("here", headers={"cache-control": "max-age=5"})


def client(host="127.0.0.1", **how):
    inner = Starlette(routes=[Route("/", plain), Route("/said", said, methods=["POST"]), Route("/a/{b:path}", plain)])
    return TestClient(Guard(inner, **how), base_url=f"http://{host}:8000", follow_redirects=False)


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:1", "localhost", "[::1]:8000"])
def test_this_machine_may_ask(host):
    assert client().get("/", headers={"host": host}).text == "here"


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example:8000",
        "localhost.evil:80",
        "evil@localhost",
        "",
        "10.0.0.1",
        "localhost:x",
    ],
)
def test_another_name_that_leads_here_may_not(host):
    """What a page of another site could do by letting its own name lead to this machine."""
    answer = client().get("/", headers={"host": host})
    assert answer.status_code == 403
    assert "here" not in answer.text
    assert answer.json()["error"]


@pytest.mark.parametrize("headers", [
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"origin": "https://127.0.0.1:8000"},
    {"origin": "http://127.0.0.1:9000"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"},
    {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
])  # fmt: skip
def test_another_site_may_neither_read_nor_post(headers):
    assert client().get("/", headers=headers).status_code == 403
    assert client().post("/said", content="{}", headers={**JSON, **headers}).status_code == 403


def test_a_link_on_another_site_may_lead_here_but_not_post():
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert client().get("/", headers=link).status_code == 200
    assert client().post("/said", content="{}", headers={**JSON, **link}).status_code == 403


def test_the_own_page_may_post_json_and_nothing_else():
    own = {"origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"}
    assert client().post("/said", content="{}", headers={**JSON, **own}).json() == {"said": "{}"}
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        assert client().post("/said", content="{}", headers={"content-type": kind, **own}).status_code == 415
    assert client().request("DELETE", "/").status_code == 405
    assert client().request("PUT", "/said", content="x").status_code == 405


def test_bodies_are_bounded_also_those_that_do_not_say_their_length():
    asked = client(most_bytes=100)
    assert asked.post("/said", content="x" * 100, headers=JSON).status_code == 200
    assert asked.post("/said", content="x" * 101, headers=JSON).status_code == 413
    with pytest.raises(Exception, match="at most 100 bytes"):
        asked.post("/said", content=(b"x" * 60 for _ in range(2)), headers=JSON)


def test_every_answer_says_what_a_page_may_do(asked):
    for path, status in (("/", 200), ("/nothing", 404), ("/api/rows", 200), ("/picture/photo/0/0", 200)):
        answer = asked.client.get(path)
        assert answer.status_code == status
        policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == policy["form-action"] == policy["base-uri"] == "'none'"
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "server" not in answer.headers or "misdetect" not in answer.headers["server"]
    assert client().get("/").headers["cache-control"] == "max-age=5", "an answer's own is kept"


def test_a_token_in_the_address_becomes_a_cookie():
    asked = client("somewhere", hosts=None, token="secret")
    assert asked.get("/").status_code == 401
    assert "here" not in asked.get("/").text
    for wrong in ("", "?token=", "?token=wrong", "?token=secretx", "?x=secret"):
        assert asked.get(f"/{wrong}").status_code == 401
    entered = asked.get("/a/b?x=1&token=secret")
    assert (entered.status_code, entered.headers["location"]) == (303, "/a/b?x=1")
    cookie = entered.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert asked.get("/a/b?x=1").text == "here", "the client has the cookie"
    asked.cookies.clear()
    assert asked.post("/said?token=secret", content="{}", headers=JSON).status_code == 401, (
        "no post by an address alone"
    )


def test_an_address_with_a_token_leads_to_no_other_host():
    entered = client("somewhere", hosts=None, token="secret").get("http://somewhere:8000//evil.example/?token=secret")
    assert entered.status_code == 303
    assert entered.headers["location"].startswith("/evil.example")


def test_any_name_without_a_token_is_refused():
    with pytest.raises(ValueError, match="token"):
        Guard(Starlette(), hosts=None)


def test_a_real_server_heeds_it(runs):
    with serving([runs / "explain"], allowed_hosts=None, token="a-token") as address:
        assert httpx.get(f"{address}/api/rows").status_code == 401
        with httpx.Client(base_url=address, follow_redirects=True) as browser:
            assert "md-gallery" in browser.get("/?token=a-token").text
            assert browser.get("/api/rows").status_code == 200
            assert browser.get("/api/rows", headers={"origin": "http://evil.example"}).status_code == 403
