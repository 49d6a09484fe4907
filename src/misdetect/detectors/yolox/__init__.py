"""This project's YOLOX: network, losses and detector; it reads official checkpoints."""
