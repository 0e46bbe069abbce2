"""A container as the place where upstream runs: what is recorded of it, and how a command becomes one that an engine runs in it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

CHECKOUT, DATA, PACKAGES = "/tfcnn/checkout", "/tfcnn/data", "/tfcnn/packages"
"""Where the directories of this machine stand in a container."""
SHARED_MEMORY = "1g"
"""NCCL's processes and threads talk through /dev/shm, of which an engine gives 64 MB otherwise:
https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html#shared-memory"""
_HANDED_ON = (
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "XLA_", "NCCL_", "OMP_", "KMP_", "MKL_"),
    *(f"TF_{name}_" for name in ("CPP", "CUDNN", "DETERMINISTIC", "DISABLE", "ENABLE", "FORCE", "GPU", "NUM", "USE", "XLA")),
)
"""What variables begin with that steer TensorFlow, of which a container inherits none. TF_ alone would be too wide: Terraform uses it for secrets."""


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """An image with TensorFlow in it, and the engine that runs it."""

    engine: str
    """"docker" or "podman"."""
    program: str
    """The engine's program, absolute."""
    image: str
    """As it was named, or chosen for the release."""
    image_id: str
    """The engine's id for what that name meant ("sha256:..."): what the trials run in, whatever the name will mean later."""
    digest: str = ""
    """The same as a registry knows it ("docker.io/tensorflow/tensorflow@sha256:..."), for others to pull; empty for an image that was made here."""
    user: str = ""
    """"UID:GID" that processes in it have; empty where the engine itself runs without privileges, and root in it is the user outside."""
    gpus: bool = False
    """Whether it is given the machine's GPUs."""
    packages: str = ""
    """The directory of packages that upstream needs and the image lacks; empty where it lacks none."""


class Mount(msgspec.Struct, frozen=True):
    """A directory of this machine that stands, read-only, in the container."""

    outside: str
    inside: str


def engine_command(
    container: Container, command: Sequence[str], *, name: str, mounts: Sequence[Mount], variables: Mapping[str, str], inherited: Mapping[str, str]
) -> tuple[str, ...]:
    """The engine's command line that runs `command` in a container and removes that when it has ended.

    It has no network, because no trial needs one, and can write nothing of this machine.

    Args:
        command: program and arguments, with paths of this machine where they are below a mount.
        name: of the container, unique, so that it and nothing else can be removed by it.
        mounts: what the command reads.
        variables: set in it.
        inherited: those of this process, of which only what steers TensorFlow is handed on.
    """
    program, *arguments = (_inside(argument, mounts) for argument in command)
    packages = [Mount(container.packages, PACKAGES)] if container.packages else []
    steering = {key: value for key, value in inherited.items() if key.startswith(_HANDED_ON)}
    own = {"HOME": "/tmp", "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8"}
    own |= {"PYTHONPATH": PACKAGES} if packages else {}
    return (
        container.program,
        "run",
        "--rm",
        f"--name={name}",
        "--pull=never",
        "--network=none",
        f"--shm-size={SHARED_MEMORY}",
        # Python as the first process of a container ignores SIGTERM, and podman would wait 10 s before it kills
        "--stop-timeout=0",
        # SELinux would otherwise hide the mounts, or relabel the user's own directories
        "--security-opt=label=disable",
        *([f"--user={container.user}"] if container.user else []),
        *(_GPUS[container.engine] if container.gpus else []),
        *(f"--mount=type=bind,{_field(f'source={mount.outside}')},target={mount.inside},readonly=true" for mount in (*mounts, *packages)),
        *(f"--env={key}={value}" for key, value in (steering | own | dict(variables)).items()),
        f"--entrypoint={program}",
        container.image_id or container.image,  # the former is known when the image has been fetched
        *arguments,
    )


_GPUS = {"docker": ["--gpus=all"], "podman": ["--device=nvidia.com/gpu=all"]}
"""podman finds them by CDI: https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/cdi-support.html"""


def removal(container: Container, name: str) -> tuple[str, ...]:
    """The command that ends and removes the container of that name, whatever state it is in."""
    return (container.program, "rm", "--force", name)


def _field(text: str) -> str:
    """A field of the comma-separated value that `--mount` takes."""
    return '"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text


def _inside(argument: str, mounts: Sequence[Mount]) -> str:
    """An argument, or the value of a flag, with a path of this machine replaced by that in the container."""
    flag, equals, value = argument.partition("=") if argument.startswith("--") else ("", "", argument)
    for mount in mounts:
        if value == mount.outside or value.startswith((f"{mount.outside}/", f"{mount.outside}\\")):
            value = mount.inside + value[len(mount.outside) :].replace("\\", "/")
    return f"{flag}{equals}{value}"
