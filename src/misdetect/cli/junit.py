"""What became of a command as JUnit XML, which Jenkins, GitLab and others show: a test case per gate or, without gates,
per study.

GitLab tells test cases apart by ``classname`` and ``name`` and shows the text of a failure, Jenkins its ``message``:
the sentence is in both.
"""

from collections.abc import Iterator, Sequence
from typing import Any
from xml.etree import ElementTree

from misdetect.cli.shell import Document
from misdetect.drawing.terminal import unfinished
from misdetect.said.gates import Verdict
from misdetect.said.printable import printable

_NO_XML = {0xFFFE: "\\ufffe", 0xFFFF: "\\uffff"}
"""The two characters that XML cannot hold and ``printable`` leaves alone."""


def junit(document: Document, verdicts: Sequence[Verdict]) -> bytes:
    """The report of ``document`` and of what became of its gates."""
    cases = list(_gates(document, verdicts) if verdicts else _studies(document))
    counts = {
        name: str(sum(case.find(tag) is not None for case in cases))
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
    }
    about = {"name": "misdetect", "tests": str(len(cases)), **counts, "time": _seconds(document)}
    root = ElementTree.Element("testsuites", about)
    ElementTree.SubElement(root, "testsuite", about).extend(cases)
    ElementTree.indent(root)
    found: bytes = ElementTree.tostring(root, encoding="UTF-8", xml_declaration=True)
    return found + b"\n"


def _gates(document: Document, verdicts: Sequence[Verdict]) -> Iterator[ElementTree.Element]:
    for verdict in verdicts:
        case = _case(_name(document), verdict.gate, {})  # the time is the command's, and readers add up
        if verdict.failed is None:
            _why(case, "error", verdict.says, type="unjudged")
        elif verdict.failed:
            _why(case, "failure", verdict.says, type="gate")
        else:
            ElementTree.SubElement(case, "system-out").text = _plain(verdict.says)
        yield case


def _studies(document: Document) -> Iterator[ElementTree.Element]:
    if "studies" not in document:
        yield _study(document, _name(document), _name(document))
        return
    for name, study in document["studies"].items():
        yield _study(study, _name(document), name)
    for each in document["skipped"]:
        case = _case(_name(document), each["study"], {})
        _why(case, "skipped", each["why"])
        yield case


def _study(document: Document, group: str, name: str) -> ElementTree.Element:
    """One that did not get to its end has neither passed nor failed."""
    case = _case(group, name, document)
    if (how_far := unfinished(document) if "finished" in document else None) is not None:
        _why(case, "skipped", how_far)
    return case


def _name(document: Document) -> str:
    if "studies" in document:
        return "compare.checkup" if "differing_settings" in document else "checkup"
    name = str(document.get("study", "harden"))  # which is many trainings, and no study
    return f"compare.{name}" if "differing_settings" in document else name


def _case(group: str, name: str, document: Document) -> ElementTree.Element:
    about = {"classname": f"misdetect.{group}", "name": name, "time": _seconds(document)}
    return ElementTree.Element("testcase", {key: _plain(value) for key, value in about.items()})


def _why(case: ElementTree.Element, tag: str, sentence: str, **attributes: Any) -> None:
    ElementTree.SubElement(case, tag, {"message": _plain(sentence), **attributes}).text = _plain(sentence)


def _plain(text: str) -> str:
    """``text`` without what XML cannot hold; the rest is escaped when it is written."""
    return printable(text).translate(_NO_XML)


def _seconds(document: Document) -> str:
    parts = document["studies"].values() if "studies" in document else (document,)
    return f"{sum(part.get('timing', {}).get('seconds', 0) for part in parts):.3f}"
