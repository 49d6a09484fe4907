"""Training of any ``Trainable`` detector: the loop, laid-out images, measuring, and the zoo's recipes."""

import os

# On some virtual machines oneDNN's AMX kernels end a bfloat16 backward pass with an illegal instruction (seen on a Xeon
# that announces and grants AMX, torch 2.13). oneDNN reads this once, at its first operation; whoever sets it is heeded.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
