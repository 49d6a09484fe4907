"""``doctor``: is a detector wired up right? The mistakes people make, tried one by one, and what each would be worth.

``changes`` are mistakes in what is sent (edits of the picture, options of an ``onnx:`` spec), ``readings`` mistakes in
what comes back. ``bench`` asks the detector in other ways and takes its answers down as they are, ``answers`` reads
them in one way or another; ``search`` chooses on some images what ``document`` confirms on others; ``observe`` sees
what needs no question, ``against`` compares with a reference.
"""

from misdetect.studies.contract import Kind

DOCTOR = Kind(
    "doctor",
    room=__name__,
    help="Is it wired up right? Tries what people get wrong, and says what it costs and how to fix it.",
    group="wrong",
    title="Is it wired up right?",
    example="--detector onnx:yolox_nano.onnx,decoder=yolox,names=coco --data coco:instances.json",
    settings="settings:DoctorSettings",
    asked="study:asked",
)
