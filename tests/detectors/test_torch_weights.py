"""Weights files: nothing in them is ever run, what does not fit is named, and a crash leaves no half-written file."""

import os
import pickle
from pathlib import Path

import pytest
import torch
from torch import nn

from misdetect.detectors.weights import fit_weights, read_weights, weights_digest, write_weights
from misdetect.said.errors import BadWeights


def net(seed: int = 0, width: int = 4) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(3, width, 3), nn.BatchNorm2d(width), nn.Conv2d(width, 2, 1))


class Bomb:
    """Unpickling it writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.path,))


def test_a_pickle_is_refused_without_running_it(tmp_path: Path) -> None:
    trace = tmp_path / "it-ran"
    torch.save({"weight": torch.ones(2), "extra": Bomb(trace)}, tmp_path / "bomb.pth")
    (tmp_path / "plain.pth").write_bytes(pickle.dumps(Bomb(trace), protocol=2))
    for name in ("bomb.pth", "plain.pth"):
        with pytest.raises(BadWeights, match=rf"{name}"):
            read_weights(tmp_path / name)
    assert not trace.exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04broken", b"\x00" * 64, b"hello"])
@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_a_broken_file_is_refused_by_name(tmp_path: Path, content: bytes, suffix: str) -> None:
    path = tmp_path / f"broken{suffix}"
    path.write_bytes(content)
    with pytest.raises(BadWeights, match=rf"broken\{suffix}"):
        read_weights(path)


def test_what_is_no_state_dict_is_refused(tmp_path: Path) -> None:
    for content in (torch.ones(3), {"epoch": 3}, {}, [1, 2]):
        torch.save(content, tmp_path / "odd.pth")
        with pytest.raises(BadWeights, match="does not hold a state dict"):
            read_weights(tmp_path / "odd.pth")


def test_wrappers_and_prefixes_of_training_checkpoints_are_taken_off(tmp_path: Path) -> None:
    state = {f"module.{name}": value for name, value in net().state_dict().items()}
    torch.save({"epoch": 4, "state_dict": state}, tmp_path / "w.pth")
    assert read_weights(tmp_path / "w.pth").keys() == net().state_dict().keys()


def test_misfits_are_named_and_nothing_is_copied() -> None:
    module, other = net(0), net(1)
    before = weights_digest(module)
    state = other.state_dict()
    with pytest.raises(BadWeights, match=r"1 missing: 0\.bias"):
        fit_weights(module, {k: v for k, v in state.items() if k != "0.bias"}, "f")
    with pytest.raises(BadWeights, match=r"1 unexpected: 9\.bias"):
        fit_weights(module, {**state, "9.bias": torch.ones(1)}, "f")
    with pytest.raises(BadWeights, match=r"another number of classes\?.* 2\.bias is \[7\], the model has \[2\]"):
        fit_weights(module, {**state, "2.bias": torch.ones(7)}, "f")
    assert weights_digest(module) == before
    fit_weights(module, {k: v for k, v in state.items() if "num_batches" not in k}, "f")
    assert torch.equal(module[0].weight, other[0].weight)


def test_writing_is_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "w.safetensors"
    write_weights(net(0), path)
    before = path.read_bytes()

    def half(number: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", half)
    with pytest.raises(OSError, match="disk full"):
        write_weights(net(1), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["w.safetensors"]


def test_tied_weights_can_be_written_and_read_back(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    module[1].weight = module[0].weight
    write_weights(module, tmp_path / "tied.safetensors")
    fresh = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    fit_weights(fresh, read_weights(tmp_path / "tied.safetensors"), "f")
    assert torch.equal(fresh[1].weight, module[0].weight)


def test_the_digest_sees_every_parameter_and_buffer() -> None:
    module = net()
    before = weights_digest(module)
    assert before == weights_digest(net())
    with torch.no_grad():
        module[1].running_mean[2] += 1e-6
    assert weights_digest(module) != before
