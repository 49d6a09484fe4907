"""Graphs of newer operator sets, written in the one that onnx2torch knows.

Since opset 17 most operators have only got more types and options; a graph that uses none of them means the same under
the older number. ``onnx.version_converter`` stops at ``Resize``, which every YOLO has. What is made here is only ever
used after its outputs were compared with ONNX Runtime's.
"""

from typing import Any

KNOWN = 17
"""The newest operator set whose operators onnx2torch converts."""


class CannotLower(ValueError):
    """The graph uses what the older operator set does not have; the message names it."""


def opset_of(model: Any) -> int:
    """The version of ONNX's own operators that ``model`` is written in."""
    return next((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), 1)


def lower(model: Any) -> None:
    """Rewrite ``model`` (an ``onnx.ModelProto``) in opset ``KNOWN``, where it is of a newer one."""
    from onnx import numpy_helper

    version = opset_of(model)
    if version <= KNOWN:
        return
    constants = {each.name: each for each in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            constants[node.output[0]] = node.attribute[0].t
    for number, node in enumerate(model.graph.node):
        node.name = node.name or f"unnamed_{number}"  # onnx2torch mixes up nodes that have none
        if node.domain in ("", "ai.onnx"):
            _lower_node(
                node, version, lambda name: numpy_helper.to_array(constants[name]) if name in constants else None
            )
    for each in model.opset_import:
        if each.domain in ("", "ai.onnx"):
            each.version = KNOWN


def _lower_node(node: Any, version: int, constant: Any) -> None:
    import onnx

    what = f"{node.op_type} of opset {version}"
    try:
        old = onnx.defs.get_schema(node.op_type, KNOWN)
    except onnx.defs.SchemaError:
        raise CannotLower(f"{what} is not in opset {KNOWN}") from None
    new = onnx.defs.get_schema(node.op_type, version)
    if len(node.input) > old.max_input:
        _axes_as_attribute(node, old, constant, what)
    for attribute in list(node.attribute):
        if attribute.name in old.attributes:
            continue
        default = new.attributes[attribute.name].default_value
        value = onnx.helper.get_attribute_value
        # parts of equal size are what Split makes without being told, too
        if (node.op_type, attribute.name) != ("Split", "num_outputs") and not (
            default.type and value(default) == value(attribute)
        ):
            raise CannotLower(f"{what} has {attribute.name}, which opset {KNOWN} does not")
        node.attribute.remove(attribute)


def _axes_as_attribute(node: Any, old: Any, constant: Any, what: str) -> None:
    """The reductions took their axes as an attribute; the newer ones take them as an input."""
    import onnx

    axes = constant(node.input[1]) if len(node.input) == 2 else None
    if axes is None or "axes" not in old.attributes:
        raise CannotLower(f"{what} has {len(node.input)} inputs, which opset {KNOWN} does not know")
    del node.input[1:]
    node.attribute.append(onnx.helper.make_attribute("axes", axes.tolist()))
