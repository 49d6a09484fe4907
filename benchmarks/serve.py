"""``misdetect serve`` on a ledger of a million rows: filters with all their counts, first pages, and memory.

A small run of explain is made and its rows repeated under the names of further images, so that they are as a large
run's; a server of its own process is then asked over HTTP, as a page asks it. Prints one JSON line; the limits are
150 ms for a filter with its facets and 300 ms for a first page at the 95th percentile, and 600 MB.

    python benchmarks/serve.py [--rows 1000000] [--asked 60] [--keep FOLDER]
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest.mock import patch
from urllib.parse import quote

import httpx
import numpy as np
import pyarrow as pa
from _measuring import Parser, memory_kb

import misdetect as md
from misdetect.engine.indices import Indices
from misdetect.engine.requests import Case
from misdetect.engine.store import Run
from misdetect.studies.documents import keep_document

IMAGES = 60
OWN = ("case_index", "case", "row", "error", "error_image")


def make(folder: Path, rows: int) -> Path:
    """A run of about ``rows`` ledger rows in ``folder``."""
    fault = f"glassbox:sink/class=chair/rate=.5,data=rooms:val,count={IMAGES}"
    small = md.explain(fault, f"rooms:val,count={IMAGES}", out=folder / "small")
    copies = -(-rows // small.ledger().num_rows)
    about = json.loads(json.dumps(small.directory.about))
    identity = about["identity"]
    identity["data"]["images"] = IMAGES * copies
    identity["data"]["spec"] = f"rooms:val,count={IMAGES * copies}"
    identity["data"]["fingerprint"] = md.load_data(identity["data"]["spec"]).fingerprint
    table = small.rows()
    schema = pa.schema([field for field in table.schema if field.name not in OWN])
    provenance = {name: about[name] for name in ("command", "versions", "detector_settings", "view") if name in about}
    large = Run.start(folder / "large", identity, schema, **provenance)
    index, image = table["case_index"].to_numpy(), table["image"].to_pylist()
    of = np.array([int(name.rpartition("-")[2]) for name in image])
    some = 200
    for first in range(0, copies, some):
        turns = range(first, min(first + some, copies))
        names = [f"rooms-val-0-{number:06d}" for turn in turns for number in (of + turn * IMAGES)]
        columns = {name: pa.concat_arrays([table[name].combine_chunks()] * len(turns)) for name in schema.names}
        columns["image"] = pa.array(names, schema.field("image").type)
        columns["case_index"] = pa.array(np.concatenate([index + i * IMAGES for i in range(len(turns))]))
        cases = [Case(i, f"rooms-val-0-{first * IMAGES + i:06d}", None) for i in range(IMAGES * len(turns))]
        _add(large, pa.table(columns), cases, first * IMAGES)
    large.note(cases=IMAGES * copies)
    large.close()
    # the small run's, since the intervals of so many images take minutes that say nothing of the server
    document = small.document | {"done": IMAGES * copies, "cases": IMAGES * copies, "failed": 0}
    with patch("misdetect.studies.documents.document_of", return_value=document):
        keep_document(large)
    return folder / "large"


def _add(run: Run, rows: pa.Table, cases: list[Case], first: int) -> None:
    """Write ``rows`` of ``cases`` down as one part; ``first`` is what the number of the first case is."""
    table = rows.append_column("case", pa.array([case.id for case in cases]).take(rows["case_index"].combine_chunks()))
    inner = rows["case_index"].to_numpy()
    own = {
        "case_index": pa.array(inner + first, pa.int64()),
        "row": pa.array(np.arange(len(inner)) - np.searchsorted(inner, inner), pa.int32()),
        **{name: pa.nulls(len(inner), pa.string()) for name in ("error", "error_image")},
    }
    schema = run._schema
    assert schema is not None
    columns = [own[name] if name in own else table[name].combine_chunks() for name in schema.names]
    run._write_part(pa.table(columns, schema=schema), Indices(case.index + first for case in cases), Indices())


class Server:
    """A server in a process of its own, with its memory."""

    def __init__(self, run: Path) -> None:
        command = [sys.executable, "-c", "from misdetect.cli import main; main()"]
        self.process = subprocess.Popen([*command, "serve", str(run), "--port", "0", "--json"], stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        text = b""
        while not text.rstrip().endswith(b"\n}") and self.process.poll() is None:
            text += self.process.stdout.readline()
        self.address: str = json.loads(text)["address"]

    @property
    def memory(self) -> float:
        """Megabytes at the most so far."""
        return memory_kb("VmHWM", self.process.pid) / 1024

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(30)


def filters(words: dict[str, list[list]], count: int) -> list[dict]:
    """What somebody might look at: failures, and up to three facets with some value each; some search."""
    rng = random.Random(0)
    found = []
    for i in range(count):
        wanted: dict = {"failure": [True], "again": [False]} if i % 2 else {}
        for name in rng.sample([name for name, each in words.items() if each], rng.randint(0, 3)):
            wanted[name] = [rng.choice(words[name][:6])[0]]
        if i % 5 == 0:
            wanted["search"] = f"{rng.randint(0, 999):03d}"
        if i % 7 == 0:
            wanted["wrong_at"] = round(rng.random(), 2)
        found.append(wanted)
    return found


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, short=500)
    parser.add_argument("--asked", type=int, default=60, short=3)
    parser.add_argument("--keep", type=Path, help="where the run is made, or was made before")
    how = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = how.keep or Path(temporary)
        run = folder / "large"
        if not (run / "document.json").exists():
            run = make(folder, how.rows)
        began = time.perf_counter()
        server = Server(run)
        started = time.perf_counter() - began
        try:
            print(json.dumps({"start_seconds": round(started, 1), **measure(server, how.asked)}))
        finally:
            server.close()


def measure(server: Server, asked: int) -> dict:
    """Milliseconds of the two requests of a page, each as the browser sends them."""
    client = httpx.Client(base_url=server.address, timeout=60)
    opened = _timed(lambda: client.get("/")) + _timed(lambda: client.get("/api/meta"))
    words = client.get("/api/facets", params={"filter": "{}"}).json()["facets"]
    facets, first, deep, photos = [], [], [], []
    for wanted in filters(words, asked):
        address = quote(json.dumps(wanted))
        facets.append(_timed(lambda a=address: client.get(f"/api/facets?filter={a}")))
        first.append(_timed(lambda a=address: client.get(f"/api/rows?filter={a}&offset=0&limit=24")))
    total = client.get("/api/rows?filter={}&offset=0&limit=1").json()["total"]
    for part in (0.2, 0.5, 0.99):
        deep.append(_timed(lambda p=part: client.get(f"/api/rows?filter={{}}&offset={int(p * total)}&limit=24")))
    page = client.get("/api/rows?filter={}&offset=0&limit=24").json()
    for record in list(page["images"].values())[:24]:
        photos.append(_timed(lambda r=record: client.get(r["picture"])))
    return {
        "rows": total,
        "opened_ms": round(opened),
        "filter_and_facets_ms": _percentiles(facets),
        "first_page_ms": _percentiles(first),
        "far_down_ms": [round(each) for each in deep],
        "photo_ms": _percentiles(photos),
        "memory_mb": round(server.memory),
        "resident_mb": round(memory_kb("VmRSS", server.process.pid) / 1024),
    }


def _timed(ask) -> float:
    began = time.perf_counter()
    ask().raise_for_status()
    return 1000 * (time.perf_counter() - began)


def _percentiles(times: list[float]) -> dict[str, int]:
    return {name: round(float(np.percentile(times, q))) for name, q in (("p50", 50), ("p95", 95))} if times else {}


if __name__ == "__main__":
    main()
