"""More than a thousand malformed inputs, each with the exit code that is right and the law that must hold.

``python tests/faults/malformed.py [--every N] [TEXT…]`` runs those of a kind or with a name that contains a TEXT (all
without one; every Nth of each kind) and prints how many there are of each kind and how many misbehave. With every
``make test``, ``test_malformed.py`` runs a sample, with ``make test-all`` all. The law is in ``malformed_case``; the
inputs are in the files beside it.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from importlib import import_module
from pathlib import Path

from malformed_case import Case, complaints, run_case
from malformed_contents import image_cases, text_cases, weight_cases
from malformed_formats import format_cases
from malformed_options import option_cases
from malformed_places import special_cases
from malformed_words import word_cases

_LOADERS = ("onnx.detector", "torchvision.load", "yolox.detector", "zoo.models", "http.endpoint")


def every_case() -> list[Case]:
    """All inputs, in a fixed order; every third is asked for JSON."""
    files = [*special_cases(), *image_cases(), *text_cases(), *weight_cases()]
    found = [*format_cases(), *files, *word_cases(), *option_cases()]
    return [case.as_json() if i % 3 == 2 and not case.streams else case for i, case in enumerate(found)]


def sample(cases: list[Case], step: int) -> list[Case]:
    """Every ``step``-th of each kind, at least one of each."""
    seen: Counter[str] = Counter()
    chosen = []
    for case in cases:
        if seen[case.kind] % step == 0:
            chosen.append(case)
        seen[case.kind] += 1
    return chosen


def misbehaviour(case: Case, folder: Path) -> list[str]:
    """Run ``case`` in ``folder``, which goes afterwards; how it breaks the law."""
    try:
        return complaints(case, run_case(case, folder), folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def warm() -> None:
    """Import what commands import, so that no child has to."""
    from misdetect.cli import VERBS
    from misdetect.studies.kinds import kinds

    for verb in VERBS.values():
        import_module(verb.where.partition(":")[0])
    for kind in kinds():
        _ = kind.prepare, kind.document, kind.settings
    for library in ("onnxruntime", *(f"misdetect.detectors.{name}" for name in _LOADERS)):
        import_module(library)
    import_module("misdetect.detectors.torchvision.ops").load()  # torch makes a folder of its own in the temporary one


def chosen(texts: list[str], step: int) -> list[Case]:
    """Those of a kind, or with a name, that contain one of ``texts``."""
    cases = [c for c in every_case() if not texts or any(c.kind == text or text in c.name for text in texts)]
    return sample(cases, step)


def main() -> int:
    parser = argparse.ArgumentParser(description="Meet misdetect with malformed inputs.")
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="a kind, or part of a name")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth of each kind")
    asked = parser.parse_args()
    warm()
    cases = chosen(asked.texts, asked.every)
    count, wrong = Counter(case.kind for case in cases), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="malformed-") as folder:
        os.environ["MISDETECT_CACHE"] = str(Path(folder) / "cache" / "predictions.sqlite")
        for number, case in enumerate(cases):
            began = time.monotonic()
            found = misbehaviour(case, Path(folder) / str(number))
            took = time.monotonic() - began
            if found or took > 5:
                wrong[case.kind] += bool(found)
                print(f"{case.id} ({took:.1f} s)", *found, sep="\n    ", flush=True)
    for kind, of in count.items():
        print(f"{kind:<14} {of:5d} inputs, {wrong[kind]:4d} misbehave")
    print(f"{'all':<14} {count.total():5d} inputs, {wrong.total():4d} misbehave")
    return bool(wrong.total())


if __name__ == "__main__":
    sys.exit(main())
