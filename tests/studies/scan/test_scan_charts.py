"""The charts of a scan: what it harms beside its control, and the maps of the worst pairs."""

from types import SimpleNamespace

from charted import charts, row

from misdetect.studies.scan import charts as scan_charts


def test_what_a_scan_harms_is_counted_apart_from_its_control():
    document = {"settings": {"score": 0.3, "step": 16}, "positions": 40, "pairs": []}
    rows = [
        *[row("scan", "missed")] * 3, row("scan", "missed", control=True), row("scan", "missed", flicker=True),
        row("scan", "missed", harm="improvement"), row("scan", "extra", control=True), row("scan", "moved"),
    ]  # fmt: skip
    (bars,) = charts("scan", document, rows)
    own = {"study": ["scan"], "harm": ["harmful"], "flicker": [False]}
    assert [(mark["name"], mark["value"], mark["filter"], mark["tone"]) for mark in bars["marks"]] == [
        ("missed", 3, own | {"outcome": ["missed"], "control": [False]}, "discarded"),
        ("moved", 1, own | {"outcome": ["moved"], "control": [False]}, "discarded"),
        ("missed, control", 1, own | {"outcome": ["missed"], "control": [True]}, "unknown"),
        ("extra, control", 1, own | {"outcome": ["extra"], "control": [True]}, "unknown"),
    ]
    assert bars["about"] == "zoo:x on rooms:val; score ≥ 0.3, 40 positions, step 16 px"
    assert charts("scan", document, rows[4:6]) == []


def test_a_map_has_the_positions_of_the_worst_pairs_with_what_was_put_there(monkeypatch):
    """A pair counts by its share of affected positions; one without detections, or where nothing happens, has none."""
    rows = {(7, "object"): [{"x": 1, "y": 2, "score": 0.12345}], (7, "control"): [],
            (3, "object"): [{"x": 5, "y": 6, "score": 1.0}],
            (3, "control"): [{"x": 5, "y": 6, "score": 0.5}]}  # fmt: skip
    run = SimpleNamespace(query=lambda _, asked: SimpleNamespace(to_pylist=lambda: rows[tuple(asked)]))
    pair = SimpleNamespace(cutout=SimpleNamespace(label="cup", size=(20, 30)), background=SimpleNamespace(id="i4"))
    monkeypatch.setattr(scan_charts, "rebuild", lambda run, data: SimpleNamespace(open_pair=lambda number: pair))
    pairs = [{"pair": 3, "detections": 2, "affected": {"0.5": 10.0, "0.9": 5.0}},
             {"pair": 5, "detections": 0, "affected": {"0.5": 99.0}}, {"pair": 6, "detections": 1, "affected": None},
             {"pair": 7, "detections": 1, "affected": {"0.5": 9.0, "0.9": 7.0}}]  # fmt: skip
    document = {"settings": {"score": 0.3, "step": 16}, "positions": 40, "pairs": pairs}
    (heat,) = charts("scan", document, [], run, "data")
    assert (heat["kind"], heat["step"]) == ("heat", 16)
    assert [[(layer["name"], layer["cells"]) for layer in each["layers"]] for each in heat["maps"]] == [
        [("object", [[1, 2, 0.123, "scan/7/1,2"]])],
        [("object", [[5, 6, 1.0, "scan/3/5,6"]]), ("control", [[5, 6, 0.5, "scan/3/5,6/control"]])],
    ]
    assert {(each["title"], each["image"], *each["cut"]) for each in heat["maps"]} == {("cup on i4", "i4", 20, 30)}
    assert charts("scan", document, [], run, None) == []
