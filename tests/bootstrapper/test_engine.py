"""What is said where an engine, an image or the TensorFlow in it is not what it should be: small programs that answer as docker does then."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from wrapper.bootstrapper.container import Container
from wrapper.bootstrapper.engine import container_pid, leftovers, new_name, plan_container, use_image
from wrapper.bootstrapper.inspection import Environment
from wrapper.errors import FatalError

Answer = Callable[..., None]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the programs are scripts that start by their first line")

DIGESTS = (
    "other/name@sha256:1",
    "hub/image@sha256:6",
    "docker.io/home/image@sha256:4",
    "docker.io/some/image@sha256:2",
    "localhost/some/image@sha256:3",
)
IMAGE = json.dumps([{"Id": "sha256:5", "RepoDigests": DIGESTS}])
ANSWERS = {"ps": "pass", "info": "print('[name=rootless]')", "image": f"print({IMAGE!r})", "rm": "pass", "run": "pass"}
TELLING = """
def tell(kind, facts):
    print('tfcnn-inspection:{"type": "%s", "facts": %s}' % (kind, facts))
tell("python", '{"prefix": "/usr", "python_version": "3.8.1"}')
tell("tensorflow", '{"tensorflow": "1.15.5+nv23.3", "packages": {}, "devices": [], "cuda_built": "12.1"}')
"""


@pytest.fixture
def answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Answer:
    def make(**answers: str) -> None:
        """Put a docker on the PATH that runs a line of Python for each of its commands."""
        branches = "".join(f"if sys.argv[1] == {command!r}:\n    exec({code!r})\n" for command, code in {**ANSWERS, **answers}.items())
        program = tmp_path / "docker"
        program.write_text(f"#!{sys.executable}\nimport sys\n{branches}")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(tmp_path) + os.pathsep + os.environ["PATH"])

    return make


def look(image: str = "docker.io/some/image:tag", *, gpus: bool = False) -> Environment:
    return use_image("docker", image, device="cpu", gpus=gpus, source=f"docker:{image}", say=lambda _: None)


def test_a_container_is_planned_with_what_is_known_of_the_engine(answer: Answer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answer()
    here = Container(engine="docker", program=str(tmp_path / "docker"), image="some/image", image_id="", gpus=True)
    assert plan_container("docker", "some/image", gpus=True) == here, "as rootless docker answers"
    answer(info="sys.exit(1)")
    assert plan_container("docker", "some/image", gpus=True) == here, "no daemon"
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert plan_container("docker", "some/image", gpus=True).program == "docker"


def test_what_an_image_has_is_recorded(answer: Answer) -> None:
    answer(run=TELLING)
    environment = look()
    assert (environment.kind, environment.tensorflow, environment.python, environment.path) == ("container", "1.15.5+nv23.3", "python", "/usr")
    container = environment.container
    assert container is not None
    assert (container.image_id, container.digest, container.user) == ("sha256:5", "docker.io/some/image@sha256:2", "")


@pytest.mark.parametrize(
    ("image", "digest"),
    [
        ("some/image", "docker.io/some/image@sha256:2"),
        ("some/image@sha256:2", "docker.io/some/image@sha256:2"),
        ("me/image", ""),
        ("docker.io/hub/image:tag", "hub/image@sha256:6"),
        ("registry:5000/name:tag", ""),
        ("localhost/some/image", ""),
    ],
)
def test_the_digest_is_that_of_the_name(answer: Answer, image: str, digest: str) -> None:
    answer(run=TELLING)
    container = look(image).container
    assert container is not None and container.digest == digest


def test_an_interpreter_of_another_name_is_found(answer: Answer) -> None:
    answer(run=f"if '--entrypoint=python' in sys.argv: sys.exit(127)\n{TELLING}")
    assert look().python == "python3"


@pytest.mark.parametrize(
    ("answers", "gpus", "said"),
    [
        ({"ps": "sys.exit('Cannot connect to the Docker daemon')"}, False, "docker does not answer: Cannot connect to the Docker daemon"),
        ({"image": "sys.exit('no such image')", "pull": "sys.exit('no route to host')"}, False, "can't be had: no route to host"),
        ({"image": "print('<html>')"}, False, "does not answer as an engine does"),
        ({"run": "sys.stderr.write('could not select device driver'); sys.exit(125)"}, True, "NVIDIA Container Toolkit"),
        ({"run": "sys.stderr.write('no space left'); sys.exit(125)"}, False, "can't start a container of docker.io/some/image:tag: no space left"),
        ({"run": "sys.exit(127)"}, False, "is not a Python interpreter"),
        ({"run": f"{TELLING.splitlines()[1]}\nsys.exit(1)"}, False, "Name an image that has TensorFlow"),
    ],
    ids=["no daemon", "no network", "no engine", "no GPU", "full disk", "no Python", "no TensorFlow"],
)
def test_troubles_are_said_with_a_remedy(answer: Answer, answers: dict[str, str], gpus: bool, said: str) -> None:
    answer(**answers)
    with pytest.raises(FatalError, match=said) as caught:
        look(gpus=gpus)
    assert caught.value.remedy


def test_an_engine_that_is_missing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FatalError, match="docker was asked for, and is not on the PATH"):
        look()


def test_an_engine_that_hangs_is_ended_soon(answer: Answer) -> None:
    answer(ps="import time; time.sleep(60)")
    start = time.monotonic()
    with pytest.raises(FatalError, match=r"docker gives no answer: .*docker ps .* did not end within 0\.5 s") as caught:
        leftovers("docker", 0.5)
    assert time.monotonic() - start < 5 and "docker ps must work" in caught.value.remedy


def test_a_container_of_somebody_else_is_no_leftover(answer: Answer) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    mine = new_name()
    _, machine, pid, birth, end = mine.split("-")
    ended.wait()
    dead, reused = f"tfcnn-{machine}-{ended.pid}-{birth}-{end}", f"tfcnn-{machine}-{pid}-1-{end}"
    others = [f"tfcnn-{'0' * 12}-{ended.pid}-{birth}-{end}", f"my-{dead}", f"{dead}-db", f"tfcnn-{machine}", "tfcnn-test"]
    answer(ps=f"print({chr(10).join([mine, dead, reused, *others])!r})")
    assert leftovers("docker") == (dead, reused)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere containers run in a virtual machine")
@pytest.mark.parametrize(("code", "pid"), [("print(4711)", 4711), ("print(0)", None), ("sys.exit('no such container')", None), ("print('?')", None)])
def test_the_process_of_a_container(answer: Answer, tmp_path: Path, code: str, pid: int | None) -> None:
    answer(container=code)
    container = Container(engine="docker", program=str(tmp_path / "docker"), image="i", image_id="sha256:5")
    assert container_pid(container, "name") == pid
