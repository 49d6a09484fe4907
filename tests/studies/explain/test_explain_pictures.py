"""Pictures of misses: which are shown, in which order; and of runs side by side."""

from types import SimpleNamespace

import numpy as np
from explain_runs import write

from misdetect.engine.store import Run
from misdetect.studies.explain import figures as explain


def test_misses_are_shown_by_mechanism_one_of_each_image_first(tmp_path, monkeypatch):
    """Objects of one image differ in size only; the largest of each image come first."""
    fates = [["proposal", "proposal", None], ["proposal"], ["background", "proposal"], [None]]
    run = Run.open(write(tmp_path / "run", fates))
    samples = [SimpleNamespace(id=f"i{i}", image=np.full((60, 60, 3), 9, np.uint8)) for i in range(4)]
    told = []
    monkeypatch.setattr(explain, "evidence", lambda image, row: told.append((row["image"], row["id"])) or image)
    made = explain.draw(run, samples, 3)
    assert [path.name for path in made] == ["mechanisms.png", "proposal.png", "background.png"]
    assert told == [("i0", 0), ("i1", 0), ("i2", 1), ("i2", 0)]
    assert explain.draw(run, samples, 0) == []


def test_a_comparison_of_misses_is_drawn_where_a_run_missed_something(tmp_path, monkeypatch):
    runs = [{"name": name, "objects": 4, "missed": missed, "miss_rate": missed / 4, "mechanisms": {"proposal": missed},
             "intervals": {"miss_rate": None, "shares": None, "rates": None}}
            for name, missed in (("a", 0), ("b", 1))]  # fmt: skip
    monkeypatch.setattr(explain, "distributions", lambda document: ("shares", len(document["runs"])))
    monkeypatch.setattr(explain, "rates", lambda document: ("rates", document["mechanisms"]))
    monkeypatch.setattr(explain.charts, "save", lambda path, figure: (path, *figure))
    monkeypatch.setattr(explain, "comparison_page", lambda document, path: (path, len(document["runs"])))
    assert explain.draw_comparison({"runs": runs, "mechanisms": "all"}, tmp_path) == [
        (tmp_path / "shares.png", "shares", 2), (tmp_path / "rates.png", "rates", "all"),
        (tmp_path / "compare.html", 2),
    ]  # fmt: skip
    assert explain.draw_comparison({"runs": runs[:1], "mechanisms": "all"}, tmp_path) == []
