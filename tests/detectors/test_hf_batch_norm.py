"""The torch fault that ``sound_batch_norms`` works around, shown on one layer."""

import torch
from torch import nn

from misdetect.detectors.hf.losses import sound_batch_norms


def test_one_images_gradient_through_a_batch_norm_is_that_of_the_formula():
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(8).double().eval()
    norm.running_var.uniform_(0.5, 2)
    image, weight = torch.randn(1, 8, 3, 4, dtype=torch.double, requires_grad=True), torch.randn(1, 12, 8).double()
    with sound_batch_norms(norm):
        output = norm(image)
    (found,) = torch.autograd.grad((output.flatten(2).transpose(1, 2) * weight).sum(), image)
    scale = 1 / (norm.running_var + norm.eps).sqrt()
    torch.testing.assert_close(found, weight.transpose(1, 2).reshape(1, 8, 3, 4) * scale[:, None, None])
    assert not norm._forward_hooks
