"""Sweeps whose trials run in containers: with a stand-in for docker everywhere, and with the real docker and podman where they can run one."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from e2e_kit import DEVICE_LIB, OLD, TENSORFLOW, Product, alive, only_report, trials_in, wait_until

from wrapper.bootstrapper.container import CHECKOUT, Mount, engine_command, removal
from wrapper.bootstrapper.engine import leftovers, new_name, use_image
from wrapper.process import run_captured
from wrapper.reporter.store import read_session

pytest_plugins = ["e2e_kit"]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="containers run in a virtual machine here")

BEHAVIOURS = {"FAKE_BEHAVIOURS": "vgg16=hang,vgg11=crash"}
FAKE_ENGINE = Path(__file__).parent / "data" / "fake_engine.py"


class Engine:
    """An engine that has an image with the fake TensorFlow in it."""

    def __init__(self, kind: str, image: str, variables: dict[str, str]) -> None:
        self.kind, self.image, self.variables = kind, image, variables

    def sweep(self, product: Product, reports: Path, *arguments: str) -> tuple[str, ...]:
        return product.sweep(reports, "--environment", f"{self.kind}:{self.image}", "--repeats", "1", *arguments, release="")

    def has_container(self, name: str) -> bool:
        done = subprocess.run([self.kind, "container", "inspect", name], env={**os.environ, **self.variables}, capture_output=True, check=False)
        return done.returncode == 0


def fill(site: Path) -> None:
    """Put the fake TensorFlow into a directory of packages."""
    client = site / "tensorflow" / "python" / "client"
    client.mkdir(parents=True)
    for path, text in ((client.parents[1], TENSORFLOW.replace("VERSION", OLD)), (client.parent, ""), (client, "")):
        (path / "__init__.py").write_text(text)
    (client / "device_lib.py").write_text(DEVICE_LIB)


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = tmp_path_factory.mktemp("docker")
    program = folder / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{FAKE_ENGINE.read_text(encoding='utf-8')}", encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    fill(folder / "site")
    variables = {"PYTHONPATH": str(folder / "site"), "PATH": os.environ["PATH"], **BEHAVIOURS}
    (folder / "image.json").write_text(json.dumps({"variables": variables}))
    return Engine("docker", "test/tensorflow:1.12.0", {"FAKE_ENGINE": str(folder), "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("image") / "root.tar"
    make_root(path)
    return path


def real(kind: str, root: Path) -> Iterator[Engine]:
    """A real engine with an image that is made of `root`; skips where there is none that can run it."""

    def ask(*arguments: str) -> str:
        done = subprocess.run([kind, *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"{kind} can't run a container on this machine: {done.stderr.strip()[-300:]}")
        return done.stdout

    image = f"tfcnn-test-{uuid.uuid4().hex}"
    if shutil.which(kind) is None:
        pytest.skip(f"no {kind} on this machine")
    changes = [f"--change=ENV {name}={value}" for name, value in {"PATH": "/python/bin", "LD_LIBRARY_PATH": "/python/lib", **BEHAVIOURS}.items()]
    ask("import", *changes, str(root), image)
    try:
        ask("run", "--rm", "--network=none", image, "python3", "--version")
        yield Engine(kind, image, {})
    finally:
        subprocess.run([kind, "rmi", "--force", image], capture_output=True, check=False)


@pytest.fixture(scope="module")
def podman(root: Path) -> Iterator[Engine]:
    yield from real("podman", root)


@pytest.fixture(scope="module")
def docker(root: Path) -> Iterator[Engine]:
    yield from real("docker", root)


def make_root(path: Path) -> None:
    """A root file system with this Python, the system's libraries that it needs, and the fake TensorFlow; no shell and nothing else."""
    minor = f"python3.{sys.version_info.minor}"
    prefix, library = Path(sys.base_prefix), Path("lib") / minor
    site = path.parent / "site"
    fill(site)

    def lean(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        return None if re.search(r"/(test|tests|site-packages|__pycache__|idlelib|tkinter|ensurepip|config-\S+)$|\.a$", member.name) else member

    programs = [prefix / "bin" / minor, *(prefix / library / "lib-dynload").glob("*.so")]
    told = [subprocess.run(["ldd", str(each)], capture_output=True, text=True, check=False).stdout for each in programs]
    with tarfile.open(path, "w", dereference=True) as tar:
        tar.add(programs[0], "python/bin/python3")
        tar.add(prefix / library, f"python/{library}", filter=lean)
        tar.add(site, f"python/{library}/site-packages")
        for place in sorted(set(re.findall(r"(/\S+) \(0x", "".join(told)))):
            tar.add(place, place if "ld-linux" in place else f"python/lib/{Path(place).name}")
        for name in ("tmp", "proc", "dev", "sys"):
            directory = tarfile.TarInfo(name)
            directory.type, directory.mode = tarfile.DIRTYPE, 0o1777
            tar.addfile(directory)


@pytest.fixture(params=["stand_in", "docker", "podman"])
def engine(request: pytest.FixtureRequest) -> Engine:
    made: Engine = request.getfixturevalue(request.param)
    return made


def test_a_sweep_in_containers(product: Product, engine: Engine, tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    done = product.run(*engine.sweep(product, reports, "--models", "trivial=2,vgg11=2"), **engine.variables)
    assert done.returncode == 4, done.stderr
    good, bad = trials_in(reports)
    assert (good.judgement.verdict, good.execution.leftovers) == ("ok", 0)
    assert (Path(good.engine_command[0]).name, *good.engine_command[1:3]) == (engine.kind, "run", "--rm")
    assert (bad.judgement.verdict, bad.execution.exit_code) == ("failed", 1)
    names = [part.partition("=")[2] for trial in (good, bad) for part in trial.engine_command if part.startswith("--name=")]
    assert len(set(names)) == 2 and not any(engine.has_container(name) for name in names)
    recorded = read_session(only_report(reports)).environment
    assert recorded["source"] == f"{engine.kind}:{engine.image}"
    digest = "" if engine.image.startswith("tfcnn-test-") else f"test/tensorflow@sha256:{'d' * 64}"  # the former was made here
    assert recorded["container"]["image_id"].startswith("sha256:") and recorded["container"]["digest"] == digest
    report = (only_report(reports) / "report.md").read_text(encoding="utf-8")
    assert (digest or recorded["container"]["image_id"]) in report
    resumed = product.run("run", "--resume", str(only_report(reports)), "--retry", "2", "--vendor", str(product.vendor), **engine.variables)
    assert resumed.returncode == 4, resumed.stderr
    verified = product.run("verify", str(only_report(reports)))
    assert verified.returncode == 0, verified.stdout + verified.stderr


def planned(output: str) -> list[str]:
    """The command lines of a dry run, whose containers have names that are not those of any other run."""
    lines = [line.strip() for line in output.splitlines() if line.startswith("      ")]
    return [re.sub("--name=[^ ]+", "--name=", line) for line in lines]


def test_a_dry_run_shows_what_is_started(product: Product, engine: Engine, tmp_path: Path) -> None:
    asked = engine.sweep(product, tmp_path / "reports", "--models", "trivial=2,vgg19=2")
    dry = product.run(*asked, "--dry-run", **engine.variables)
    assert dry.returncode == 0, dry.stderr
    assert product.run(*asked, **engine.variables).returncode == 0
    assert planned(dry.stdout) == planned("".join(f"      {shlex.join(trial.engine_command)}\n" for trial in trials_in(tmp_path / "reports")))


@pytest.mark.parametrize("kind", ["docker", "podman"])
def test_a_dry_run_names_the_image_of_the_release(product: Product, kind: str, tmp_path: Path) -> None:
    arguments = product.sweep(tmp_path / "reports", "--environment", kind, "--models", "trivial=2", "--dry-run")
    done = product.run(*arguments)
    assert done.returncode == 0, done.stderr
    (command, *_) = planned(done.stdout)
    assert re.match(rf"([^ ]*/)?{kind} run --rm --name= ", command) and " --entrypoint=python docker.io/tensorflow/tensorflow:1.12.0-py3 " in command
    assert f" {CHECKOUT}/scripts/tf_cnn_benchmarks/tf_cnn_benchmarks.py --model=trivial " in command


def test_a_trial_that_takes_too_long_leaves_no_container(product: Product, engine: Engine, tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    done = product.run(*engine.sweep(product, reports, "--models", "vgg16=2", "--time-limit", "2s"), **engine.variables)
    assert done.returncode == 4, done.stderr
    (trial,) = trials_in(reports)
    assert trial.judgement.verdict == "timed_out"
    (name,) = (part.partition("=")[2] for part in trial.engine_command if part.startswith("--name="))
    assert not engine.has_container(name)


def started(product: Product, engine: Engine, reports: Path) -> tuple[subprocess.Popen[str], list[psutil.Process], str]:
    """A sweep whose trial runs in a container and does not end: the wrapper, what it started, and the container's name."""
    process = product.start(*engine.sweep(product, reports, "--models", "vgg16=2"), **engine.variables)
    assert wait_until(lambda: any(b"Running warm up" in log.read_bytes() for log in reports.glob("*/logs/*.stdout")), 60)
    family = psutil.Process(process.pid).children(recursive=True)
    return process, family, next(part.partition("=")[2] for each in family for part in each.cmdline() if part.startswith("--name=tfcnn-"))


def test_a_killed_wrapper_leaves_no_container(product: Product, engine: Engine, tmp_path: Path) -> None:
    process, family, name = started(product, engine, tmp_path / "reports")
    try:
        assert engine.has_container(name)
        process.kill()
        assert wait_until(lambda: not engine.has_container(name), 20)
        assert wait_until(lambda: not alive([each.pid for each in family]), 20)
    finally:
        process.kill()
        process.communicate()


def test_a_container_that_outlived_wrapper_and_guard_is_named_and_removed_by_the_next_sweep(
    product: Product, engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    process, family, name = started(product, engine, tmp_path / "killed")
    for key, value in engine.variables.items():
        monkeypatch.setenv(key, value)
    try:
        assert leftovers(engine.kind) == (), "its wrapper lives"
        for each in (*family, process):  # the guard first, which would remove it
            with suppress(psutil.NoSuchProcess):
                each.kill()
        process.communicate()
        assert engine.has_container(name) and leftovers(engine.kind) == (name,)
        doctor = product.run("doctor", "--environment", engine.kind, "--device", "cpu", "--vendor", str(product.vendor), **engine.variables)
        assert f"warn  environment: containers are left of sweeps that were killed: {name}" in doctor.stdout
        done = product.run(*engine.sweep(product, tmp_path / "next", "--models", "trivial=2"), **engine.variables)
        assert done.returncode == 0 and f"removing the container {name} of a sweep that was killed" in done.stdout
        assert not engine.has_container(name) and leftovers(engine.kind) == ()
    finally:
        run_captured([engine.kind, "rm", "--force", name], time_limit_s=60)


def test_an_image_is_fetched_once(product: Product, stand_in: Engine, tmp_path: Path) -> None:
    calls = Path(stand_in.variables["FAKE_ENGINE"]) / "calls"
    Path(stand_in.variables["FAKE_ENGINE"], "pulled").unlink(missing_ok=True)
    calls.unlink(missing_ok=True)
    for number in (1, 2):
        done = product.run(*stand_in.sweep(product, tmp_path / str(number), "--models", "trivial=2"), **stand_in.variables)
        assert done.returncode == 0, done.stderr
    assert [call for call in map(json.loads, calls.read_text().splitlines()) if call[0] == "pull"] == [["pull", "--quiet", stand_in.image]]


def test_no_image_is_fetched_for_a_machine_that_is_not_fit(product: Product, stand_in: Engine, tmp_path: Path) -> None:
    folder, vendor = Path(stand_in.variables["FAKE_ENGINE"]), tmp_path / "vendor"
    for made in ("pulled", "calls"):
        (folder / made).unlink(missing_ok=True)
    vendor.touch()
    done = product.run(*stand_in.sweep(product, tmp_path / "reports", "--models", "trivial=2", "--vendor", str(vendor)), **stand_in.variables)
    assert done.returncode == 1 and "is not a directory" in done.stderr
    assert not (folder / "pulled").exists() and '"run"' not in (folder / "calls").read_text()


LOOK = """
import json, os, socket, sys
def refused(act):
    try: act()
    except OSError: return True
    return False
checkout = sys.argv[1]
print(json.dumps({
    "user": [os.getuid(), os.getgid()],
    "shared memory": os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize,
    "read-only": refused(lambda: open(checkout + "/new", "w")),
    "no network": refused(lambda: socket.create_connection(("192.0.2.1", 80), 2)),
    "variables": {name: os.environ.get(name) for name in ("HOME", "PYTHONUNBUFFERED", "GIVEN", "NCCL_DEBUG", "SECRET")},
    "file": open(checkout + "/file").read(),
}))
"""


@pytest.mark.parametrize("kind", ["docker", "podman"])
def test_what_a_command_finds_in_a_container(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> None:
    engine: Engine = request.getfixturevalue(kind)
    directory = tmp_path / "with space, komma ü"
    directory.mkdir()
    (directory / "file").write_text("text")
    said: list[str] = []
    container = use_image(kind, engine.image, device="cpu", gpus=False, source="", say=said.append).container
    assert container is not None
    name = new_name()
    inherited = {"NCCL_DEBUG": "INFO", "SECRET": "secret"}
    mounts, look = [Mount(str(directory), CHECKOUT)], ["python3", "-c", LOOK, str(directory)]
    command = engine_command(container, look, name=name, mounts=mounts, variables={"GIVEN": "1"}, inherited=inherited)
    captured = run_captured(command, time_limit_s=60, cleanup=removal(container, name))
    assert captured.exit_code == 0, captured.stderr
    found = json.loads(captured.stdout)
    assert found["user"] == ([0, 0] if not container.user else [os.getuid(), os.getgid()])
    assert found["shared memory"] >= 1 << 30
    assert found["read-only"] and found["no network"] and found["file"] == "text"
    assert found["variables"] == {"HOME": "/tmp", "PYTHONUNBUFFERED": "1", "GIVEN": "1", "NCCL_DEBUG": "INFO", "SECRET": None}
