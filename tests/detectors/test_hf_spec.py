"""``hf:`` specs: what a folder must hold, what is refused and in which words."""

import contextlib
import json
import pickle

import numpy as np
import pytest
import torch
from hf_models import build, images
from safetensors.torch import load_file, save_file

from misdetect.detectors import load_detector
from misdetect.detectors.hf.detector import wrap
from misdetect.detectors.hf.folder import transformers_package
from misdetect.detectors.hf.input import Input, parse_size, read_input
from misdetect.said.errors import BadData, BadSpec, BadWeights, MissingExtra

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hf") / "model"
    module = build("deformable-refine")
    module.config.id2label = dict(enumerate(["cat", "dog", "elk", "fox", "gnu"]))
    module.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(
        json.dumps({"size": {"height": 64, "width": 96}, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.2, 0.2, 0.2]})
    )
    return folder, module


@pytest.fixture
def copied(saved, tmp_path):
    for path in saved[0].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def edit(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_saved_folder_gives_the_same_detector_as_the_module(saved):
    folder, module = saved
    loaded = load_detector(f"hf:{folder},score=0.2,max=5,batch=2")
    prepare = Input("fixed", (64, 96), mean=(0.5, 0.5, 0.5), std=(0.2, 0.2, 0.2))
    direct = wrap(module, score=0.2, max_detections=5, prepare=prepare, batch_size=2)
    assert loaded.names == ("cat", "dog", "elk", "fox", "gnu")
    assert loaded.batch_size == 2
    assert not loaded.module.training
    for ours, theirs in zip(loaded.detect(images(2)), direct.detect(images(2)), strict=True):
        assert len(ours) == 5
        np.testing.assert_allclose(ours.boxes, theirs.boxes, atol=1e-3)
        np.testing.assert_allclose(ours.scores, theirs.scores, atol=1e-5)


def test_weights_saved_by_the_detector_come_back(saved, tmp_path):
    folder, _ = saved
    detector = load_detector(f"hf:{folder}")
    fingerprint = detector.fingerprint
    detector.save(tmp_path / "w.safetensors")
    with torch.no_grad():
        for parameter in detector.parameters():
            parameter.add_(1)
    assert detector.fingerprint != fingerprint
    detector.load(tmp_path / "w.safetensors")
    assert detector.fingerprint == fingerprint


def test_an_id_without_a_network_is_one_sentence_that_says_what_to_do(monkeypatch):
    transformers_package()
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(BadSpec) as caught:
        load_detector("hf:misdetect-test/there-is-no-such-model")
    message = str(caught.value)
    assert "cannot be reached" in message
    assert "hf:FOLDER" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        ("./nowhere/at all", "there is no folder"),
        ("/absent/folder/of/mine", "there is no folder"),
        ("", "there is no folder"),
    ],
)
def test_a_path_that_is_not_there_is_never_looked_up_online(target, complaint):
    with pytest.raises(BadSpec, match=complaint):
        load_detector(f"hf:{target}")


def test_a_file_instead_of_a_folder(saved):
    with pytest.raises(BadSpec, match="give the folder"):
        load_detector(f"hf:{saved[0] / 'model.safetensors'}")


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("the pickle was opened",))


def test_a_pickle_is_refused_unopened(copied):
    (copied / "model.safetensors").unlink()
    (copied / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(BadWeights, match=r"pytorch_model.bin is a pickle.*save_pretrained"):
        load_detector(f"hf:{copied}")


def test_weights_for_another_number_of_classes(copied):
    edit(copied / "config.json", id2label={str(i): f"c{i}" for i in range(7)}, label2id={})
    with pytest.raises(BadWeights, match=r"another number of classes\?.*class_embed.* is \[5, 32\].*\[7, 32\]"):
        load_detector(f"hf:{copied}")


def test_weights_that_are_missing(copied):
    weights = load_file(copied / "model.safetensors")
    lost = [name for name in weights if "encoder.layers.1" in name]
    save_file({k: v for k, v in weights.items() if k not in lost}, copied / "model.safetensors", {"format": "pt"})
    with pytest.raises(BadWeights, match=f"{len(lost)} missing: .*encoder.layers.1"):
        load_detector(f"hf:{copied}")


def test_a_cut_off_weights_file(copied):
    path = copied / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(BadWeights, match=r"model\.safetensors is not a readable safetensors file"):
        load_detector(f"hf:{copied}")


def test_a_folder_without_weights(copied):
    (copied / "model.safetensors").unlink()
    with pytest.raises(BadWeights, match=r"has no model\.safetensors"):
        load_detector(f"hf:{copied}")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "not valid JSON"),
        ("[1]", "model_type is None"),
        ('{"model_type": "bert"}', "model_type is 'bert'; supported are detr"),
        ('{"model_type": ["detr"]}', "supported are detr"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_broken_configuration(copied, content, complaint):
    (copied / "config.json").write_text(content)
    with pytest.raises((BadSpec, BadData), match=complaint):
        load_detector(f"hf:{copied}")


def test_a_configuration_with_nonsense_values(copied):
    edit(copied / "config.json", d_model="large")
    with pytest.raises(BadWeights, match="cannot be loaded"):
        load_detector(f"hf:{copied}")


def test_code_that_comes_with_a_model_is_not_run(copied):
    (copied / "evil.py").write_text("raise SystemExit('it ran')\n")
    edit(copied / "config.json", auto_map={"AutoModelForObjectDetection": "evil.Model", "AutoConfig": "evil.Config"})
    assert len(load_detector(f"hf:{copied}").detect(images(1))) == 1


@pytest.mark.parametrize(
    "entry",
    [
        {"attn_implementation": "someone/kernels"},
        {"_attn_implementation": "flash_attention_2"},  # looked for on the hub where it is not installed
        {"backbone_config": {"model_type": "resnet", "_attn_implementation": {"": "someone/kernels"}}},
        {"quantization_config": {"quant_method": "fp8"}},
        {"fusion_config": {"patch_embeddings": True}},
    ],
    ids=lambda entry: next(iter(entry)),
)
def test_what_would_fetch_kernels_or_load_other_packages_is_refused(copied, entry):
    edit(copied / "config.json", **entry)
    with pytest.raises(BadWeights, match="is refused"):
        load_detector(f"hf:{copied}")


@pytest.fixture
def asked(monkeypatch):
    """What was asked of the network, which is not there."""
    asked = []

    def refused(*arguments, **options):
        asked.append(arguments)
        raise OSError("no network")

    for function in ("socket.socket.connect", "socket.getaddrinfo", "socket.create_connection"):
        monkeypatch.setattr(function, refused)
    return asked


def test_a_local_folder_never_contacts_the_hub(copied, asked):
    edit(copied / "config.json", _name_or_path="facebook/detr-resnet-50", transformers_version="99.0")
    assert len(load_detector(f"hf:{copied}").detect(images(1))) == 1
    assert not asked


@pytest.mark.parametrize(
    "entry",
    [
        {"use_pretrained_backbone": True, "use_timm_backbone": True, "backbone": "resnet50", "backbone_config": None},
        {"use_pretrained_backbone": True, "backbone": "microsoft/resnet-50"},
        {"backbone_config": {"model_type": "timm_backbone", "backbone": "hf_hub:someone/model"}},
        {"backbone_config": {"model_type": "someone/model"}},
    ],
    ids=lambda entry: str(entry.get("backbone") or entry["backbone_config"]["model_type"]),
)
def test_a_backbone_by_name_is_not_fetched(copied, asked, entry):
    edit(copied / "config.json", **entry)
    with contextlib.suppress(
        BadWeights, MissingExtra
    ):  # it may not fit, or need timm; what counts is that nobody was asked
        load_detector(f"hf:{copied}")
    assert not asked


@pytest.mark.heavy
def test_other_files_of_a_folder_are_not_looked_at(copied, asked):
    """An adapter's base model, a pickle, processors and tokenizers with code."""
    adapter = {"base_model_name_or_path": "someone/model", "auto_mapping": {"parent_library": "evil"}}
    code = {"auto_map": {"AutoProcessor": "evil.Model"}, "processor_class": "evil.Model"}
    files = {"adapter_config.json": adapter, "tokenizer_config.json": code, "processor_config.json": code}
    for name, content in files.items():
        (copied / name).write_text(json.dumps(content))
    (copied / "evil.py").write_text("raise SystemExit('it ran')\n")
    (copied / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb()))
    assert len(load_detector(f"hf:{copied}").detect(images(1))) == 1
    assert not asked


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shard", ["../model.safetensors", "/etc/passwd", "evil.bin", "", "a/b.safetensors"])
def test_an_index_names_files_beside_it_only(copied, shard):
    (copied / "model.safetensors").rename(copied / "model-1.safetensors")
    index = copied / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": {"a": "model-1.safetensors"}}))
    assert len(load_detector(f"hf:{copied}").detect(images(1))) == 1
    index.write_text(json.dumps({"metadata": {}, "weight_map": {"a": "model-1.safetensors", "b": shard}}))
    with pytest.raises(BadWeights, match="files beside it"):
        load_detector(f"hf:{copied}")


def test_names_can_be_replaced_and_must_fit(saved, tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("a\nb\nc\nd\ne\n")
    assert load_detector(f"hf:{saved[0]},names={names}").names == ("a", "b", "c", "d", "e")
    with pytest.raises(BadSpec, match="80 names were given, the model has 5 classes"):
        load_detector(f"hf:{saved[0]},names=coco")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("scores=0.1", "unknown option 'scores'"),
        ("score=2", "0 <= score < 1"),
        ("max=0", "at least 1"),
        ("size=big", "size=big should be SHORTEST,LONGEST or HEIGHTxWIDTH"),
        ("size=0x64", "size=0x64"),
    ],
)
def test_bad_options(saved, options, complaint):
    with pytest.raises(BadSpec, match=complaint):
        load_detector(f"hf:{saved[0]},{options}")


def test_sizes():
    assert parse_size("480,640", "x") == ("edges", (480, 640))
    assert parse_size("480", "x") == ("edges", (480, 0))
    assert parse_size("480x640", "x") == ("fixed", (480, 640))
    assert Input("edges", (60, 100)).size_for(120, 300) == (40, 100)
    assert Input("edges", (60, 0)).size_for(120, 300) == (60, 150)
    assert Input("fit", (60, 60)).size_for(120, 300) == (24, 60)
    assert Input("native", (0, 0)).size_for(120, 300) == (120, 300)


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({"size": {"depth": 3}}, "expected size with shortest_edge"),
        ({"size": {"height": 0, "width": 3}}, "positive pixels"),
        ({"image_mean": [1, 2]}, "image_mean to be three numbers"),
        ({"image_std": [0, 1, 1]}, "image_std to be positive"),
        ({"resample": 1}, "resample=1 is not supported"),
        ({"do_pad": True, "pad_size": {"height": 9, "width": 9}}, "pad_size"),
        ({"rescale_factor": "x"}, "rescale_factor"),
        ([], "expected a JSON object"),
    ],
)
def test_preprocessing_that_cannot_be_followed_is_refused(tmp_path, config, complaint):
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(config))
    with pytest.raises(BadSpec, match=complaint):
        read_input(tmp_path, Input("edges", (800, 1333)))


def test_what_the_image_processors_of_transformers_save_is_understood(tmp_path):
    t = transformers_package()
    t.DetrImageProcessor(size={"shortest_edge": 320, "longest_edge": 500}).save_pretrained(tmp_path / "detr")
    assert read_input(tmp_path / "detr", Input("native", (0, 0))) == Input("edges", (320, 500))
    t.RTDetrImageProcessor(size={"height": 320, "width": 480}).save_pretrained(tmp_path / "rt")
    expected = Input("fixed", (320, 480), mean=None, std=None)
    assert read_input(tmp_path / "rt", Input("native", (0, 0))) == expected
