"""Trains in child processes that kill themselves (-9) right before or right after their n-th rename, for every n, then
once more to the end. ``python training_killed.py FOLDER`` prints one JSON list: what each folder holds in the end.

A process of its own, because a child is made by forking, which a process that has computed with torch should not do.
"""

import json
import os
import signal
import sys
from pathlib import Path

import pyarrow as pa
import torch
import torch._dynamo
from training_toys import Colourist, Counted, Darker, squares, weights

from misdetect.engine.store import Run
from misdetect.training.loop import Training
from misdetect.training.recipe import Recipe

RECIPE = Recipe(steps=7, batch=4, warmup=2, precision="float32", log_every=2, check_every=3, seed=1)
SAVE_EVERY = 3


def train(folder: Path) -> None:
    detector = Colourist()
    Training(detector, squares(), RECIPE, folder, change=Darker(), check=Counted()).run(save_every=SAVE_EVERY)
    found = {name: value.tolist() for name, value in weights(detector).items()}
    (folder.parent / f"{folder.name}.json").write_text(json.dumps(found))


def in_child(folder: Path, rename: int = 0, before: bool = True) -> bool:
    """Train in a child; whether it was killed."""
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)
        left, replace = rename, os.replace

        def deadly(source, target):
            nonlocal left
            left -= 1
            if left == 0 and before:
                os.kill(os.getpid(), signal.SIGKILL)
            replace(source, target)
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        os.replace = deadly
        train(folder)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def told(folder: Path, **more) -> dict:
    run = Run.open(folder)
    rows = run.table().to_pylist()
    learnt = json.loads((folder.parent / f"{folder.name}.json").read_text())
    return {**more, "rows": rows, "weights": learnt, "finished": run.finished, "done": len(run.done())}


def main(root: Path) -> None:
    pa.Table.from_pylist([{"a": 1}])  # imports pandas; here and above, what would otherwise be imported in every child
    in_child(root / "whole")
    found = [told(root / "whole", killed=None)]
    for before in (True, False):
        rename = 1
        while in_child(root / f"{rename}-{before}", rename, before):
            in_child(root / f"{rename}-{before}")
            found.append(told(root / f"{rename}-{before}", killed=[rename, before]))
            rename += 1
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
