"""Detectors that misbehave in ways that are not about detecting: they print, they exit, they are asked for names."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from cli_world import finish, start
from PIL import Image

HEAD = """
import os, sys
class Mine:
    names = ["thing"]
    def __init__(self): {init}
    def detect(self, images):
        {detect}
        return [([[1, 2, 11, 12]], [0.9], [0]) for image in images]
{last}
"""


def write(folder, *, init="pass", detect="pass", last=""):
    (folder / "stranger.py").write_text(HEAD.format(init=init, detect=detect, last=last))
    return f"python:{folder / 'stranger.py'}:Mine"


@pytest.fixture
def photos(tmp_path):
    (tmp_path / "photos").mkdir()
    for i in range(3):
        pixels = np.random.default_rng(i).integers(0, 256, (24, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / f"{i}.png")
    return f"folder:{tmp_path / 'photos'}"


NOISE = "print('hello from Python'); os.write(1, b'hello from C'); sys.stdout.write('more')"


@pytest.mark.heavy
def test_what_a_detector_prints_does_not_reach_the_document(tmp_path, photos):
    spec = write(tmp_path, init=NOISE, detect=NOISE, last=NOISE)
    process = start("detect", "--detector", spec, "--data", photos, "--out", str(tmp_path / "o.json"), "--json")
    code, out, err = finish(process)
    assert code == 0, err
    assert json.loads(out)["detections"] == 3
    assert "hello from Python" in err
    assert "hello from C" in err


@pytest.mark.heavy
@pytest.mark.parametrize("where", ["init", "detect", "last"])
@pytest.mark.parametrize("how", ["sys.exit(0)", "sys.exit('bye')", "raise SystemExit"])
def test_a_detector_that_exits_fails_the_command(tmp_path, photos, run, where, how):
    spec = write(tmp_path, **{where: how})
    for name in [name for name in sys.modules if "stranger" in name]:
        del sys.modules[name]
    arguments = ["detect", "--detector", spec, "--data", photos, "--out", tmp_path / "o.json"]
    code, out, err = run(*arguments)
    assert (code, out) == (3, "")
    assert "SystemExit" in err or "end the command" in err
    assert not (tmp_path / "o.json").exists()


def test_an_unreadable_image_costs_that_image_and_is_named(tmp_path, photos, run):
    (tmp_path / "photos" / "1.png").write_text("no image at all")
    arguments = ["detect", "--detector", write(tmp_path), "--data", photos, "--out", tmp_path / "o.json"]
    code, out, err = run(*arguments, "--json")
    document = json.loads(out)
    assert (code, document["images"], document["failed"]) == (0, 2, 1)
    assert "1.png" in document["failures"][0]["case"]
    assert "not an image" in document["failures"][0]["error"]
    assert "1.png" in err


def test_only_regular_files_are_written(tmp_path, photos, run):
    fifo = tmp_path / "fifo"
    subprocess.run(["mkfifo", fifo], check=True)
    for out in ("/dev/null", fifo):
        code, _, err = run("detect", "--detector", write(tmp_path), "--data", photos, "--out", out)
        assert code == 2, err
        assert "no regular file" in err
    assert fifo.is_fifo()


def wait_until_it_listens(pid: int) -> None:
    """Until the process hears SIGTERM, which Python alone does not; before, a signal meets an interpreter that is still
    looking for its own modules, and that one prints what it likes."""
    status = Path(f"/proc/{pid}/status")
    deadline = time.monotonic() + 30
    while status.exists() and time.monotonic() < deadline:
        heard = re.search(r"^SigCgt:\s*(\w+)$", status.read_text(encoding="utf-8"), re.M)
        if heard is None or int(heard[1], 16) >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.01)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.heavy), 2])
@pytest.mark.parametrize("delay", [0.05, 1.5])
def test_a_signal_ends_the_command_quickly_and_without_a_traceback(tmp_path, photos, number, code, workers, delay):
    spec = write(tmp_path, detect="import time; time.sleep(60)")  # a call that must not be waited for
    arguments = ["--detector", spec, "--data", photos, "--out", str(tmp_path / "o.json"), "--workers", str(workers)]
    command = [sys.executable, "-m", "misdetect", "detect", *arguments, "--batch", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until_it_listens(process.pid)
    time.sleep(delay)
    process.send_signal(number)
    began = time.monotonic()
    out, err = process.communicate(timeout=30)
    took = time.monotonic() - began
    assert "Traceback" not in err
    assert out == ""
    assert process.returncode in (code, 0, -number)  # it may have ended before, or not have begun
    assert took < 20, "two seconds where the machine is idle"
