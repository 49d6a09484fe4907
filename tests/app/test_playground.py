"""The playground over HTTP: pictures, answers, refusals in a sentence, and cases that ``replay`` knows."""

import json
from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from playground_parts import application
from starlette.testclient import TestClient

import misdetect as md
from misdetect.app.playground import Playground
from misdetect.data.memory import from_pairs
from misdetect.detectors import load_detector

DATA = "rooms:val,count=12"
SHY = f"glassbox:vanish-near/distance=10,data={DATA}"
EDIT = {"photo": 0, "object": 0, "x": 20, "y": 40, "width": 34, "height": 53, "opacity": 1.0, "flip": False}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("playground") / "kept"


@pytest.fixture(scope="module")
def playground(kept):
    made = Playground(load_detector(SHY), DATA, keep=kept)
    yield made
    made.close()


@pytest.fixture(scope="module")
def web(playground):
    return TestClient(application(playground))


def post(web, what, edit=EDIT, client="me"):
    return web.post(f"/playground/api/{what}", json={"client": client, "edit": edit})


def picture(answer):
    assert answer.status_code == 200, answer.text
    return np.asarray(Image.open(BytesIO(answer.content)))


def losing(web):
    """An edit that loses something that it does not hide."""
    for x in range(0, 95, 6):
        edit = {**EDIT, "x": x, "width": 17, "height": 26}
        changes = post(web, "ask", edit).json()["changes"]
        if any(change["type"] == "missed" and change["covered"] == 0 for change in changes):
            return edit
    raise AssertionError("nothing is lost anywhere")


def test_the_page_asks_only_for_files_of_its_own(web):
    page = web.get("/playground")
    assert page.status_code == 200
    assert "<style" not in page.text
    assert page.text.count("<script") == page.text.count('<script type="module" src="/front/') == 1
    assert web.get("/front/playground.js").status_code == web.get("/front/playground.css").status_code == 200


def test_what_there_is(web, playground):
    about = web.get("/playground/api/about").json()
    assert (about["photos"], about["objects"]) == (12, playground.table.objects)
    assert sum(about["labels"].values()) == about["objects"]
    assert (about["traced"], about["write"], about["live"]) == (True, True, True)
    found = [web.get(f"/playground/api/photos?offset={offset}").json() for offset in (0, 10, 99)]
    assert [len(each["photos"]) for each in found] == [12, 2, 0]
    label = max(about["labels"], key=about["labels"].get)
    some = web.get("/playground/api/objects", params={"label": label}).json()
    assert some["total"] == len(some["objects"]) == about["labels"][label]
    assert {each["label"] for each in some["objects"]} == {label}
    assert web.get("/playground/api/objects", params={"label": "no such"}).json() == {"total": 0, "objects": []}


@pytest.mark.parametrize("kind", ["edited", "control"])
@pytest.mark.parametrize("more", [{}, {"opacity": 0.4}, {"flip": True}, {"width": 20, "height": 31, "x": 90}])
def test_pictures_are_what_the_detector_is_given(web, playground, kind, more):
    edit = {**EDIT, **more}
    query = {name: str(value).lower() for name, value in edit.items()}
    shown = picture(web.get("/playground/picture/photo/0")).copy()
    patch = picture(web.get(f"/playground/picture/{kind}", params=query))
    insertion = playground.table.insertion(edit)
    x0, y0, x1, y1 = insertion.box
    shown[y0:y1, x0:x1] = patch
    drawn = playground.table.bench.picture(insertion) if kind == "edited" else playground.table.bench.control(insertion)
    assert np.array_equal(shown, drawn.render())


def test_small_pictures_and_objects(web, playground):
    assert picture(web.get("/playground/picture/thumb/3")).shape == (128, 128, 3)
    own, turned = (picture(web.get(f"/playground/picture/object/2?flip={flip}")) for flip in ("false", "true"))
    assert np.array_equal(own, playground.table.pool[2].rgba)
    assert np.array_equal(turned, np.flip(own, axis=1))


def test_a_large_photo_is_sent_smaller():
    wide = from_pairs([(np.zeros((900, 3000, 3), np.uint8), {"boxes": [], "labels": []})], ["cup"])
    made = Playground(load_detector(lambda images: [([], [], [])] * len(images), names=["cup"]), wide, DATA)
    answer = TestClient(application(made)).get("/playground/picture/photo/0")
    made.close()
    assert answer.headers["content-type"] == "image/jpeg"
    assert picture(answer).shape == (600, 2000, 3)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/playground/api/photo/99?client=me", 400),
        ("/playground/api/photo/0", 400),
        ("/playground/api/photo/0?client=../../etc", 400),
        ("/playground/api/photos?offset=-1", 400),
        ("/playground/api/photos?offset=²", 400),
        ("/playground/picture/photo/12", 400),
        ("/playground/picture/object/100000", 400),
        ("/playground/picture/edited", 400),
        ("/playground/picture/edited?photo=0&object=0&x=0&y=0&width=10&height=10&opacity=nan", 400),
        ("/playground/picture/edited?photo=0&object=0&x=0&y=0&width=10&height=10&opacity=x", 400),
        ("/playground/picture/photo/..%2f..%2fetc%2fpasswd", 404),
        ("/playground/picture/photo/-1", 404),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(web, path, status):
    answer = web.get(path)
    assert answer.status_code == status
    if status == 400:
        assert answer.json()["error"].endswith(".")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'{"client": "me"}', b'{"client": "me", "edit": []}', b"[" * 100_000, b"\xff"]
)
@pytest.mark.parametrize("what", ["ask", "search", "save"])
def test_a_body_that_is_none_is_refused(web, body, what):
    answer = web.post(f"/playground/api/{what}", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"].endswith(".")


def test_an_answer_names_what_is_lost(web):
    edit = losing(web)
    answer = post(web, "ask", edit).json()
    control = post(web, "control", edit).json()
    assert {box[6] for box in answer["boxes"]} >= {"kept", "lost"}
    assert control["boxes"]


def test_a_search_is_told_line_by_line(web):
    edit = {**EDIT, "x": 50, "y": 50, "width": 12, "height": 12}
    told = [json.loads(line) for line in post(web, "search", edit).text.splitlines()]
    assert told[-1]["end"] == "found"
    assert [each["asked"] for each in told] == sorted(each["asked"] for each in told)
    assert "row" not in told[-1]
    again = {**edit, **{name: told[-1][name] for name in ("x", "y", "width", "height")}}
    assert any(change["type"] == "missed" for change in post(web, "ask", again).json()["changes"])


def test_what_is_saved_can_be_replayed(web, kept):
    edit = {**losing(web), "flip": True}
    saved = post(web, "save", edit)
    assert saved.status_code == 200, saved.text
    first = saved.json()
    assert first["replay"] == f"misdetect replay {kept} {first['case']}"
    assert post(web, "save", edit).json() == first, "the same edit is one case"
    run = md.open(kept)
    assert run.replay(first["case"])["reproduced"] is True
    document = run.document
    assert (document["study"], document["insertions"], document["finished"]) == ("fuzz", 1, True)
    assert document["distinct"], "what was found"
    drawn = np.asarray(Image.open(kept / "images" / f"replay-{first['case'].replace('/', '-')}.png"))
    query = {name: str(value).lower() for name, value in edit.items()}
    patch = picture(web.get("/playground/picture/edited", params=query))
    x, y = edit["x"], edit["y"]
    assert np.array_equal(drawn[y : y + edit["height"], x : x + edit["width"]], patch)


@pytest.mark.heavy
def test_more_is_saved_into_the_same_run(web, kept):
    first = post(web, "save", losing(web)).json()["case"]
    other = next(
        answer.json()["case"]
        for answer in (post(web, "save", {**EDIT, "photo": 2, "x": x, "width": 17, "height": 26}) for x in range(90))
        if answer.status_code == 200
    )
    rows = md.open(kept).directory.table().to_pylist()
    assert {first, other} <= {row["case"] for row in rows}
    assert len({row["case_index"] for row in rows}) == len(rows) == md.open(kept).document["cases"]
    assert sorted(row["image"] for row in rows if row["phase"] == "clean") == sorted({row["image"] for row in rows})
    assert len(md.ledger(kept)) > 0
    assert md.open(kept).replay(other)["reproduced"] is True


def test_where_nothing_changes_nothing_is_saved(web, kept):
    answer = post(web, "save", {**EDIT, "opacity": 0.0})
    assert answer.status_code == 400
    assert "nothing changes" in answer.json()["error"]


@pytest.mark.heavy
def test_another_detector_does_not_write_into_that_run(web, kept):
    post(web, "save", losing(web))
    before = sorted(path.name for path in kept.rglob("*"))
    made = Playground(load_detector(f"glassbox:vanish-near/distance=12,data={DATA}"), DATA, keep=kept)
    answer = post(TestClient(application(made)), "save", losing(web))
    made.close()
    assert answer.status_code == 409
    assert "another run" in answer.json()["error"]
    assert sorted(path.name for path in kept.rglob("*")) == before


def test_nothing_is_written_unless_allowed():
    made = Playground(load_detector(SHY), DATA)
    web = TestClient(application(made))
    assert web.get("/playground/api/about").json()["write"] is False
    answer = post(web, "save", losing(web))
    made.close()
    assert answer.status_code == 403
    assert "--write" in answer.json()["error"]


def test_a_detector_that_fails_is_a_sentence_and_the_app_stays_up():
    def moody(images):
        if any(image[0, 0].sum() == 0 for image in images):
            raise RuntimeError("no black corners")
        return [([[4, 4, 20, 20]], [0.9], [0])] * len(images)

    photo = np.full((64, 64, 3), 200, np.uint8)
    data = from_pairs([(photo, {"boxes": [], "labels": []})], ["cup"])
    black = Playground(load_detector(moody, names=["cup"]), data, DATA)
    black.table.pool[0].rgba.flags.writeable = True
    black.table.pool[0].rgba[:, :] = [0, 0, 0, 255]
    web = TestClient(application(black))
    edit = {**EDIT, "x": 0, "y": 0, "width": 34, "height": 53}
    answer = post(web, "ask", edit)
    assert answer.status_code == 502
    assert "no black corners" in answer.json()["error"]
    assert post(web, "ask", {**edit, "x": 20}).status_code == 200
    lines = post(web, "search", {**edit, "x": 20}).text.splitlines()
    assert json.loads(lines[-1])
    black.close()


def test_what_is_asked_for_money_is_not_asked_while_dragging():
    class Paid:
        names, budget = ("cup",), None

        def detect(self, images):
            return [([], [], [])] * len(images)

    made = Playground(Paid(), DATA)
    assert made.about["live"] is False
    made.close()
