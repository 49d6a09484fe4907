"""What a sheet of pictures shows, cut out of it again."""

import cv2

TOP, GAP = 22, 6
"""Pixels of a line of text, and between pictures."""


def part(image, number, wide, lines=1):
    """The picture at place ``number`` of those that stand side by side, without the text above it."""
    return image[lines * TOP :, number * (wide + GAP) : number * (wide + GAP) + wide].astype(int)


def shown(path):
    return cv2.imread(str(path))[:, :, ::-1]
