"""Killed before any file operation, a verb that writes can simply be run again, and leaves what it always does."""

import pytest
from kill_points import every_kill

YOLOX = ("--detector", "zoo:yolox", "--data", "rooms:val,count=6")
GLASS = ("--detector", "glassbox:none,data=rooms:val,count=6", "--data", "rooms:val,count=6")

COMMANDS = {
    "detect": lambda out: ["detect", *GLASS, "--out", str(out / "results.json"), "--no-cache"],
    "explain": lambda out: ["explain", *GLASS, "--out", str(out / "run"), "--no-cache", "--pictures", "0"],
    "data": lambda out: ["data", "rooms:val,count=3", "--out", str(out / "coco")],
}


@pytest.mark.parametrize("verb", COMMANDS)
def test_a_kill_before_some_file_operations(verb, tmp_path):
    points, wrong = every_kill(COMMANDS[verb], tmp_path, step=7)
    assert points > 5
    assert not wrong, "\n".join(wrong)


@pytest.mark.heavy
@pytest.mark.parametrize("verb", COMMANDS)
def test_a_kill_before_every_file_operation(verb, tmp_path):
    points, wrong = every_kill(COMMANDS[verb], tmp_path)
    assert points > 5
    assert not wrong, "\n".join(wrong)
