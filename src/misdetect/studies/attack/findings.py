"""What a checkup says of attacks: how far AP50 falls under the worst."""

from collections.abc import Iterator, Mapping

from misdetect.studies.advice import LEAST
from misdetect.studies.contract import Document, Finding

_CHANCE = 0.02
"""What is at stake is weighed by this: it takes an attacker, and there is no detector that none can break."""


def findings(document: Document, documents: Mapping[str, Document]) -> Iterator[Finding]:
    """How far AP50 falls under the attack that takes most."""
    clean, noise = document["clean"]["AP50"], document["attacks"].get("noise", {}).get("AP50")
    tried = {name: each for name, each in document["attacks"].items() if name not in ("noise", "fgsm")}
    if not tried or clean is None:
        return
    name, worst = min(tried.items(), key=lambda item: item[1]["AP50"])
    fall, ends = clean - worst["AP50"], worst["intervals"].get("fall")
    if fall >= LEAST and ends is not None and ends[0] > 0:
        beside = "" if noise is None else f" (random noise of that size: {noise:.2f})"
        yield Finding(
            f"A change of at most {document['settings']['eps']:g} of 255 per pixel takes AP50 from {clean:.2f} to "
            f"{worst['AP50']:.2f} (attack on {name}), a fall of {fall:.2f} ({ends[0]:.2f} to {ends[1]:.2f}){beside}.",
            "Where an attacker can reach the pixels, `misdetect harden --with adversarial`; else know that noise alone "
            "does not do this.",
            _CHANCE * fall,
            (_CHANCE * ends[0], _CHANCE * ends[1]),
            "attack",
            "attack",
        )
