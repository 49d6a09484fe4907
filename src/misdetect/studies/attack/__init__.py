"""``attack``: which loss breaks a detector, and where the confusion goes (paper 5).

``climb`` raises a loss within a ball around an image, ``where`` says which pixels may change, ``plan`` which attacks a
run has, ``study`` attacks and looks, ``rows`` are what remains of it, ``transfer`` borrows the gradients of another
detector, ``ladder`` checks whether the attack is strong enough to mean anything, ``verdict`` says it all in words.
"""

from misdetect.studies.attack.compare import compare
from misdetect.studies.attack.document import document, ledger, numbers, sentences
from misdetect.studies.attack.prepare import after, prepare, rebuild
from misdetect.studies.attack.replay import replay
from misdetect.studies.attack.settings import AttackSettings
from misdetect.studies.attack.study import AttackStudy
from misdetect.studies.attack.transfer import asked
from misdetect.studies.contract import Kind

ATTACK = Kind(
    "attack",
    AttackSettings,
    prepare,
    document,
    ledger,
    sentences,
    numbers,
    rebuild,
    compare,
    by_document=True,
    replay=replay,
    after=after,
    asked=asked,
)

__all__ = ["ATTACK", "AttackSettings", "AttackStudy"]
