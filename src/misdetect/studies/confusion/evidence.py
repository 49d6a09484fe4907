"""The rows of a confusion that people look at: objects that became something else, or nothing."""

from misdetect.studies.contract import Evidence

EVIDENCE = Evidence(rank=30, reports=True)
