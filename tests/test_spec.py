"""A spec is read back as it was put together, and what cannot be meant is refused."""

import json
import os
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from misdetect import load_data, load_detector
from misdetect.detectors.catalogue import parse_spec
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadSpec

word = st.text(string.ascii_lowercase + "_", min_size=1, max_size=8)
# A target may hold anything but what would begin an option: a comma, a name and "=".
target = st.text(string.ascii_letters + "/.:,?&% -é", max_size=20).map(str.strip).filter(lambda t: t[:2] != "//")
value = st.text(string.ascii_letters + string.digits + "/.:,=?& ", max_size=12).map(str.strip)
value = value.filter(lambda v: "," not in v or "=" not in v)


@given(word, target, st.dictionaries(word, value, max_size=4))
def test_what_is_put_together_is_taken_apart(scheme, target, options):
    text = f"{scheme}:{target}" + "".join(f",{name}={value}" for name, value in options.items())
    spec = Spec.parse(text)
    assert (spec.scheme, spec.target, spec.options) == (scheme, target, options)
    assert {name: spec.take(name, "") for name in options} == options
    spec.finish()


@pytest.mark.parametrize(
    ("text", "scheme", "target", "options"),
    [
        ("http://h:8/p?a=1&b=2,format=x", "http", "http://h:8/p?a=1&b=2", {"format": "x"}),
        ("https://h/p?list=1,2,3,format=x", "https", "https://h/p?list=1,2,3", {"format": "x"}),
        ("https://h/p?a=1%2Cb=2", "https", "https://h/p?a=1%2Cb=2", {}),
        ("onnx:a,b.onnx,names=cat,dog,decoder=yolox", "onnx", "a,b.onnx", {"names": "cat,dog", "decoder": "yolox"}),
        ("COCO:C:\\data\\x.json", "coco", "C:\\data\\x.json", {}),
        ("onnx:C:\\models\\my net.onnx", "onnx", "C:\\models\\my net.onnx", {}),
        ("C:\\models\\my net.onnx,decoder=yolox", "onnx", "C:\\models\\my net.onnx", {"decoder": "yolox"}),
        ("c:/models/net.tflite", "tflite", "c:/models/net.tflite", {}),
        ("\\\\server\\share\\net.onnx", "onnx", "\\\\server\\share\\net.onnx", {}),
        ("coco:C:\\data\\a.json,images=D:\\photos", "coco", "C:\\data\\a.json", {"images": "D:\\photos"}),
        ("python:my.module:make,key=a=b", "python", "my.module:make", {"key": "a=b"}),
        (" zoo:ssd,max-size=3 ", "zoo", "ssd", {"max_size": "3"}),
        ("folder:photos, old=new", "folder", "photos, old=new", {}),
    ],
)
def test_commas_colons_and_addresses(text, scheme, target, options):
    spec = parse_spec(text)
    assert (spec.scheme, spec.target, spec.options) == (scheme, target, options)


@pytest.mark.parametrize("text", ["", "plain", ":x", "   ", ",a=b", "C:\\data\\a.json", "d:/photos"])
def test_what_has_no_scheme_is_refused(text):
    with pytest.raises(BadSpec, match="Expected a spec such as"):
        Spec.parse(text)


def test_a_file_of_windows_alone_is_no_scheme():
    with pytest.raises(BadSpec, match="Expected a spec such as"):
        parse_spec("C:\\data\\my file.json")


@pytest.mark.skipif(os.name == "nt", reason="there this would be a path, not a name")
def test_data_is_read_by_the_names_of_windows(tmp_path, monkeypatch):
    """Backslashes, colons and blanks are part of a name here, so such a spec can be opened as it is."""
    monkeypatch.chdir(tmp_path)
    images = [{"id": 1, "file_name": "1.png", "width": 4, "height": 4}]
    document = json.dumps({"images": images, "categories": [{"id": 1, "name": "cat"}]})
    Path("C:\\my data\\a.json").write_text(document, encoding="utf-8")
    Path("D:\\my photos").mkdir()
    Image.new("RGB", (4, 4)).save("D:\\my photos/1.png")
    data = load_data("coco:C:\\my data\\a.json,images=D:\\my photos")
    assert data[0].image.shape == (4, 4, 3)


def test_code_in_a_file_of_windows_needs_a_name():
    with pytest.raises(BadSpec, match="expected python:"):
        load_detector("python:C:\\code\\mine.py")


def test_an_option_twice_is_refused_also_in_another_spelling():
    for text in ("zoo:a,score=1,score=2", "zoo:a,max-size=1,max_size=1"):
        with pytest.raises(BadSpec, match="twice"):
            Spec.parse(text)


def test_an_option_that_nobody_reads_is_an_error_that_names_the_known_ones():
    spec = Spec.parse("zoo:a,scroe=0.5")
    assert spec.take("score", 0.3) == 0.3
    with pytest.raises(BadSpec, match=r"unknown option 'scroe' \(known: score\)"):
        spec.finish()


@pytest.mark.parametrize(
    ("raw", "default", "expected"),
    [("3", 0, 3), ("-2", 0, -2), ("1e-3", 0.5, 0.001), ("Yes", False, True), ("off", True, False), ("", "a", "")],
)
def test_options_have_the_type_of_their_default(raw, default, expected):
    found = Spec.parse(f"zoo:a,x={raw}").take("x", default)
    assert found == expected
    assert type(found) is type(default)


@pytest.mark.parametrize(("raw", "default"), [("2.5", 0), ("x", 0), ("", 0), ("x", 0.0), ("maybe", True)])
def test_values_of_another_type_are_refused(raw, default):
    with pytest.raises(BadSpec, match=f"'zoo:a,x={raw}': x={raw} should be"):
        Spec.parse(f"zoo:a,x={raw}").take("x", default)


def test_choices_are_named():
    with pytest.raises(BadSpec, match="x=c is not one of a, b"):
        Spec.parse("zoo:t,x=c").take("x", "a", choices=("a", "b"))


def test_a_misspelt_option_is_what_a_reader_complains_of():
    spec = Spec.parse("onnx:a.onnx,name=coco,score=1")
    for option in ("decoder", "names"):
        spec.take(option, "")
    assert spec.misspelt() == "'onnx:a.onnx,name=coco,score=1': unknown option 'name'. Did you mean 'names'?"
    spec = Spec.parse("onnx:a.onnx,names=coco,size=3")
    spec.take("names", "")
    assert spec.misspelt() is None


@pytest.mark.parametrize(
    ("call", "text", "meant"),
    [
        (load_detector, "onxx:a.onnx", "Did you mean 'onnx'?"),
        (load_detector, "model.onnx", "'onnx:model.onnx': there is no file 'model.onnx'."),
        (
            load_detector,
            "mine.py",
            "'python:mine.py': expected python:package.module:name or python:path/to/file.py:name.",
        ),
        (load_detector, "zoo:yolox,scroe=0.5", "Did you mean 'score'?"),
        (load_data, "coc:a.json", "Did you mean 'coco'?"),
        (load_data, "instances.json", "'instances.json': there is no such file or folder"),
        (load_data, "rooms:val,cuont=3", "Did you mean 'count'?"),
    ],
)
def test_what_was_meant_is_said(call, text, meant):
    with pytest.raises(BadSpec) as refused:
        call(text)
    assert meant in str(refused.value)


@pytest.mark.parametrize("path", ["C:\\models\\x.onnx", "d:/models/x.onnx", "x.onnx", "models/x,y.onnx"])
def test_a_bare_path_is_of_the_scheme_that_recognises_it(path):
    spec = Spec.parse(f"{path},score=0.5", lambda path: "onnx" if path.endswith(".onnx") else None)
    assert (spec.scheme, spec.target, spec.options) == ("onnx", path, {"score": "0.5"})
    assert spec.text == f"onnx:{path},score=0.5"
    with pytest.raises(BadSpec, match="Expected a spec such as"):
        Spec.parse(path)
