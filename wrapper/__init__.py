"""Run TensorFlow's official CNN benchmark, pinned to a TensorFlow release, and say honestly how fast this machine is."""

__version__ = "0.1.0"
