"""The four services of paper 4, on top of ``http``."""
