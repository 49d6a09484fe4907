"""ONNX files: as a black box through ONNX Runtime and a decoder, or opened as a white box in torch."""

from misdetect.detectors.family import Family, named

FAMILY = Family(
    "any ONNX file, with a decoder; opened as a white box by the onnx-torch extra",
    "Detector",
    "onnx:yolox_nano.onnx,decoder=yolox,names=coco",
    "misdetect.detectors.onnx.detector:load_onnx",
    needs=("onnxruntime",),
    extra="onnx",
    recognises=named(".onnx"),
    look="misdetect.detectors.onnx.detector:look_into",
    place=50,
)
