"""The five papers, claim by claim: ``make papers`` runs what is missing and writes docs/papers.md and its figures.

``catalogue`` reads the claims (papers/*.yaml), ``runs`` runs their commands and keeps what they found as small files
(papers/results), ``verdicts`` compares, ``figures`` draws, ``page`` writes. Only ``runs`` asks detectors.
"""
