"""The truth of a picture that was moved in its frame or mirrored: everything goes along, but for what is hallucinated
from its place in the frame."""

from dataclasses import replace

import numpy as np

from misdetect.compose.move import Flipped, Moved
from misdetect.detectors.glassbox.inside import Inside
from misdetect.detectors.glassbox.scene import Scene, Things
from misdetect.nouns.boxes import Bools, Floats, area

Move = Moved | Flipped


def stays(scene: Scene, move: Move, visible: float) -> Bools:
    """Which of the objects present are still in the frame after ``move``, by the share that must be to be seen."""
    boxes = scene.present.boxes
    return np.asarray(area(move.boxes(boxes, scene.width, scene.height)) >= visible * area(boxes))


def moved(seen: Inside, scene: Scene, ghosts: Things, bound: Bools, move: Move) -> tuple[Inside, Scene, Things]:
    """Candidates, scene and hallucinated parts where ``move`` puts them; ``bound`` ``[ghosts]`` of these stay."""

    def put(boxes: Floats, still: Bools) -> Floats:
        there = move.boxes(boxes.reshape(-1, 4), scene.width, scene.height).reshape(boxes.shape)
        return np.where(still.reshape(-1, *[1] * (boxes.ndim - 1)), boxes, there)

    def along(things: Things) -> Things:
        return replace(things, boxes=put(things.boxes, np.zeros(len(things), np.bool_)))

    still = np.concatenate([np.zeros(len(scene.present), np.bool_), bound])
    inner = replace(seen, proposals=put(seen.proposals, still), refined=put(seen.refined, still))
    shunned = move.boxes(scene.shunned, scene.width, scene.height)
    there = replace(scene, present=along(scene.present), absent=along(scene.absent), shunned=shunned)
    return inner, there, replace(ghosts, boxes=put(ghosts.boxes, bound))
