"""What was asked for: a sweep, from YAML and flags, checked before anything starts."""

from __future__ import annotations

import msgspec


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One point of the sweep: everything that a figure depends on besides the machine and the release."""

    model: str
    batch_size: int
    """Per device, as upstream's flag means it."""
    device: str
    """"cpu" or "gpu"."""
    devices: int = 1
    precision: str = "fp32"
    """"fp32" or "fp16"."""
    xla: bool = False
    forward_only: bool = False
    variable_update: str = "parameter_server"
    data_dir: str | None = None
    """None: upstream's synthetic data."""
    data_name: str | None = None
    """Upstream's data set, where it is not the model's own."""
    steps: int = 100
    warmup_steps: int = 10
    flags: tuple[tuple[str, str], ...] = ()
    """More upstream flags, by name without dashes, in the order given."""

    @property
    def name(self) -> str:
        """A short, file-safe name that tells the cases of one sweep apart, such as "resnet50-b64-fp32-gpu1"."""
        parts = [self.model, f"b{self.batch_size}", self.precision, f"{self.device}{self.devices}"]
        parts += ["xla"] if self.xla else []
        parts += ["forward"] if self.forward_only else []
        return "-".join(parts)

    @property
    def global_batch_size(self) -> int:
        return self.batch_size * self.devices

    @property
    def mode(self) -> str:
        return "forward only" if self.forward_only else "training"

    @property
    def data(self) -> str:
        return "real" if self.data_dir else "synthetic"
