"""``Playground``: the page on which an object is dragged over a photo, and what the page asks for, as routes.

Photos and objects are numbers that are looked up, never paths. What a client sends is small JSON; what it gets is JSON
(``{"error": "one sentence"}`` where something is wrong) and pictures. Who may ask at all, and how large a request may
be, is the app's business.
"""

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from misdetect.app.desk import Dropped, Overrun
from misdetect.app.table import QUESTIONS, Edit, Table
from misdetect.compose.paste import drawn_once
from misdetect.data.dataset import Dataset
from misdetect.nouns.boxes import SIDES
from misdetect.nouns.picture import Pixels, digest
from misdetect.nouns.protocols import Detector, Traced, describe
from misdetect.pools.pool import Pool
from misdetect.report.album import shrunk
from misdetect.said.errors import BadArray, DetectorFailed, LevelTooLow, MisdetectError, RunBusy, RunMismatch

_PAGE = 24
"""Photos or objects of one answer."""
_THUMB = 160
"""Pixels of the longer side of a small picture."""
_PLAIN = 1 << 20
"""Pixels up to which a photo is sent without loss; of larger ones a JPEG of at most ``_LONGEST`` pixels a side."""
_LONGEST = 2000
_CLIENT = re.compile(r"[\w-]{1,64}", re.ASCII)


class ReadOnly(MisdetectError):
    """The app may not write. Start it with --write."""

    kind = "read-only"


_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (ReadOnly, 403),
    (DetectorFailed, 502),
    (Overrun, 503),
    (RunMismatch, 409),
    (RunBusy, 409),
    (LevelTooLow, 400),
    (MisdetectError, 400),
    (OSError, 500),
)
_EXPECTED = (MisdetectError, OSError, Dropped)
_NUMBERS = ("photo", "object", "x", "y", "width", "height")
Work = Callable[[str, Edit, int], Any]
"""For a client, its edit, and which turn of the client's it is."""


class Playground:
    """``detector`` (loaded), the photos of ``data`` and the objects of ``pool`` (both also as specs; without a pool
    those of the data itself). ``keep``: the run directory that cases are saved into; without one nothing is written."""

    def __init__(
        self, detector: Detector, data: str | Dataset, pool: str | Pool | None = None, *, keep: Path | None = None
    ) -> None:
        self.table = Table(detector, data, pool)
        self._kept = None if keep is None else self.table.bench.keep(self.table.detector, keep)

    def close(self) -> None:
        """Answer nobody any more."""
        self.table.close()

    def routes(self) -> list[Route]:
        """Everything under ``/playground``."""
        api, picture = "/playground/api", "/playground/picture"
        asked: dict[str, Work] = {
            "control": lambda client, edit, turn: self.table.answer(client, edit, turn, control=True),
            "inside": lambda client, edit, turn: self.table.inside(f"{client} inside", edit),
            "save": lambda client, edit, turn: self._save(f"{client} saving", edit),
        }
        return [
            Route("/playground", _page),
            Route(f"{api}/about", _json(lambda request: self.about)),
            Route(f"{api}/photos", _json(self._photos)),
            Route(f"{api}/objects", _json(self._objects)),
            Route(f"{api}/photo/{{number:int}}", _json(self._photo)),
            *(Route(f"{api}/{name}", _posted(self.table, work), methods=["POST"]) for name, work in asked.items()),
            Route(f"{api}/ask", self._ask, methods=["POST"]),
            Route(f"{api}/search", self._search, methods=["POST"]),
            Route(f"{picture}/photo/{{number:int}}", _drawn(self._photo_picture)),
            Route(f"{picture}/thumb/{{number:int}}", _drawn(self._thumb)),
            Route(f"{picture}/object/{{number:int}}", _drawn(self._object_picture)),
            Route(f"{picture}/edited", _drawn(self._edited)),
            Route(f"{picture}/control", _drawn(self._control)),
        ]

    @cached_property
    def about(self) -> dict[str, Any]:
        """What the page needs to know first."""
        table = self.table
        classes = table.pool.by_label
        return {
            "detector": describe(table.detector),
            "data": table.data.spec,
            "photos": len(table.data),
            "objects": table.objects,
            "labels": {label: len(numbers) // 2 for label, numbers in classes.items()},
            "score": table.how.score,
            "traced": isinstance(table.detector, Traced),
            "live": not hasattr(table.detector, "budget"),  # where questions cost, nobody asks while dragging
            "write": self._kept is not None,
            "questions": QUESTIONS,
            "page": _PAGE,
            "version": digest(table.data.fingerprint, table.pool.fingerprint)[:12],
        }

    # Lists. What they are called by comes from strangers' files, and is only ever text.

    def _photos(self, request: Request) -> dict[str, Any]:
        data, start = self.table.data, _number(request, "offset")
        some = range(start, min(start + _PAGE, len(data)))
        return {"total": len(data), "photos": [{"number": i, "id": data[i].id} for i in some]}

    def _objects(self, request: Request) -> dict[str, Any]:
        table, label, start = self.table, request.query_params.get("label", ""), _number(request, "offset")
        chosen = range(table.objects)
        numbers = [i for i in table.pool.by_label.get(label, ()) if i in chosen] if label else list(chosen)
        found = [(i, table.pool[i]) for i in numbers[start : start + _PAGE]]
        return {
            "total": len(numbers),
            "objects": [
                {"number": i, "label": cutout.label, "width": cutout.size[0], "height": cutout.size[1]}
                for i, cutout in found
            ],
        }

    def _photo(self, request: Request) -> dict[str, Any]:
        """A photo as it is, with what is detected on it."""
        number = int(request.path_params["number"])
        sample = self.table.photo(number)
        seen = self.table.seen(_client(request.query_params.get("client")), number)
        found = [
            [*(each[side] for side in SIDES), each["label"], each["score"], "kept"]
            for each in seen.row["detections"]
            if each["score"] >= self.table.how.score
        ]
        return {"number": number, "id": sample.id, "width": sample.width, "height": sample.height, "boxes": found}

    # Pictures.

    def _photo_picture(self, request: Request) -> Response:
        return _photo_of(drawn_once(self.table.photo(int(request.path_params["number"]))))

    def _thumb(self, request: Request) -> Response:
        pixels = self.table.photo(int(request.path_params["number"])).image
        return _encoded(shrunk(pixels, _THUMB)[0], ".jpg")

    def _object_picture(self, request: Request) -> Response:
        number = self.table.thing(int(request.path_params["number"]))
        flip = request.query_params.get("flip") == "true"
        return _encoded(self.table.pool[number + flip * self.table.objects].rgba, ".png")

    def _edited(self, request: Request) -> Response:
        """What an edit shows where it lies: the pixels that the detector is given."""
        edit = self.table.insertion(_described(request))
        return _encoded(self.table.bench.picture(edit).part(edit.box), ".png")

    def _control(self, request: Request) -> Response:
        edit = self.table.insertion(_described(request))
        return _encoded(self.table.bench.control(edit).part(edit.box), ".png")

    # What is done for somebody.

    def _save(self, client: str, edit: Edit) -> dict[str, str]:
        if self._kept is None:
            raise ReadOnly("nothing is written: start the app with --write to save cases.")
        return self.table.keep(client, edit, self._kept)

    async def _ask(self, request: Request) -> Response:
        body = await request.body()
        try:
            return JSONResponse(await self.table.answer_soon(*_read(self.table, body)))
        except _EXPECTED as error:
            return _failed(error)

    async def _search(self, request: Request) -> Response:
        """A line of JSON for every place tried, as it is tried. Whoever goes away ends it."""
        try:
            client, edit, _ = _read(self.table, await request.body())
        except MisdetectError as error:
            return _failed(error)
        return StreamingResponse(self._lines(client, edit), media_type="application/x-ndjson")

    def _lines(self, client: str, edit: Edit) -> Iterator[str]:
        try:
            for found in self.table.search(f"{client} searching", edit):
                found.pop("row", None)
                yield json.dumps(found) + "\n"
        except Dropped:
            yield json.dumps({"end": "stopped"}) + "\n"
        except MisdetectError as error:
            yield json.dumps({"error": str(error)}) + "\n"


def _page(request: Request) -> Response:
    style = "".join(f'<link rel="stylesheet" href="/front/{name}.css">' for name in ("style", "playground"))
    return HTMLResponse(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>misdetect: playground</title>{style}</head><body>'
        "<noscript><p>The playground needs JavaScript, which is switched off here.</p></noscript>"
        '<md-playground></md-playground><script type="module" src="/front/playground.js"></script></body></html>'
    )


Endpoint = Callable[[Request], Awaitable[Response]]


def _json(work: Callable[[Request], Any]) -> Endpoint:
    """A route that answers a GET with JSON."""
    return _drawn(lambda request: JSONResponse(work(request)))


def _posted(table: Table, work: Work) -> Endpoint:
    """A route that answers a client's edit with JSON."""

    async def endpoint(request: Request) -> Response:
        body = await request.body()
        return await run_in_threadpool(_answered, lambda: JSONResponse(work(*_read(table, body))))

    return endpoint


def _drawn(work: Callable[[Request], Response]) -> Endpoint:
    """A route that answers with a picture, which stays what it is."""

    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(_answered, lambda: work(request))

    return endpoint


def _answered(work: Callable[[], Response]) -> Response:
    try:
        return work()
    except _EXPECTED as error:
        return _failed(error)


def _failed(error: Exception) -> Response:
    if isinstance(error, Dropped):
        return JSONResponse({"stale": True})
    return JSONResponse({"error": str(error)}, next(status for kind, status in _STATUS if isinstance(error, kind)))


def _read(table: Table, body: bytes) -> tuple[str, Edit, int]:
    """Who asks, the edit, and which turn of theirs it is, from a request's ``body``."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadArray("the request is no JSON.") from error
    if not isinstance(found, dict) or not isinstance(found.get("edit"), dict):
        raise BadArray("the request has a client and an edit.")
    turn = found.get("turn", 0)
    if type(turn) is not int:
        raise BadArray("a turn is a whole number.")
    return _client(found.get("client")), table.insertion(found["edit"]), turn


def _client(name: object) -> str:
    if not isinstance(name, str) or not _CLIENT.fullmatch(name):
        raise BadArray("a client is named by up to 64 letters, digits and dashes.")
    return name


def _number(request: Request, name: str) -> int:
    text = request.query_params.get(name, "0")
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise BadArray(f"{name} is a whole number from 0 on.")
    return int(text)


def _described(request: Request) -> Mapping[str, Any]:
    """The edit in a picture's address."""
    try:
        opacity = float(request.query_params.get("opacity", "1"))
    except ValueError as error:
        raise BadArray("opacity is a number from 0 to 1.") from error
    flip = request.query_params.get("flip") == "true"
    return {name: _number(request, name) for name in _NUMBERS} | {"opacity": opacity, "flip": flip}


def _photo_of(pixels: Pixels) -> Response:
    small = pixels.shape[0] * pixels.shape[1] <= _PLAIN
    return _encoded(pixels, ".png") if small else _encoded(shrunk(pixels, _LONGEST)[0], ".jpg")


def _encoded(pixels: Pixels, kind: str) -> Response:
    """``pixels`` (RGB or RGBA) as a file. Its address names what it shows, so it may be kept for a while."""
    order = cv2.COLOR_RGB2BGR if pixels.shape[2] == 3 else cv2.COLOR_RGBA2BGRA
    good, data = cv2.imencode(kind, cv2.cvtColor(np.ascontiguousarray(pixels), order))
    assert good, "memory alone decides that"
    media = {".png": "image/png", ".jpg": "image/jpeg"}[kind]
    return Response(data.tobytes(), media_type=media, headers={"Cache-Control": "private, max-age=3600"})
