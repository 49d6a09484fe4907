"""docs/papers.md: what became of every claim, written from the claims and the result files alone.

No number is typed in here: those of the papers are in ``papers/*.yaml``, ours in ``papers/results``.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from papers.catalogue import Catalogue, Claim, Paper, query_name
from papers.tables import markdown_table, tables
from papers.verdicts import (
    CONFIRMED,
    REFUTED,
    UNCLEAR,
    UNTESTED,
    Judged,
    Measured,
    Results,
    is_percent,
    judge,
    overall,
)

VERDICTS = (CONFIRMED, REFUTED, UNCLEAR, UNTESTED)
_ACROSS = {"families": "families side by side"}
_PLACE = re.compile(r"\{([\w-]+)\.(\w+)\}")
_WAY = """\
*Written by `make papers` from [papers/](../papers) (the claims, their commands, the keys they read and the
comparisons) and [papers/results](../papers/results) (what was measured). Do not edit it.*"""
_READ = """\
## How to read it

A claim is tested on each *subject*: a detector and data. The **zoo** ([zoo.md](zoo.md)) are small detectors,
trained for this project on drawn rooms and bicycles; **YOLOX-nano** and **FastestDet** are real ones, on 66
COCO photos. Each number has a 90 % interval over images. *Confirmed*: the whole interval lies where the claim
says; *refuted*: none of it does; *not clear*: it spans both. What has never happened on n images is taken to
happen on up to 1 − .05^(1/n) of them. Over its subjects a claim is confirmed (refuted) if at least half of them
say so and none says the opposite; where they disagree it is not clear, and the counts tell. *Beside* it stands
the same number with what the paper did not have: for papers 1 and 4 what is left after the control,
flicker and harmless changes; for paper 2 another score threshold, and the prior (the mean box of a part over all
bicycles); for paper 3 TIDE's types of the same misses; for paper 5 the ladder of ever stronger attacks
([attack.md](attack.md#is-the-attack-strong-enough)): where it is broken, what a detector keeps is not held in
its favour. Where one of these makes no sense for a claim, it says why; – is where nothing was left to count.

Sizes: a run is `quick` (minutes in all, wide intervals) or `full`; each line says which. `make papers` runs
what is missing in full size, `make papers ARGS=--quick` in quick size, and both write this page again.

**What this cannot show.** Detectors of a million parameters on drawn rooms of 128 pixels are not the papers'
detectors on photos, and two small real detectors on 66 photos are not COCO. A claim that is refuted here is
refuted *of these subjects*; it may hold of those that the paper tested. What agrees in both the zoo and the
real ones is worth more than what holds of one. Limits such as "more than 1 %" are ours where a paper has only
words; they are written beside each claim.
"""


def page(catalogue: Catalogue, results: Results, figures: Mapping[int, Sequence[tuple[str, str]]]) -> str:
    """The page; ``figures`` are the files (relative to docs/) and their captions, by paper."""
    judged = {claim.id: judge(claim, results) for claim in (*catalogue.claims(), *catalogue.findings)}
    parts = ["# The five papers, claim by claim", _WAY, *_summary(catalogue, results, judged), _READ]
    rows = [[each.called, f"`{each.detector}`", f"`{each.data}`"] for each in catalogue.subjects.values()]
    parts.append(markdown_table([["subject", "DETECTOR", "DATA"], *rows]))
    parts.append("## What is new, by subject")
    for claim in catalogue.findings:
        parts += _claim(claim, catalogue, results, judged[claim.id])
    for paper in catalogue.papers:
        parts += _paper(paper, catalogue, results, judged, figures.get(paper.number, ()))
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def verdict_of(claim: Claim, judged: Sequence[Judged]) -> str:
    """The verdict on ``claim`` over its subjects."""
    return overall(claim, [each.verdict for each in judged])


def beside_of(claim: Claim, judged: Sequence[Judged]) -> str | None:
    """The same for what stands beside it; ``None`` where nothing is compared there."""
    said = [each.beside_verdict for each in judged if each.beside_verdict is not None]
    return overall(claim, said) if said else None


def _summary(catalogue: Catalogue, results: Results, judged: Mapping[str, Sequence[Judged]]) -> Iterator[str]:
    yield "## Summary"
    rows = []
    for paper in catalogue.papers:
        count = Counter(verdict_of(claim, judged[claim.id]) for claim in paper.claims)
        aside = Counter(beside_of(claim, judged[claim.id]) for claim in paper.claims)
        named = f"[{paper.number}: {paper.short}](#paper-{paper.number})"
        rows.append([named, len(paper.claims), *(count[each] for each in VERDICTS), aside[CONFIRMED], aside[REFUTED]])
    totals = [sum(row[i] for row in rows) for i in range(1, len(rows[0]))]
    head = ["paper", "claims", *VERDICTS, "beside it: confirmed", "refuted"]
    yield markdown_table([head, *rows, ["**all**", *(f"**{each}**" for each in totals)]])
    claims = catalogue.claims()
    stand = [claim for claim in claims if verdict_of(claim, judged[claim.id]) == CONFIRMED]
    fall = [claim for claim in claims if verdict_of(claim, judged[claim.id]) == REFUTED]
    split = [claim for claim in claims if {CONFIRMED, REFUTED} <= {each.verdict for each in judged[claim.id]}]
    gone = [claim for claim in stand if beside_of(claim, judged[claim.id]) == REFUTED]
    yield f"**Stand:** {_links(stand)}."
    yield "**Do not stand:**"
    yield "\n".join(f"- {_links([claim])} {claim.claim}" for claim in fall) or "none"
    yield f"**Hold of some subjects and not of others:** {_links(split)}."
    yield f"**Stand, but not beside it** (after the control, or at another score, the same is refuted): {_links(gone)}."
    yield "**New**, in none of the papers:"
    yield "\n".join(
        f"{i}. {_filled(claim, judged[claim.id], results)} *({_counted(judged[claim.id])}; {_links([claim])})*"
        for i, claim in enumerate(catalogue.findings, start=1)
    )


def _links(claims: Sequence[Claim]) -> str:
    return ", ".join(f"[{claim.id}](#claim-{_anchor(claim)})" for claim in claims) or "none"


def _anchor(claim: Claim) -> str:
    return claim.id.replace(".", "-")


def _counted(judged: Sequence[Judged]) -> str:
    count = Counter(each.verdict for each in judged)
    return ", ".join(f"{count[verdict]} {verdict}" for verdict in VERDICTS if count[verdict]) or "not run yet"


def _filled(claim: Claim, judged: Sequence[Judged], results: Results) -> str:
    """The sentence of a finding, with its numbers: ``{subject.name}``."""
    by_subject = {each.subject: {**each.numbers, **each.beside} for each in judged}
    specs = {**claim.numbers, **claim.beside.get("numbers", {})}

    def number(match: re.Match[str]) -> str:
        found = by_subject.get(match[1], {}).get(match[2])
        return "–" if found is None else told(found, is_percent(specs[match[2]], results, match[1]))

    return _PLACE.sub(number, claim.claim)


def _paper(
    paper: Paper,
    catalogue: Catalogue,
    results: Results,
    judged: Mapping[str, Sequence[Judged]],
    figures: Sequence[tuple[str, str]],
) -> Iterator[str]:
    yield f'<a id="paper-{paper.number}"></a>\n\n## Paper {paper.number}\n\n*{paper.title}*'
    rows = [["", "claim", "paper", "verdict", "subjects", "beside it"]]
    for claim in paper.claims:
        own = judged[claim.id]
        verdict = verdict_of(claim, own)
        said = claim.why if claim.why else _counted(own)
        link = f"[{claim.id}](#claim-{_anchor(claim)})"
        rows.append([link, claim.claim, claim.paper, f"**{verdict}**", said, beside_of(claim, own) or "–"])
    yield markdown_table(rows)
    yield from tables(paper.number, catalogue, results)
    for file, caption in figures:
        yield f"![{caption}]({file}.png)\n\n*{caption} ([PDF]({file}.pdf))*"
    yield f"### Paper {paper.number}, each claim"
    for claim in paper.claims:
        yield from _claim(claim, catalogue, results, judged[claim.id])
    yield f"### Paper {paper.number}, commands"
    yield markdown_table([["run", "size", "subjects", "command"], *_commands(paper, catalogue, results)])


def _claim(claim: Claim, catalogue: Catalogue, results: Results, judged: Sequence[Judged]) -> Iterator[str]:
    yield f'<a id="claim-{_anchor(claim)}"></a>'
    yield f"**{claim.id}** ({claim.section}). {_filled(claim, judged, results)} Paper: {claim.paper}."
    if claim.why:
        yield f"*Cannot be tested here*: {claim.why}."
        return
    yield f"Confirmed by: {claim.confirms}. Refuted by: {claim.refutes}. Reads {_reads(claim.numbers)}."
    if not judged:
        yield "Not run yet."
        return
    rows = [["subject", "ours", "verdict", *([claim.beside["says"], ""] if claim.beside else []), "size"]]
    for each in judged:
        row = [_called(claim, each.subject, catalogue), _told_all(claim.numbers, each.numbers, results, each.subject)]
        row.append(each.verdict)
        if claim.beside:
            besides = claim.beside.get("numbers", {})
            said = (_worded(each.beside_words), _told_all(besides, each.beside, results, each.subject))
            row.append("; ".join(filter(None, said)) or "–")
            row.append(each.beside_verdict or "")
        rows.append([*row, " and ".join(each.sizes)])
    yield markdown_table(rows)
    if claim.alone:
        yield f"Nothing stands beside it: {claim.alone}."


def _worded(words: Mapping[str, str | None]) -> str:
    return "; ".join(f"{name}: {text or '–'}" if len(words) > 1 else text or "–" for name, text in words.items())


def _reads(numbers: Mapping[str, Mapping[str, Any]]) -> str:
    said = dict.fromkeys(f"`{spec.get('key') or query_name(spec)}` of {spec['run']}" for spec in numbers.values())
    return ", ".join(said)


def _called(claim: Claim, subject: str, catalogue: Catalogue) -> str:
    known = catalogue.subjects.get(subject)
    return claim.labels.get(subject) or _ACROSS.get(subject) or (known.called if known else subject)


def _told_all(
    specs: Mapping[str, Mapping[str, Any]], numbers: Mapping[str, Measured | None], results: Results, subject: str
) -> str:
    said = []
    for name, number in numbers.items():
        text = "–" if number is None else told(number, is_percent(specs[name], results, subject))
        said.append(text if len(numbers) == 1 else f"{name.replace('_', ' ')} {text}")
    return "; ".join(said)


def told(number: Measured, percent: bool) -> str:
    """A number with its interval, as the page has it."""
    if number.low is None or number.high is None:
        return f"{_plain(number.value, percent)} (no interval)"
    return f"{_plain(number.value, percent)} ({_plain(number.low, percent)} to {_plain(number.high, percent)})"


def _plain(value: float, percent: bool) -> str:
    text = f"{value:.1f}" if percent else f"{value:.3f}"
    return "0.0" if text == "-0.0" else text.replace("-", "−")


def _commands(paper: Paper, catalogue: Catalogue, results: Results) -> Iterator[list[str]]:
    """Every command that was run, for one subject, and the subjects that have it."""
    for run, said in paper.runs.items():
        shown: dict[tuple[str, str], list[str]] = {}
        for name in said["subjects"]:
            if (found := results.of(run, name)) is not None:
                subject = catalogue.subjects[name]
                command = found["command"].replace(subject.detector, "DETECTOR").replace(subject.data, "DATA")
                shown.setdefault((found["size"], command), []).append(subject.called)
        for (size, command), names in shown.items():
            yield [run, size, ", ".join(names), f"`misdetect {command}`"]
