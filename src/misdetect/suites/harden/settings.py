"""What can be set of ``harden``: what is learnt from, how, what guards it, and what it is tested on."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args

from misdetect.engine import Progress
from misdetect.nouns.settings import PYTHON, RUNNING, Count, Heading, Number, Range, Share
from misdetect.said.errors import BadSpec
from misdetect.studies.workforce import Workforce

How = Literal["pgd", "mtd", "cwat"]
"""What an attack on a batch climbs: the whole loss, the worse of cls and loc per image, the class-aware loss."""
FAILURES, ADVERSARIAL = "failures", "adversarial"
_WHAT, _EDITS, _ATTACK = Heading("What is learnt from"), Heading("With failures"), Heading("With adversarial")
_TRAINING, _GUARD, _TEST = Heading("Training"), Heading("Guards"), Heading("Test")
_RUNNING = Heading("Running")


@dataclass(frozen=True, kw_only=True)
class HardenSettings(Workforce):
    """Retrain a detector on what was found, guarded, and test it again: what is fixed, what still fails, what broke."""

    with_: Annotated[str, _WHAT]
    """failures:RUN, a campaign of fuzz on the data; or adversarial[:pgd|mtd|cwat]."""
    held_out: Annotated[str | None, _WHAT] = None
    """Data to stop by. By default val of rooms and bikes; of other data a tenth that is not trained on."""
    test: Annotated[str | None, _WHAT] = None
    """Data of the final numbers. By default test of rooms and bikes; of other data another tenth."""
    inserted: Annotated[Literal["unlabelled", "labelled"], _EDITS] = "unlabelled"
    """Whether the inserted object is taught too; paper 4 leaves it out."""
    share: Annotated[Share, _EDITS] = 0.5
    """Of each batch from the synthetic images; paper 4 has as many of them as photos."""
    rounds: Annotated[Count, _EDITS] = 1
    """Fuzz the hardened detector and retrain it, up to N times; ends where held-out failures get no fewer."""
    eps: Annotated[float, _ATTACK, Range(0, 255)] = 8
    """Largest change of a pixel's colour, of 255."""
    alpha: Annotated[float | None, _ATTACK, Range(0, 255)] = None
    """Change per step; by default half of --eps, all of it with --free."""
    inner_steps: Annotated[Count, _ATTACK] = 2
    """Steps of the attack on each batch."""
    clean: Annotated[Share, _ATTACK] = 0.5
    """Of each batch that is not attacked."""
    free: Annotated[Number, _ATTACK] = 0
    """Replay each batch N times instead, with one gradient for weights and pixels; 0: do not."""
    backbone: Annotated[Literal["own", "adversarial"], _ATTACK] = "own"
    """Of a zoo detector: begin with its own backbone, or one trained adversarially on object crops first."""
    backbone_steps: Annotated[Count, _ATTACK] = 1500
    """Steps of that training."""
    steps: Annotated[Count, _TRAINING] = 500
    """Steps of each training."""
    batch: Annotated[Count, _TRAINING] = 16
    """Images per step."""
    learning_rate: Annotated[float | None, _TRAINING, Range(0)] = None
    """After the warm-up; by default 0.0003 with failures, 0.001 with adversarial."""
    backbone_rate: Annotated[float | None, _TRAINING, Range(0)] = None
    """Times the learning rate is the backbone's; by default 0.1 with --backbone adversarial, else the detector's."""
    seeds: Annotated[Count | None, _TRAINING] = None
    """Trainings of each configuration; by default 3 with failures, 1 with adversarial."""
    seed: Annotated[int, _TRAINING, Range(0)] = 0
    """The first of them, and of all that is drawn."""
    min_clean_ap: Annotated[Share | None, _GUARD] = None
    """Stop and go back where AP on held-out photos falls below."""
    checks: Annotated[Count, _GUARD] = 10
    """How often the held-out data is looked at during a training."""
    patience: Annotated[Count, _GUARD] = 4
    """Stop after N checks without progress."""
    watched: Annotated[Count, _GUARD] = 64
    """Held-out photos that are looked at."""
    images: Annotated[Count, _TEST] = 200
    """Test photos for AP."""
    attacked: Annotated[Count, _TEST] = 40
    """Test photos that are attacked, and photos of its ladder."""
    attack_steps: Annotated[Count, _TEST] = 20
    """Steps of the final attack (PGD)."""
    queries: Annotated[Count, _TEST] = 300
    """Of each campaign of fuzz."""
    score: Annotated[Share, _TEST] = 0.3
    """Least score of a detection that finds an object."""
    flicker: Annotated[Share, _TEST] = 0.05
    """A score so near --score is neither repaired nor lost."""
    confidence: Annotated[float, _TEST, Range(0.01, 0.999)] = 0.9
    """Of the intervals."""
    out: Annotated[Path | None, RUNNING, _RUNNING] = None
    """Folder for weights, runs and report; the same command goes on where it was interrupted."""
    cache: Annotated[bool, RUNNING, _RUNNING] = True
    """Use answers of earlier runs, and remember those of this one."""
    progress: Annotated[Progress | None, PYTHON] = None
    """Called with what is done, how much there is in all, and counts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        kind, _, rest = self.with_.partition(":")
        if kind == FAILURES and rest:
            return
        if kind != ADVERSARIAL or rest not in ("", *get_args(How)):
            raise BadSpec(
                f"what to learn from should be failures:RUN or adversarial[:{'|'.join(get_args(How))}]. Got "
                f"{self.with_!r}."
            )
        if self.rounds > 1:
            raise BadSpec("rounds are of failures; adversarial training meets its attacks anew in every step.")
        if self.free and rest not in ("", "pgd"):
            raise BadSpec(f"free training raises the whole loss, as pgd does; it has no {rest}.")

    @property
    def campaign(self) -> Path | None:
        """The run of fuzz to learn from, if it is that."""
        kind, _, rest = self.with_.partition(":")
        return Path(rest) if kind == FAILURES else None

    @property
    def how(self) -> How:
        """The attack that is trained with."""
        return cast("How", self.with_.partition(":")[2] or "pgd")

    @property
    def trainings(self) -> int:
        """Of each configuration."""
        return self.seeds or (1 if self.campaign is None else 3)

    @property
    def rate(self) -> float:
        """The learning rate."""
        return self.learning_rate or (1e-3 if self.campaign is None else 3e-4)

    @property
    def pace(self) -> float:
        """α."""
        return self.alpha or (self.eps if self.free else self.eps / 2)

    @property
    def check_every(self) -> int:
        """Steps between two looks at the held-out data; a multiple of the replays of free training."""
        between = max(1, self.steps // self.checks)
        return -(-between // self.replays) * self.replays

    @property
    def replays(self) -> int:
        """Steps per batch."""
        return max(1, self.free)

    def plan(self) -> Mapping[str, Any]:
        """What decides the result, for ``plan.json`` and the document."""
        own = self.document()
        settled = {"learning_rate": self.rate, "alpha": self.pace, "seeds": self.trainings}
        return {"with": own.pop("with_"), **own, **settled}
