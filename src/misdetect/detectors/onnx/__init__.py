"""ONNX files: as a black box through ONNX Runtime and a decoder, or opened as a white box in torch."""
