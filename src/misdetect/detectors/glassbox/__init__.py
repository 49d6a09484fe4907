"""The glass box: a detector made from the ground truth, with planted faults that a diagnosis has to find again."""
