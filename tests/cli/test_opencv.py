"""OpenCV beside other packages that bring it: two of the index share one folder, and whichever came last must do."""

import os
import subprocess
import sys

import pytest

RUN = "from misdetect.cli import main; main()"
BROKEN = {
    "no library of a display": "raise ImportError('libGL.so.1: cannot open shared object file: No such file')",
    "not there": "raise ModuleNotFoundError(\"No module named 'cv2'\", name='cv2')",
    "half removed": None,
}
DETECT = ["detect", "--detector", "zoo:yolox", "--data", "rooms:val,count=2", "--no-cache", "--out", "found.json"]
COMMANDS = [
    DETECT,
    ["checkup", "--out", "checkup"],
    ["data", "rooms:val,count=2"],
    ["scan", "--detector", "glassbox:none,data=rooms:val", "--data", "rooms:val", "--out", "run"],
]


def run(command, folder, first=None):
    """``command`` in a process of its own that looks for modules in ``first`` before anywhere else."""
    path = [str(first)] if first else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*path, os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(
        [sys.executable, "-c", RUN, *command], cwd=folder, env=environment, capture_output=True, text=True
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda value: value[0])
@pytest.mark.parametrize("how", BROKEN)
def test_one_that_cannot_be_used_is_one_sentence_with_the_cure(tmp_path, how, command):
    module = tmp_path / "first" / "cv2"
    module.mkdir(parents=True)
    (module / "__init__.py").write_text(BROKEN[how] or "")  # what is half removed is a folder without anything in it
    work = tmp_path / "work"
    work.mkdir()
    done = run(command, work, module.parent)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith("misdetect: OpenCV cannot be used ("), done.stderr
    assert "pip uninstall -y opencv-python opencv-python-headless" in done.stderr
    assert done.stderr.rstrip().endswith("then pip install opencv-python-headless.")
    left = {path.name for path in work.iterdir()}
    assert left <= ({"found.json.partial", "run"} if how == "half removed" else set()), "a run that failed can go on"


@pytest.mark.heavy
def test_beside_opencv_python_in_either_order(tmp_path):
    """As Ultralytics, LibreYOLO and supervision bring it. Needs an index; the answers are the same."""
    headless, own = "opencv-python-headless", "opencv-python"
    found = []
    for first, second in ((headless, own), (own, headless)):
        folder = tmp_path / first
        for package in (first, second):
            pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--upgrade", "--target", str(folder)]
            subprocess.run([*pip, package], check=True)
        done = run(DETECT, tmp_path, folder)
        if "libGL" in done.stderr:
            pytest.skip("this machine has no libGL, which opencv-python needs")
        assert done.returncode == 0, done.stderr
        found.append((tmp_path / "found.json").read_bytes())
        (tmp_path / "found.json").unlink()
    assert found[0] == found[1]
