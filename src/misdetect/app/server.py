"""The application: the page, the rows behind it, its pictures, and what people say of failures.

Every answer that is no page, picture or file of the front end is JSON; one that failed is ``{"error": sentence}``.
"""

import contextlib
import json
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

import duckdb
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from misdetect.app.home import Home
from misdetect.app.pictures import Pictures
from misdetect.app.safety import LOCAL, Guard, TooLarge, refused
from misdetect.app.shelf import Shelf, Shelved
from misdetect.app.store import FACETS, Edition, Store
from misdetect.app.wanted import Wanted
from misdetect.said.errors import BadData, BadSpec, MisdetectError
from misdetect.said.printable import printable
from misdetect.studies.kinds import kind_of
from misdetect.studies.notes import Note, append_note, checked, notes_file, read_notes

_KINDS = {".js": "text/javascript", ".css": "text/css"}
_HOUR = {"cache-control": "private, max-age=3600"}
_ANEW = {"cache-control": "no-cache"}


class Playground(Protocol):
    """What brings further pages, under ``/playground``."""

    def routes(self) -> Sequence[BaseRoute]: ...


class App:
    """The state of a server, and its answers."""

    def __init__(self, shelf: Shelf, *, write: bool, playground: Playground | None) -> None:
        self._shelf, self._write, self._playground = shelf, write, playground
        self._store = Store(shelf)
        self._pictures = Pictures(self._store)
        self._by_name = {each.name: each for each in shelf.runs}
        self._notes: dict[str, tuple[Any, dict[str, Note]]] = {}
        self._home: tuple[Edition, Home] | None = None
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._front = _front()
        # no daemon: an interpreter that ends while DuckDB works in one is aborted
        threading.Thread(target=self._prepare, name="misdetect-prepare").start()

    def _prepare(self) -> None:
        """What the first page needs, before somebody waits for it."""
        with contextlib.suppress(MisdetectError, duckdb.Error):
            self._rows_of(Wanted({}), 0, 1)
            self._current()

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self._store.edition.rows

    @property
    def problems(self) -> list[str]:
        """What cannot be shown, in sentences."""
        return [*self._shelf.problems, *self._store.edition.problems]

    def routes(self) -> list[BaseRoute]:
        """All there is to ask for."""
        own: list[BaseRoute] = [
            Route("/", _answered(self._page)),
            Route("/favicon.ico", _answered(lambda request: Response(status_code=204))),  # browsers ask for it
            Route("/front/{name}", _answered(self._file)),
            Route("/api/meta", _answered(self._meta)),
            Route("/api/state", _answered(self._state)),
            Route("/api/facets", _answered(self._facets)),
            Route("/api/rows", _answered(self._rows)),
            Route("/api/note", self._note, methods=["POST"]),
            Route("/picture/photo/{data:int}/{index:int}", _answered(self._photo)),
            Route("/picture/edited/{run:int}", _answered(self._edited)),
        ]
        return own + list(self._playground.routes() if self._playground is not None else ())

    def _page(self, request: Request) -> Response:
        self._store.look()
        page = self._current().html(playground=self._playground is not None)
        return Response(page, media_type="text/html; charset=utf-8")

    def _current(self) -> Home:
        """The page of the newest edition."""
        edition = self._store.edition
        with self._lock:
            if self._home is None or self._home[0] is not edition:
                self._home = edition, Home(self._shelf, edition, self._pictures)
            return self._home[1]

    def _file(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._front:
            raise BadData("there is no such file.")
        kind, content = self._front[name]
        return Response(content, media_type=kind, headers=_ANEW)

    def _meta(self, request: Request) -> Response:
        return _json(self._current().meta(version=self._store.version, write=self._write))

    def _state(self, request: Request) -> Response:
        version = self._store.look()
        return _json({"version": version, "rows": self.rows, "problems": self.problems})

    def _wanted(self, request: Request) -> Wanted:
        found = Wanted.parse(request.query_params.get("filter", "{}"))
        if "tag" not in found.filter:
            return found
        tags = set(found.filter["tag"])
        keys = {
            each.name: [key for key, note in self._said(each).items() if tags & set(note.tags)]
            for each in self._shelf.runs
        }
        return Wanted(found.filter, keys)

    def _facets(self, request: Request) -> Response:
        wanted, edition = self._wanted(request), self._store.edition
        found: dict[str, Any] = dict(edition.facets(wanted))
        found["tag"] = self._tags(edition, wanted)
        return _json({"facets": found, "order": [*FACETS, "tag"]})

    def _tags(self, edition: Edition, wanted: Wanted) -> list[tuple[str, int]]:
        """How many of the rows have each tag."""
        keys: dict[str, dict[str, list[str]]] = {}
        for each in self._shelf.runs:
            for key, note in self._said(each).items():
                for tag in note.tags:
                    keys.setdefault(tag, {}).setdefault(each.name, []).append(key)
        others = wanted.without("tag").filter
        found = [(tag, edition.total(Wanted({**others, "tag": [tag]}, own))) for tag, own in sorted(keys.items())]
        return sorted((pair for pair in found if pair[1]), key=lambda pair: -pair[1])

    def _rows(self, request: Request) -> Response:
        offset, limit = (_whole(request, name, usual) for name, usual in (("offset", 0), ("limit", 60)))
        return _json(self._rows_of(self._wanted(request), offset, limit))

    def _rows_of(self, wanted: Wanted, offset: int, limit: int) -> dict[str, Any]:
        edition = self._store.edition
        total, rows = edition.found(wanted, offset, limit)
        for row in rows:
            each = self._by_name[row["run"]]
            note = self._said(each).get(row["key"], Note())
            row["tags"], row["note"] = list(note.tags), note.note
            read = kind_of(each.study).reads
            asked = self._shelf.beside(each, read) if read is not None else None
            if asked is not None:  # scores are computed from detections: what is asked again is the image
                row["replay"] = row["replay"].replace(each.name, asked.name, 1)
        described = self._pictures.describe(rows, self._by_name)
        return {"total": total, "rows": rows, "version": self._store.version, **described}

    def _said(self, each: Shelved) -> dict[str, Note]:
        """What people say of the failures of a run; read again when the file has changed."""
        path = notes_file(each.run)
        try:
            about = path.stat()
            mark: Any = (about.st_mtime_ns, about.st_size)
        except OSError:
            mark = None
        known = self._notes.get(each.name)
        if known is None or known[0] != mark:
            known = self._notes[each.name] = (mark, {} if mark is None else read_notes(each.run))
        return known[1]

    async def _note(self, request: Request) -> Response:
        """Keep tags and a note: ``{"run", "index", "key", "tags", "note"}``."""
        try:
            said = json.loads(await request.body())
            if not isinstance(said, dict):
                raise ValueError("no object")
        except (ValueError, RecursionError):
            return refused(400, "what is sent here is JSON: run, key, tags and note.")
        return await _within(lambda: self._keep(said))

    def _keep(self, said: Mapping[str, Any]) -> Response:
        if not self._write:
            return refused(403, "this server only reads; tags and notes need `misdetect serve --write`.")
        each = self._by_name.get(str(said.get("run")))
        if each is None:
            raise BadData("there is no such run.")
        note = checked(said.get("tags"), said.get("note"))
        rows = self._store.edition.some(Wanted({"run": [each.name], "key": [str(said.get("key"))]}), 0, 1)
        if not rows:
            raise BadData("there is no such failure.")
        with self._writing:
            append_note(each.run, rows[0], note)
        return _json({"tags": list(note.tags), "note": note.note})

    def _photo(self, request: Request) -> Response:
        data, index = request.path_params["data"], request.path_params["index"]
        if data not in {each.data for each in self._shelf.runs}:
            raise BadData("there is no such data.")
        return Response(self._pictures.photo(data, index), media_type="image/jpeg", headers=_HOUR)

    def _edited(self, request: Request) -> Response:
        number = request.path_params["run"]
        if not number < len(self._shelf.runs):
            raise BadData("there is no such run.")
        drawn = self._pictures.edited(self._shelf.runs[number], request.query_params.get("scene", ""))
        return Response(drawn, media_type="image/jpeg", headers=_HOUR)


def application(
    runs: Sequence[Path | str] | Shelf,
    *,
    playground: Playground | None = None,
    write: bool = False,
    allowed_hosts: Sequence[str] | None = LOCAL,
    token: str | None = None,
) -> Starlette:
    """The application over ``runs`` (folders). ``write``: tags and notes are kept; ``allowed_hosts`` and ``token``: who
    may ask, see ``safety.Guard``. ``state.app`` is its ``App``."""
    own = App(runs if isinstance(runs, Shelf) else Shelf(runs), write=write, playground=playground)
    made = Starlette(
        routes=own.routes(),
        middleware=[Middleware(Guard, hosts=allowed_hosts, token=token)],
        exception_handlers={HTTPException: _no_such, TooLarge: _too_large, Exception: _fault},
    )
    made.state.app = own
    return made


def _front() -> dict[str, tuple[str, bytes]]:
    """The files of the front end, by name: what kind each is, and its content."""
    folder = files("misdetect.drawing") / "front"
    found = {each.name: each for each in folder.iterdir()}
    return {
        name: (_KINDS[Path(name).suffix], each.read_bytes())
        for name, each in found.items()
        if Path(name).suffix in _KINDS
    }


def _answered(work: Callable[[Request], Response]) -> Callable[[Request], Awaitable[Response]]:
    """``work`` in a thread, with what it refuses as an answer."""

    async def answered(request: Request) -> Response:
        return await _within(lambda: work(request))

    return answered


async def _within(work: Callable[[], Response]) -> Response:
    try:
        return await run_in_threadpool(work)
    except BadData as error:
        return refused(404, str(error))
    except MisdetectError as error:
        return refused(400, str(error))
    except (duckdb.Error, OSError) as error:
        sentence = f"this cannot be answered: {printable(str(error).splitlines()[0])}"
        print(f"misdetect: {sentence}", file=sys.stderr)
        return refused(500, sentence)


def _whole(request: Request, name: str, usual: int) -> int:
    text = request.query_params.get(name, str(usual))
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise BadSpec(f"{name} should be a whole number.")
    return int(text)


def _json(value: Any) -> Response:
    return JSONResponse(value)


async def _no_such(request: Request, error: Exception) -> Response:
    code = error.status_code if isinstance(error, HTTPException) else 404
    return refused(code, "there is nothing at this address.")


async def _too_large(request: Request, error: Exception) -> Response:
    return refused(413, str(error))


async def _fault(request: Request, error: Exception) -> Response:
    """Said here, and on the console by the server; the application goes on."""
    return refused(500, f"a fault in misdetect: {printable(f'{type(error).__name__}: {error}')[:300]}")
