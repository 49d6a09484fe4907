"""``brightness``: how far an image can be darkened before its objects are lost."""

from misdetect.studies.contract import Kind

BRIGHTNESS = Kind(
    "brightness",
    room=__name__,
    help="How far images can be darkened before objects are lost.",
    group="breaks",
    title="What darkness does",
    example="--detector zoo:yolox --data rooms:val --out RUN",
    headlines=("lost",),
    settings="settings:BrightnessSettings",
)
