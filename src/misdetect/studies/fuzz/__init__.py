"""``fuzz``: campaigns of metamorphic object insertion (paper 4, "Metamorphic Object Insertion for Testing Object
Detection Systems").

The oracle is in ``metrics/metamorphic``, what a change means against the truth in ``metrics/harm``. ``campaign`` begins
or goes on with a run; ``study`` hands out its cases, ``plan`` decides on them round by round (``adaptive``: where a
failure is most likely; ``reach``: what may be inserted where; ``search``: relocate and shrink); ``cases`` ask and make
rows at the ``workbench``; ``truth`` judges them; ``results``, ``document``, ``tables`` and ``ledger`` are what a run
says, ``replay`` and ``failing`` what can be done with its cases.
"""

from misdetect.studies.contract import Kind
from misdetect.studies.fuzz.campaign import prepare, rebuild
from misdetect.studies.fuzz.compare import compare
from misdetect.studies.fuzz.document import document, numbers, sentences
from misdetect.studies.fuzz.ledger import ledger
from misdetect.studies.fuzz.replay import replay
from misdetect.studies.fuzz.settings import FuzzSettings
from misdetect.studies.fuzz.study import FuzzStudy

FUZZ = Kind(
    "fuzz", FuzzSettings, prepare, document, ledger, sentences, numbers, rebuild, compare, by_document=True,
    replay=replay
)  # fmt: skip

__all__ = ["FUZZ", "FuzzSettings", "FuzzStudy"]
