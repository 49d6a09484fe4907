"""The rows of verify that people look at: parts that are not found, and those reported though missing."""

from misdetect.studies.contract import Evidence

EVIDENCE = Evidence(rank=40)
