"""A training leaves a run: rows that are the means of what was heard, the same after being killed at any moment, read
by everything that reads runs."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from training_toys import Colourist, Counted, Darker, squares  # noqa: E402

import misdetect as md  # noqa: E402
from misdetect.engine.store import Run  # noqa: E402
from misdetect.said.errors import BadSpec, RunBusy  # noqa: E402
from misdetect.studies.documents import keep_document  # noqa: E402
from misdetect.studies.kinds import kind_of  # noqa: E402
from misdetect.studies.replay import replay  # noqa: E402
from misdetect.training.curve import ends  # noqa: E402
from misdetect.training.loop import Training  # noqa: E402
from misdetect.training.recipe import Recipe  # noqa: E402
from misdetect.training.zoo import Trained  # noqa: E402

RECIPE = Recipe(steps=13, batch=4, warmup=2, precision="float32", log_every=4, check_every=6, seed=3)
HERE = Path(__file__).parent


def trained(folder: Path, detector: Colourist | None = None, **more) -> Run:
    detector = Colourist() if detector is None else detector
    training = Training(detector, squares(), RECIPE, folder, change=Darker(), check=Counted())
    return training.run(save_every=5, **more)


def test_rows_are_the_means_of_what_was_heard(tmp_path: Path) -> None:
    detector = Colourist()
    told: list[tuple[int, int, dict[str, float]]] = []
    rows = trained(tmp_path / "run", detector, watch=lambda *seen: told.append(seen)).table().to_pylist()
    assert [row["step"] for row in rows] == [4, 6, 8, 12, 13] == ends(RECIPE, checked=True)
    assert ends(RECIPE, checked=False) == [4, 8, 12, 13]
    begin = 0
    for row, (step, steps, numbers) in zip(rows, told, strict=True):
        heard = detector.heard[begin : row["step"]]
        losses = {pair["name"]: pair["value"] for pair in row["losses"]}
        assert losses == {name: pytest.approx(np.mean([h[name] for h in heard])) for name in ("colour", "size")}
        assert row["rate"] == RECIPE.rate(row["step"] - 1)
        scores = {pair["name"]: pair["value"] for pair in row["scores"]}
        assert scores.keys() == ({"seen", "first"} if row["step"] in (6, 12) else set())
        assert scores.get("seen", row["step"]) == row["step"]
        assert (step, steps, numbers) == (row["step"], 13, {**losses, **scores})
        begin = row["step"]


def test_a_check_sees_the_average(tmp_path: Path) -> None:
    training = Training(Colourist(), squares(), RECIPE, tmp_path / "run", check=Counted())
    training.run(until=6)
    (row,) = [row for row in Run.open(tmp_path / "run").table().to_pylist() if row["scores"]]
    assert row["scores"][1] == {"name": "first", "value": float(training.average["weight"][0, 0])}


def test_the_last_step_is_not_checked(tmp_path: Path) -> None:
    recipe = replace(RECIPE, steps=12)
    rows = Training(Colourist(), squares(), recipe, tmp_path / "run", check=Counted()).run().table().to_pylist()
    assert [row["step"] for row in rows if row["scores"]] == [6]


def test_the_curve_of_the_zoo_has_a_point_per_check_and_one_at_the_end(tmp_path: Path) -> None:
    class Scored(Counted):
        def __call__(self, detector):
            return {"AP": 0.1, "AP50": super().__call__(detector)["seen"]}

    run = Training(Colourist(), squares(), RECIPE, tmp_path / "run", check=Scored()).run()
    losses = [sum(pair["value"] for pair in row["losses"]) for row in run.table().to_pylist()]
    whole = {"AP": 0.3, "AP50": 0.6, "AR100": 0.5}
    made = Trained("yolox", tmp_path / "run" / "weights.safetensors", whole, RECIPE, "rooms:val")
    assert made.curve() == [
        {"step": 6, "loss": round(np.mean(losses[:2]), 4), "AP": 0.1, "AP50": 6},
        {"step": 12, "loss": round(np.mean(losses[2:4]), 4), "AP": 0.1, "AP50": 12},
        {"step": 13, "loss": round(losses[4], 4), "AP": 0.3, "AP50": 0.6},
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("until", [3, 4, 5, 6, 12])
def test_stopping_leaves_no_trace_in_the_rows(tmp_path: Path, until: int) -> None:
    whole = trained(tmp_path / "whole")
    stopped = trained(tmp_path / "parts", until=until)
    assert stopped.table().to_pylist() == [row for row in whole.table().to_pylist() if row["step"] <= until]
    assert not stopped.finished
    again = trained(tmp_path / "parts")
    assert again.table().to_pylist() == whole.table().to_pylist()
    assert again.finished


@pytest.mark.heavy
def test_killed_around_any_rename_it_ends_the_same(tmp_path: Path) -> None:
    """Every state that a kill -9 can leave on disk lies between two renames; see ``training_killed.py``."""
    script = HERE / "training_killed.py"
    done = subprocess.run([sys.executable, str(script), str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    whole, *killed = json.loads(done.stdout)
    assert [row["step"] for row in whole["rows"]] == [2, 3, 4, 6, 7]
    assert len(killed) >= 12, "run.json, and checkpoint and part of each of three saves"
    for each in killed:
        assert {**each, "killed": None} == whole, f"killed {'before' if each['killed'][1] else 'after'} rename {each}"


def test_without_its_checkpoint_it_begins_again_and_writes_nothing_twice(tmp_path: Path) -> None:
    whole = trained(tmp_path / "whole").table().to_pylist()
    trained(tmp_path / "run", until=9)
    (tmp_path / "run" / "checkpoint.safetensors").unlink()
    detector = Colourist()
    assert trained(tmp_path / "run", detector).table().to_pylist() == whole
    assert len(detector.heard) == 13


def test_two_trainings_in_one_folder_are_refused(tmp_path: Path) -> None:
    class Nosy(Darker):
        def __call__(self, detector, images, truths, step):
            with pytest.raises(RunBusy):
                trained(tmp_path / "run")
            return images, truths

    Training(Colourist(), squares(), RECIPE, tmp_path / "run", change=Nosy(), check=Counted()).run(until=1)
    assert trained(tmp_path / "run").finished


def test_it_is_read_as_any_run(tmp_path: Path) -> None:
    run = trained(tmp_path / "run")
    about = run.about["identity"]
    assert (about["study"], about["data"]["spec"], about["data"]["images"]) == ("training", "memory:", 24)
    assert about["detector"]["names"] == about["data"]["names"] == ["red", "green"]
    assert Recipe.of(run.settings) == RECIPE
    assert run.settings["change"] == {"name": "darker", "share": 0.5}
    assert run.settings["check"] == {"name": "counted", "of": "batches"}

    opened = md.open(tmp_path / "run")
    document, rows = opened.document, run.table().to_pylist()
    assert document == json.loads(json.dumps(keep_document(run)))
    assert (document["cases"], document["done"], document["finished"], document["steps"]) == (5, 5, True, 13)
    assert [point["step"] for point in document["curve"]] == [row["step"] for row in rows]
    for point, row in zip(document["curve"], rows, strict=True):
        assert point["losses"] == {pair["name"]: pair["value"] for pair in row["losses"]}
        assert point["loss"] == sum(pair["value"] for pair in row["losses"])
        assert (point["rate"], point["scores"]) == (row["rate"], {p["name"]: p["value"] for p in row["scores"]})
    assert document["losses"] == document["curve"][-1]["losses"]
    assert document["loss"] == document["curve"][-1]["loss"]
    assert (document["checked"], document["scores"]["seen"]) == (12, 12)

    first, last = document["curve"][0]["loss"], document["curve"][-1]["loss"]
    assert opened.sentences == [
        f"13 of 13 steps of 4 images: the loss went from {first:.4g} to {last:.4g}.",
        f"The averaged weights at step 12: seen 12.000, first {document['scores']['first']:.3f}.",
        "Every batch was changed by darker.",
    ]
    numbers = kind_of("training").numbers(document)
    assert {name: number.value for name, number in numbers.items()} == {
        "steps": 13, "loss": last, "seen": 12, "first": document["scores"]["first"],
    }  # fmt: skip
    assert opened.ledger().num_rows == 0
    with pytest.raises(BadSpec, match="none of its steps can be replayed alone"):
        replay(run, None, "step/4", Colourist())


def test_a_training_that_has_only_begun_is_read_too(tmp_path: Path) -> None:
    trained(tmp_path / "run", until=3)
    opened = md.open(tmp_path / "run")
    assert (opened.document["steps"], opened.document["loss"], opened.document["curve"]) == (0, None, [])
    assert opened.sentences == ["Nothing is learnt yet."]
    assert "0 of 5 cases done" in repr(opened)


@pytest.mark.heavy
def test_the_command_line_shows_it(tmp_path: Path) -> None:
    trained(tmp_path / "run")
    command = [sys.executable, "-m", "misdetect", "show", str(tmp_path / "run")]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert shown[0] == "training of a detector on memory:"
    assert shown[1].startswith("13 of 13 steps of 4 images")
    assert [line.split()[0] for line in shown[-3:]] == ["step", "6", "12"]
