"""The command lines that engines are given, and the table of images."""

from __future__ import annotations

import msgspec
import pytest
from packaging.version import Version

from wrapper.bootstrapper.container import CHECKOUT, DATA, PACKAGES, Container, Mount, engine_command, removal
from wrapper.bootstrapper.host import Gpu
from wrapper.bootstrapper.images import load_images, official_image
from wrapper.bootstrapper.release import load_releases, resolve_release

DOCKER = Container(engine="docker", program="/usr/bin/docker", image="name:tag", image_id="sha256:5", user="1000:100")


def made(container: Container, command: list[str], *mounts: Mount, **inherited: str) -> tuple[str, ...]:
    return engine_command(container, command, name="tfcnn-1", mounts=mounts, variables={"CUDA_VISIBLE_DEVICES": "-1"}, inherited=inherited)


def test_the_whole_command_line_of_docker() -> None:
    trial = ["python", "/home/u/vendor/b/scripts/x.py", "--model=lenet", "--data_dir=/data", "--train_dir=/data2"]
    assert made(DOCKER, trial, Mount("/home/u/vendor/b", CHECKOUT), Mount("/data", DATA)) == (
        "/usr/bin/docker",
        "run",
        "--rm",
        "--name=tfcnn-1",
        "--pull=never",
        "--network=none",
        "--shm-size=1g",
        "--stop-timeout=0",
        "--security-opt=label=disable",
        "--user=1000:100",
        "--mount=type=bind,source=/home/u/vendor/b,target=/tfcnn/checkout,readonly=true",
        "--mount=type=bind,source=/data,target=/tfcnn/data,readonly=true",
        "--env=HOME=/tmp",
        "--env=PYTHONUNBUFFERED=1",
        "--env=PYTHONDONTWRITEBYTECODE=1",
        "--env=PYTHONIOENCODING=utf-8",
        "--env=CUDA_VISIBLE_DEVICES=-1",
        "--entrypoint=python",
        "sha256:5",
        "/tfcnn/checkout/scripts/x.py",
        "--model=lenet",
        "--data_dir=/tfcnn/data",
        "--train_dir=/data2",
    )


@pytest.mark.parametrize(("engine", "option"), [("docker", "--gpus=all"), ("podman", "--device=nvidia.com/gpu=all")])
def test_gpus_are_given_only_where_wanted(engine: str, option: str) -> None:
    container = msgspec.structs.replace(DOCKER, engine=engine)
    assert option not in made(container, ["python"])
    assert option in made(msgspec.structs.replace(container, gpus=True), ["python"])


def test_an_engine_without_privileges_is_given_no_user() -> None:
    assert not [part for part in made(msgspec.structs.replace(DOCKER, user=""), ["python"]) if part.startswith("--user")]


def test_packages_that_the_image_lacks_are_mounted_and_found() -> None:
    command = made(msgspec.structs.replace(DOCKER, packages="/v/packages/tf-keras-2.16.0"), ["python"])
    assert f"--mount=type=bind,source=/v/packages/tf-keras-2.16.0,target={PACKAGES},readonly=true" in command
    assert f"--env=PYTHONPATH={PACKAGES}" in command


def test_paths_of_windows_become_paths_of_the_container() -> None:
    command = made(DOCKER, ["python", r"C:\Users\Jörg M\b\scripts\x.py"], Mount(r"C:\Users\Jörg M\b", CHECKOUT))
    assert command[-1] == "/tfcnn/checkout/scripts/x.py"
    assert r"--mount=type=bind,source=C:\Users\Jörg M\b,target=/tfcnn/checkout,readonly=true" in command


def test_a_path_can_add_no_option_to_its_mount() -> None:
    assert '--mount=type=bind,"source=/a,readonly=false",target=/tfcnn/data,readonly=true' in made(
        DOCKER, ["python"], Mount("/a,readonly=false", DATA)
    )


def test_of_the_users_variables_those_alone_go_in_that_steer_tensorflow() -> None:
    command = made(DOCKER, ["python"], TF_XLA_FLAGS="a", TF_VAR_password="b", NCCL_DEBUG="c", AWS_SECRET="d", CUDA_VISIBLE_DEVICES="1")
    assert [part for part in command if part.startswith("--env=")][:2] == ["--env=TF_XLA_FLAGS=a", "--env=NCCL_DEBUG=c"]
    assert "--env=CUDA_VISIBLE_DEVICES=-1" in command and "password" not in " ".join(command) and "SECRET" not in " ".join(command)


def test_what_is_removed_is_named() -> None:
    assert removal(DOCKER, "tfcnn-1") == ("/usr/bin/docker", "rm", "--force", "tfcnn-1")


# the table of images


def test_every_release_has_a_tag_of_its_minor() -> None:
    tags = load_images().tags
    assert list(tags) == [row.tensorflow for row in load_releases()]
    for release, tag in tags.items():
        version, _, rest = tag.partition("-")
        assert Version(version).release[:2] == Version(release).release[:2]
        assert rest == ("gpu-py3" if Version(release) < Version("2.2") else "gpu")


@pytest.mark.parametrize(
    ("release", "device", "capabilities", "image"),
    [
        ("1.12.0", "gpu", ["7.0"], "docker.io/tensorflow/tensorflow:1.12.0-gpu-py3"),
        ("1.12.0", "cpu", [], "docker.io/tensorflow/tensorflow:1.12.0-py3"),
        ("1.12.2", "cpu", [], "docker.io/tensorflow/tensorflow:1.12.3-py3"),
        ("2.21", "gpu", ["9.0"], "docker.io/tensorflow/tensorflow:2.21.0-gpu"),
        ("2.21", "cpu", [], "docker.io/tensorflow/tensorflow:2.21.0"),
        ("1.15", "gpu", ["7.5"], "docker.io/tensorflow/tensorflow:1.15.5-gpu-py3"),
        ("1.15", "gpu", ["7.5", "8.6"], "nvcr.io/nvidia/tensorflow:23.03-tf1-py3"),
        ("1.15", "gpu", ["10.0"], "nvcr.io/nvidia/tensorflow:23.03-tf1-py3"),
        ("1.15", "cpu", ["9.0"], "docker.io/tensorflow/tensorflow:1.15.5-py3"),
    ],
)
def test_the_image_of_a_release(release: str, device: str, capabilities: list[str], image: str) -> None:
    gpus = [Gpu(index=index, name="a GPU", compute_capability=capability) for index, capability in enumerate(capabilities)]
    assert official_image(resolve_release(release, load_releases()), device, gpus, load_images()) == image
