"""A decoder of one's own: FastestDet (github.com/dog-qiuqiu/FastestDet), whose output no built-in decoder reads.

A decoder is a function of the network's outputs for one image and the size of its input. It returns boxes in pixels of
that input; the score threshold, the suppression and the way back to the original image are done for it. Used as

    onnx:fastestdet.onnx,decoder=python:examples/fastestdet.py:decode,resize=stretch,colour=bgr,scale=1/255,names=coco,score=0.05
"""

import numpy as np


def decode(outputs, size):
    """Boxes ``[K, 4]`` (x0, y0, x1, y1 in network pixels), scores ``[K]`` and labels ``[K]``.

    ``outputs[0]`` is ``[1, 85, rows, columns]``: objectness, four box values and 80 class scores for each grid cell.
    """
    grid = outputs[0][0]
    rows, columns = grid.shape[1:]
    cells = grid.reshape(85, -1)
    labels = cells[5:].argmax(axis=0)
    scores = cells[0] ** 0.6 * cells[5:].max(axis=0) ** 0.4

    y, x = np.divmod(np.arange(rows * columns), columns)
    centre = np.stack([(np.tanh(cells[1]) + x) / columns, (np.tanh(cells[2]) + y) / rows], axis=1)
    half = 1 / (1 + np.exp(-cells[3:5].T)) / 2
    return np.concatenate([centre - half, centre + half], axis=1) * [*size, *size], scores, labels
