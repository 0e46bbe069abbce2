"""docker and podman: getting an image, and asking the TensorFlow in it. They are started here, and by the trials with what `container.py` makes."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import sys
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil

from wrapper.bootstrapper.container import Container, engine_command, removal
from wrapper.bootstrapper.host import attribute
from wrapper.bootstrapper.inspection import IMPORT_LIMIT_S, INSPECTION, Environment, hiding_variables, read_answer
from wrapper.bootstrapper.placing import Say
from wrapper.errors import FatalError
from wrapper.process import Captured, run_captured

ASK_LIMIT_S = 10.0
"""For what an engine answers without fetching or starting anything. Measured: podman's slowest, `info`, 0.7 s."""
REMOVE_LIMIT_S = 60.0
PULL_LIMIT_S = 7200.0
"""An image of 8 GB over a slow line."""
_PYTHONS = ("python", "python3")
"""What images call the interpreter that has TensorFlow, the usual name first."""
_CANNOT_BE_STARTED = (126, 127)
"""Exit codes of an engine for a program that the image does not have; 125 is for its own troubles: https://docs.docker.com/engine/containers/run/"""
_ENGINE_FAILED = 125
_MEND = {
    "docker": "Start it (Linux: sudo systemctl start docker; elsewhere Docker Desktop) as a user of the group docker; docker ps must work",
    "podman": "Mend its settings (containers.conf, storage.conf, CONTAINERS_CONF, CONTAINER_HOST); podman ps must work",
}
_NO_GPUS = (
    "It takes the NVIDIA Container Toolkit on this machine, and for podman its list of devices: "
    "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
)


class _Image(msgspec.Struct, frozen=True, rename="pascal"):
    """An entry of `image inspect`, as far as it is used; docker and podman name it alike."""

    id: str
    repo_digests: list[str] | None = None


def use_image(engine: str, image: str, *, device: str, gpus: bool, source: str, say: Say) -> Environment:
    """Get an image where this machine does not have it yet, and look at the TensorFlow in it.

    Args:
        engine: "docker" or "podman".
        image: its name, with a tag, a digest ("NAME@sha256:...") or neither.
        device: "cpu" hides the GPUs from TensorFlow, "gpu" lets it see them.
        gpus: whether the container is given the machine's GPUs.
        source: what the user gave `--environment`, for the record.
        say: told in a line what takes long.

    Raises:
        FatalError: no engine, none that answers, no such image, none without TensorFlow or with one that does not import.
    """
    for name in leftovers(engine):
        say(f"removing the container {name} of a sweep that was killed")
        _ask(engine, ["rm", "--force", name], limit_s=REMOVE_LIMIT_S)
    program = _program(engine)
    user = _user(engine)
    found = _find_image(engine, image) or _pull(engine, image, say)
    identity = found.id if found.id.startswith("sha256:") else f"sha256:{found.id}"
    digest = _digest(image, found.repo_digests or [])
    container = Container(engine=engine, program=program, image=image, image_id=identity, digest=digest, user=user, gpus=gpus)
    say(f"looking at the TensorFlow in the image {image}")
    python, captured = _ask_pythons(container, device)
    try:
        environment = read_answer(captured, f"{python} in {image}", kind="container", device=device, variables={})
    except FatalError as error:
        raise FatalError(
            error.what, f"Name an image that has TensorFlow, as in --environment {engine}:docker.io/tensorflow/tensorflow:TAG"
        ) from error
    return msgspec.structs.replace(environment, python=python, source=source, container=container)


def plan_container(engine: str, image: str, *, gpus: bool) -> Container:
    """A container as far as it is known where nothing is fetched, and the engine may be missing. The arguments are those of `use_image`."""
    program, user = shutil.which(engine), ""
    with suppress(FatalError):
        user = _user(engine)
    return Container(engine=engine, program=program or engine, image=image, image_id="", user=user, gpus=gpus)


def _ask_pythons(container: Container, device: str) -> tuple[str, Captured]:
    """The interpreter that has TensorFlow, or else the last that is one, and what it says."""
    answers = []
    for python in _PYTHONS:
        captured = _run(container, (python, "-c", INSPECTION), hiding_variables(device))
        if captured.exit_code == _ENGINE_FAILED:
            remedy = _NO_GPUS if container.gpus else f"{container.engine} run --rm {container.image} must work"
            raise FatalError(f"{container.engine} can't start a container of {container.image}: {tail(captured)}", remedy)
        answers.append((python, captured))
        if captured.exit_code == 0:
            break
    return next((each for each in reversed(answers) if each[1].exit_code not in _CANNOT_BE_STARTED), answers[0])


def new_name() -> str:
    """A name for a container that no other has, and that tells `leftovers` for which process it is."""
    return f"{_prefix()}-{os.getpid()}-{_birth(os.getpid())}-{uuid.uuid4().hex[:12]}"


def leftovers(engine: str, limit_s: float = ASK_LIMIT_S) -> tuple[str, ...]:
    """The names of containers whose wrapper was killed together with its guard; none of other users, other machines and living wrappers.

    Args:
        engine: "docker" or "podman".
        limit_s: seconds within which it has to answer.

    Raises:
        FatalError: there is no such engine, it can't work, or it does not answer.
    """
    told = _told(engine, ["ps", "--all", f"--filter=name={_prefix()}", "--format={{.Names}}"], limit_s)
    found = (re.fullmatch(rf"{_prefix()}-(\d+)-(\d+)-[0-9a-f]+", name) for name in told.split())
    return tuple(each[0] for each in found if each and _birth(int(each[1])) != each[2])


def _prefix() -> str:
    """What names of containers begin with: this user and this start of this machine, which alone give a process id a meaning."""
    here = [sys.platform, platform.node()]
    if sys.platform == "linux":  # also in a container that was given the engine of the machine around it
        proc = Path("/proc")
        here = [attribute(proc / "sys/kernel/random/boot_id"), str((proc / "self/ns/pid").readlink()), str(os.getuid())]
    return f"tfcnn-{hashlib.sha256(chr(0).join(here).encode()).hexdigest()[:12]}"


def _birth(pid: int) -> str:
    """When a process began, as a number that no setting of the clock changes; empty where none of that id runs."""
    with suppress(OSError, psutil.NoSuchProcess):
        if sys.platform != "linux":
            return f"{psutil.Process(pid).create_time():.0f}"
        # state and start in ticks since the machine's start: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
        state, *others = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return "" if state == "Z" else others[18]
    return ""


def container_pid(container: Container, name: str) -> int | None:
    """The process id on this machine of a container's first process; None where it does not run (yet), or runs in a virtual machine (not Linux)."""
    if sys.platform != "linux":
        return None
    try:
        captured = _ask(container.engine, ["container", "inspect", "--format={{.State.Pid}}", name])
    except FatalError:
        return None
    text = captured.stdout.strip()
    return int(text) if captured.exit_code == 0 and text.isdecimal() and text != "0" else None


def tail(captured: Captured) -> str:
    """The end of what an engine complained of, in one line."""
    lines = [line.strip() for line in captured.stderr.splitlines() if line.strip()]
    return " | ".join(lines[-3:])[-600:].rstrip(".") or f"exit code {captured.exit_code}"


def _program(engine: str) -> str:
    program = shutil.which(engine)
    if program is None:
        raise FatalError(f"{engine} was asked for, and is not on the PATH", f"Install {engine}, or leave --environment out")
    return program


def _user(engine: str) -> str:
    """ "UID:GID" of the user where processes of containers would be root's otherwise."""
    question = "{{.Host.Security.Rootless}}" if engine == "podman" else "{{.SecurityOptions}}"
    told = _told(engine, ["info", f"--format={question}"], ASK_LIMIT_S)
    rootless = "rootless" in told or told.strip() == "true"
    if sys.platform != "linux" or rootless:  # elsewhere containers run in a virtual machine, whose users are not those of this one
        return ""
    return f"{os.getuid()}:{os.getgid()}"


def _find_image(engine: str, image: str) -> _Image | None:
    captured = _ask(engine, ["image", "inspect", image])
    if captured.exit_code != 0:
        return None
    try:
        return msgspec.json.decode(captured.stdout, type=list[_Image])[0]
    except (msgspec.DecodeError, IndexError) as error:
        raise FatalError(f"{engine} image inspect {image} does not answer as an engine does ({error})", "Is that docker or podman?") from error


def _pull(engine: str, image: str, say: Say) -> _Image:
    say(f"fetching the image {image}, which may be several GB")
    captured = _ask(engine, ["pull", "--quiet", image], limit_s=PULL_LIMIT_S)
    found = _find_image(engine, image) if captured.exit_code == 0 else None
    if found is None:
        raise FatalError(
            f"the image {image} can't be had: {tail(captured)}",
            "Check its name (with its registry, such as docker.io/), the network and the free disk, or name an image that is here",
        )
    return found


def _digest(image: str, digests: Sequence[str]) -> str:
    """Of the digests of an image, which may have come from several registries, that of the one that was named. podman also has some of its own."""
    name = image.partition("@")[0].removeprefix("docker.io/")  # docker leaves it out of its answer
    repository = name.rpartition(":")[0] if ":" in name.rpartition("/")[2] else name
    return next((each for each in digests if f"/{each}".partition("@")[0].endswith(f"/{repository}") and not each.startswith("localhost/")), "")


def _run(container: Container, command: Sequence[str], variables: dict[str, str]) -> Captured:
    name = new_name()
    arguments = engine_command(container, command, name=name, mounts=[], variables=variables, inherited=os.environ)
    return run_captured(arguments, cwd=Path.cwd(), time_limit_s=IMPORT_LIMIT_S, cleanup=removal(container, name))


def _told(engine: str, question: Sequence[str], limit_s: float) -> str:
    """What an engine answers. Raises FatalError where it complains instead: then it can't run anything either."""
    captured = _ask(engine, question, limit_s=limit_s)
    if captured.exit_code != 0:
        raise FatalError(f"{engine} does not answer: {tail(captured)}", _MEND[engine])
    return captured.stdout


def _ask(engine: str, arguments: Sequence[str], *, limit_s: float = ASK_LIMIT_S) -> Captured:
    command = [_program(engine), *arguments]
    try:
        return run_captured(command, time_limit_s=limit_s)
    except FatalError as error:  # it hangs, or is no program
        raise FatalError(f"{engine} gives no answer: {error.what}", _MEND[engine]) from error
