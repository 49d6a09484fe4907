"""Nothing that a terminal acts on is printed, and nothing else is changed."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from misdetect.said.printable import printable, printable_values, shortened, without_folders

LETTERS = st.characters(categories=["L", "M", "N", "P", "S", "Cc", "Cs", "Zl", "Zp"])
TURNS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@given(st.text(LETTERS | st.sampled_from("\u061c\u200e\u200f\u202e\u2066\u2069\x1b\x9b\n\t")))
def test_nothing_is_left_that_moves_colours_breaks_or_turns(text):
    for letter in printable(text):
        assert unicodedata.category(letter) not in ("Cc", "Cs", "Zl", "Zp")
        assert unicodedata.bidirectional(letter) not in TURNS
        assert letter not in "\u061c\u200e\u200f"


@given(st.text(st.characters(categories=["L", "M", "N", "P", "S"])))
def test_words_stay_as_they_are(text):
    assert printable(text) == text


def test_what_is_written_out_can_be_read():
    assert printable("a\x1b[2Jb\nc\u202ed\ud83d") == r"a\x1b[2Jb\nc\u202ed\ud83d"
    assert printable("می\u200cخواهم") == "می\u200cخواهم", "a joiner is part of a word"


def test_documents_are_made_printable_within():
    document = {"a\a": ["\x1b", ("\r", 1, None, 0.5)], "b": {"c": True}}
    assert printable_values(document) == {r"a\x07": [r"\x1b", [r"\r", 1, None, 0.5]], "b": {"c": True}}


def test_long_text_loses_its_middle():
    assert shortened("abcdef", 6) == "abcdef"
    assert shortened("abcdefg", 6) == "abc … efg"


@pytest.mark.parametrize(
    ("text", "sent"),
    [("onnx:/home/x/best.onnx,score=.3", "onnx:best.onnx,score=.3"), ("reads /tmp/a/b.txt.", "reads b.txt."),
     (r"C:\a\b.txt", "b.txt"), ("~/a/b.json", "b.json"), ("--with failures:/a/b/fuzz", "--with failures:fuzz"),
     ("http://host/a/b", "http://host/a/b"), ("s3://bucket/key", "s3://bucket/key"), ("cup/bowl/x", "cup/bowl/x"),
     ("IoU .5/.95", "IoU .5/.95"), ('["/a/b.onnx", 1]', '["b.onnx", 1]')],
)  # fmt: skip
def test_what_is_sent_on_has_no_folders(text, sent):
    assert without_folders(text) == sent
    assert without_folders({"a": [text, 1]}) == {"a": [sent, 1]}
