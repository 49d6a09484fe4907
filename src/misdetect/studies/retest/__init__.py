"""``retest``: the same photos, and the same edits of an earlier campaign of ``fuzz``, shown to a detector.

Where fuzz asks what an edit changes, this asks what is found at all, by the annotations: so that two detectors, one
before and one after hardening, can be compared object by object. Made by ``misdetect harden``; rows are those of
``attack``, the conditions "clean" and "insertion".
"""

from misdetect.studies.contract import Kind
from misdetect.studies.retest.document import document, ledger, numbers, sentences
from misdetect.studies.retest.settings import RetestSettings
from misdetect.studies.retest.study import prepare, rebuild

RETEST = Kind("retest", RetestSettings, prepare, document, ledger, sentences, numbers, rebuild)
