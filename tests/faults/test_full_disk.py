"""A disk that fills up costs nothing that was finished, and cuts nothing off. See ``full_disk``."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from full_disk import COMMANDS, NOT_HERE


def misbehaving(*arguments):
    """What the script says of the commands; "" if all is well."""
    script = Path(__file__).with_name("full_disk.py")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, script, *arguments], capture_output=True, text=True, timeout=3600, env=environment
    )
    if done.returncode == NOT_HERE:
        pytest.skip("this machine lets nobody mount a disk of their own (unshare -rm)")
    return "" if done.returncode == 0 and " 0 misbehave" in done.stdout else done.stdout + done.stderr


@pytest.mark.heavy
def test_one_command_keeps_what_it_finished():
    assert not misbehaving("explain", "--every", "4")


@pytest.mark.heavy
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_keeps_what_it_finished(command):
    assert not misbehaving(command)
