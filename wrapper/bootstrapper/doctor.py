"""What stands in the way of a sweep on this machine: facts in, findings out. Pure; `examination.py` gathers the facts."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from wrapper.bootstrapper.compatibility import is_compiled_at_start, unfit
from wrapper.bootstrapper.host import Gpu
from wrapper.bootstrapper.inspection import Environment
from wrapper.bootstrapper.pythons import Interpreter
from wrapper.bootstrapper.release import Release

WORST_FIRST = ("fail", "warn", "ok")
GB = 10**9
ENVIRONMENT_BYTES = {"cpu": 2 * GB, "gpu": 8 * GB}
"""Room for a new environment. Measured: for the CPU 0.5 GB for 1.12.0 and 1.7 GB for 2.21.0, for the GPU 6.4 GB for 2.21.0 and its CUDA libraries."""
RECORDS_BYTES = GB // 4
"""Room for a sweep's logs and report."""

_OTHER_DEVICE = "or ask for the CPU with --device cpu"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the doctor."""

    status: str
    """"ok", "warn", or "fail": a sweep would fail, or measure something else than what was asked for."""
    subject: str
    text: str
    remedy: str = ""
    """What to do about it; empty where it is ok."""


class Trouble(msgspec.Struct, frozen=True):
    """Why something is not as it must be, and what to do."""

    what: str
    remedy: str


class GpuState(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU at this moment. None stands for what the driver or the device doesn't tell."""

    gpu: Gpu
    memory_free_bytes: int | None = None
    processes: tuple[str, ...] = ()
    """Who computes on it, for people."""
    processes_error: str | None = None
    """Why that could not be read, where the driver keeps it from us."""
    ecc_errors: int | None = None
    """Memory errors that could not be corrected, since the driver was loaded."""
    power_default_w: float | None = None


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A TensorFlow that was found on this machine without importing it."""

    place: str
    """The interpreter, or the directory of a half-made environment."""
    tensorflow: str = ""
    """Its version, by the metadata of its packages or by our marker."""
    used: bool = False
    """Whether a sweep as asked for would run on it."""
    seen: Environment | Trouble | None = None
    """What importing it showed, or what it lacks without being imported; None: not looked at."""
    ours: Environment | None = None
    """As its marker records it, where we made it."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What the doctor looks at. None stands for what was not looked at."""

    device: str
    """As asked for: "auto", "cpu" or "gpu"."""
    package: str
    """"cpu" or "gpu": which of the release's packages is used."""
    git: str | Trouble
    uv: str | Trouble | None = None
    pythons: tuple[Interpreter, ...] | Trouble | None = None
    upstream: str | Trouble | None = None
    release: Release | Trouble | None = None
    reason: str = ""
    """Why that release, for people."""
    environment: str | Trouble | None = None
    """Where the release's environment is or will be, in words."""
    left: tuple[str, ...] | Trouble = ()
    """Containers that the engine asked for still has of killed sweeps, or why it doesn't answer."""
    to_be_made: bool = False
    """Whether the environment has still to be made."""
    given: bool = False
    """Whether the user named the interpreter: its TensorFlow may be built otherwise than the release's own package."""
    unproven_device: bool = False
    vendor: str
    place: Trouble | None = None
    """What is wrong with `vendor` as a directory."""
    free_bytes: int
    gpus: tuple[GpuState, ...] = ()
    cuda_served: str | None = None
    gpu_error: str | None = None
    undriven: tuple[str, ...] = ()
    """PCI addresses of NVIDIA GPUs, where no driver's library was found."""
    found: tuple[Found, ...] = ()
    others: tuple[Finding, ...] = ()
    """Of `surroundings.py`."""

    @property
    def gpu_fault(self) -> str:
        """How bad it is when the GPU can't be used."""
        return "warn" if self.device == "cpu" or self.unproven_device else "fail"


def diagnose(facts: Facts) -> tuple[Finding, ...]:
    """Every fact as a line with its remedy, the worst first."""
    found = [
        *_probe("git", facts.git),
        *_probe("uv", facts.uv),
        *_probe("Python", _pythons(facts.pythons)),
        *_probe("upstream", facts.upstream),
        *_release(facts),
        *_probe("environment", facts.environment),
        *_left(facts),
        _disk(facts),
        *_probe("disk", facts.place),
        *_driver(facts),
        *(finding for state in facts.gpus for finding in _gpu(state)),
        *(finding for one in facts.found for finding in _tensorflow(one, facts)),
        *facts.others,
    ]
    return tuple(sorted(found, key=lambda one: WORST_FIRST.index(one.status)))


def _probe(subject: str, probe: str | Trouble | None) -> Iterator[Finding]:
    if isinstance(probe, Trouble):
        yield Finding(status="fail", subject=subject, text=probe.what, remedy=probe.remedy)
    elif probe is not None:
        yield Finding(status="ok", subject=subject, text=probe)


def _pythons(pythons: tuple[Interpreter, ...] | Trouble | None) -> str | Trouble | None:
    if not isinstance(pythons, tuple):
        return pythons
    return ", ".join(dict.fromkeys(one.version for one in pythons)) or Trouble("no 64-bit CPython was found", "Install one from python.org")


def _release(facts: Facts) -> Iterator[Finding]:
    release = facts.release
    if not isinstance(release, Release):
        yield from _probe("release", release)
        return
    parts = [f"TensorFlow {release.tensorflow} for the {facts.package.upper()}", f"Python {' or '.join(release.python)}"]
    if facts.package == "gpu":
        parts += [f"CUDA {release.cuda or 'not known'}", f"cuDNN {release.cudnn or 'not known'}"]
    yield Finding(status="ok", subject="release", text=", ".join(parts) + (facts.reason and f": {facts.reason}"))
    if not release.verified:
        text = f"TensorFlow {release.tensorflow} has no row of its own: it uses that of its minor release"
        yield Finding(status="warn", subject="release", text=text, remedy="Choose one that `tfcnn releases` lists, if any of it will do")
    if facts.package != "gpu":
        return
    troubles = [unfit(release, state.gpu, facts.cuda_served) for state in facts.gpus]
    status = facts.gpu_fault if all(troubles) and not facts.given else "warn"
    remedy = f"Install a newer driver, choose another release (`tfcnn releases` lists them), {_OTHER_DEVICE}"
    for trouble, state in zip(troubles, facts.gpus, strict=True):
        name = f"GPU {state.gpu.index} ({state.gpu.name})"
        if trouble:
            yield Finding(status=status, subject="release", text=f"{trouble}: {name}", remedy=remedy)
        elif is_compiled_at_start(release, state.gpu):
            text = f"TensorFlow {release.tensorflow} holds only PTX for {name}, which the driver compiles at the first start, for minutes to an hour"
            cache = "Let it; to keep what it compiles for later starts, set CUDA_CACHE_MAXSIZE=4294967296"
            yield Finding(status="warn", subject="release", text=text, remedy=cache)


def _left(facts: Facts) -> Iterator[Finding]:
    if isinstance(facts.left, tuple) and facts.left:
        text = f"containers are left of sweeps that were killed: {', '.join(facts.left)}"
        yield Finding(status="warn", subject="environment", text=text, remedy="Nothing: the next sweep in containers of this engine removes them")


def _disk(facts: Facts) -> Finding:
    needed = RECORDS_BYTES + (ENVIRONMENT_BYTES[facts.package] if facts.to_be_made else 0)
    what = f"the environment for the {facts.package.upper()}" if facts.to_be_made else "the records of a sweep"
    text = f"{facts.free_bytes / GB:.1f} GB free for {facts.vendor}; {what} can take {needed / GB:.1f} GB"
    if facts.free_bytes >= needed:
        return Finding(status="ok", subject="disk", text=text)
    return Finding(
        status="fail", subject="disk", text=text, remedy="Make room (`uv cache clean` may), or name a place on another disk with --vendor DIR"
    )


def _driver(facts: Facts) -> Iterator[Finding]:
    if facts.gpu_error:
        remedy = f"Restart the machine; if that does not help, install the driver again; {_OTHER_DEVICE}"
        if "mismatch" in facts.gpu_error.lower():
            remedy = f"The driver was updated while loaded: restart the machine, or reload the kernel module nvidia; {_OTHER_DEVICE}"
        yield Finding(status=facts.gpu_fault, subject="driver", text=facts.gpu_error, remedy=remedy)
    if facts.gpus:
        text = f"NVIDIA {facts.gpus[0].gpu.driver or 'of a version that it does not tell'}, serves CUDA {facts.cuda_served or 'not known'}"
        yield Finding(status="ok", subject="driver", text=text)
    elif facts.undriven and facts.device != "cpu":
        text = f"NVIDIA's driver was not found, and this machine has an NVIDIA GPU (PCI {', '.join(facts.undriven)})"
        remedy = f"Install the driver, start a container with its GPUs (--gpus all), {_OTHER_DEVICE}"
        yield Finding(status=facts.gpu_fault if facts.device == "gpu" else "warn", subject="driver", text=text, remedy=remedy)
    elif facts.device == "gpu" and not facts.gpu_error:
        text = "a GPU was asked for, and no NVIDIA GPU was found"
        yield Finding(status=facts.gpu_fault, subject="driver", text=text, remedy=f"Install NVIDIA's driver, {_OTHER_DEVICE}")
    elif not facts.gpu_error:
        yield Finding(status="ok", subject="driver", text="no NVIDIA GPU: sweeps run on the CPU")


def _gpu(state: GpuState) -> Iterator[Finding]:
    gpu, subject = state.gpu, f"GPU {state.gpu.index}"
    link_now, link_most = f"PCIe {gpu.pcie_generation} x{gpu.pcie_width}", f"{gpu.pcie_generation_max} x{gpu.pcie_width_max}"
    told = (
        (gpu.compute_capability, f"compute capability {gpu.compute_capability}"),
        (gpu.memory_bytes and state.memory_free_bytes, f"{(state.memory_free_bytes or 0) / GB:.1f} of {(gpu.memory_bytes or 0) / GB:.1f} GB free"),
        (gpu.pcie_width, f"{link_now} now, {link_most} at most"),
        (gpu.external, "behind an external port"),
        (gpu.power_limit_w, f"power limit {gpu.power_limit_w} W"),
        (gpu.persistence, "persistence on"),
        (state.ecc_errors == 0, "no ECC errors"),
    )
    yield Finding(status="ok", subject=subject, text=", ".join([gpu.name, *(text for known, text in told if known)]))
    for text, remedy in _gpu_troubles(state, link_now, link_most):
        yield Finding(status="warn", subject=subject, text=text, remedy=remedy)


def _gpu_troubles(state: GpuState, link_now: str, link_most: str) -> Iterator[tuple[str, str]]:
    gpu = state.gpu
    if state.processes:
        yield f"in use by {', '.join(state.processes)}", "End what computes there, or let the sweep wait with --wait-idle"
    if state.processes_error:
        yield (
            f"who computes on it can't be read: {state.processes_error}",
            "Look with nvidia-smi, as a user who may: a sweep can't tell whether it is alone there",
        )
    if state.ecc_errors:
        yield (
            f"{state.ecc_errors} memory errors that could not be corrected since the driver was loaded",
            "Reset the GPU or restart the machine; have the GPU replaced if they come again",
        )
    if gpu.pcie_width and gpu.pcie_width_max and gpu.pcie_width < gpu.pcie_width_max:  # the generation is low on any idle GPU
        yield (
            f"its link is narrower than it could be: {link_now}, and {link_most} at most",
            "Seat the card again or use a slot with all lanes; an external GPU has what its cable gives",
        )
    if gpu.power_limit_w and state.power_default_w and gpu.power_limit_w < state.power_default_w:
        yield (
            f"its power limit is {gpu.power_limit_w:g} W, below the usual {state.power_default_w:g} W",
            f"Raise it with: nvidia-smi -i {gpu.index} -pl {state.power_default_w:g}",
        )
    if gpu.persistence is False:
        yield "persistence is off: the driver is unloaded after each trial", f"Keep it loaded with: nvidia-smi -i {gpu.index} -pm 1"


def _tensorflow(found: Found, facts: Facts) -> Iterator[Finding]:
    what = f"TensorFlow {found.tensorflow} in {found.place}" if found.tensorflow else found.place
    fault = "fail" if found.used else "warn"
    if isinstance(found.seen, Trouble):
        text = found.seen.what if found.place in found.seen.what else f"{what}: {found.seen.what}"
        yield Finding(status=fault, subject="TensorFlow", text=text, remedy=found.seen.remedy)
        return
    gpus = sum(device.kind == "GPU" for device in found.seen.devices) if found.seen else 0
    if found.seen is None or gpus or not facts.gpus or facts.device == "cpu":
        seen = f", which sees {gpus} GPU{'s' if gpus != 1 else ''}" if found.seen and facts.device != "cpu" else ""
        yield Finding(status="ok", subject="TensorFlow", text=f"{what}{seen}")
    elif found.seen.cuda_built is None:
        remedy = f"Use an environment of its GPU package (leave --python out and one is made), {_OTHER_DEVICE}"
        yield Finding(status=fault, subject="TensorFlow", text=f"{what} is built for the CPU alone", remedy=remedy)
    else:
        reason = found.seen.diagnosis[0] if found.seen.diagnosis else "it gives no reason"
        remedy = f"Mend what it names: the driver, or the libraries of CUDA {found.seen.cuda_built} that it was built for; {_OTHER_DEVICE}"
        yield Finding(
            status=fault if facts.gpu_fault == "fail" else "warn", subject="TensorFlow", text=f"{what} sees no GPU: {reason}", remedy=remedy
        )
