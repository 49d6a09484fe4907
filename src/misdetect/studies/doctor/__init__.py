"""``doctor``: is a detector wired up right? The mistakes people make, tried one by one, and what each would be worth.

``changes`` are mistakes in what is sent (edits of the picture, options of an ``onnx:`` spec), ``readings`` mistakes in
what comes back; ``bench`` asks the detector in other ways and takes its answers down as they are; ``search`` chooses on
some images what ``document`` confirms on others; ``observe`` sees what needs no question, ``against`` compares with a
reference.
"""

from misdetect.studies.contract import Kind
from misdetect.studies.doctor.again import replay
from misdetect.studies.doctor.document import document, ledger, numbers, sentences
from misdetect.studies.doctor.settings import DoctorSettings
from misdetect.studies.doctor.study import DoctorStudy, asked, prepare, rebuild

DOCTOR = Kind(
    "doctor", DoctorSettings, prepare, document, ledger, sentences, numbers, rebuild, replay=replay, asked=asked
)

__all__ = ["DOCTOR", "DoctorSettings", "DoctorStudy"]
