"""Training of any ``Trainable`` detector: data in memory, one loop, checkpoints that resume exactly."""
