"""Malformed inputs get one sentence and the right exit code; nothing hangs or is left behind (see ``malformed``)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from malformed import every_case, sample

CASES = every_case()
KINDS = list(dict.fromkeys(case.kind for case in CASES))
STEP = 1600
"""Every so many of a kind are tried by ``make test``, all of them by ``make test-all``."""


def misbehaving(*arguments):
    """What the generator says, in a process of its own, since each input is met by a fork of it; "" if all is well."""
    script = Path(__file__).with_name("malformed.py")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, script, *arguments], capture_output=True, text=True, timeout=3600, env=environment
    )
    return "" if done.returncode == 0 and " 0 misbehave" in done.stdout else done.stdout + done.stderr


def test_there_are_more_than_a_thousand_and_a_sample_has_some_of_each_kind():
    assert len({case.id for case in CASES}) == len(CASES) > 1000
    assert {case.kind for case in sample(CASES, STEP)} == set(KINDS)


def test_a_sample_behaves():
    assert not misbehaving("--every", str(STEP))


@pytest.mark.heavy
@pytest.mark.parametrize("kind", KINDS)
def test_all_behave(kind):
    assert not misbehaving(kind)
