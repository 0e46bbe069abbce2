"""The whole product beside a fake upstream and a fake TensorFlow, for tests from the command line to the report.

The product is a copy of the package. Its code is untouched; its table of releases names commits of a real git repository that holds the fake
upstream, and its lock files name tiny wheels that the real uv installs without a network. Loaded as a pytest plugin by the tests that use it
(PYTEST_DONT_REWRITE: they also import it).
"""

from __future__ import annotations

import base64
import compileall
import dataclasses
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import yaml

from wrapper.reporter.store import Trial, read_trials

PROJECT = Path(__file__).parents[1]
FAKE = PROJECT / "tests" / "data" / "fake_upstream.py"
MINOR = f"{sys.version_info.major}.{sys.version_info.minor}"
OLD, NEW = "1.12.0", "2.21.0"
"""The releases that can be installed here."""

ENTRY = """
# FAKE_BEHAVIOURS   "resnet50=crash,...": what a model does, a behaviour of fake_upstream.py or of this file
# FAKE_SPY          file to which each start appends the model and how many trials stand in the records under FAKE_REPORTS, whole and broken off
import os
import sys
from pathlib import Path

import fake_upstream


def hostile(flags):
    fake_upstream.print_header(flags)
    sys.stderr.write("ValueError: \\x1b]0;owned\\x07\\x1b[2J\\x1b[31m[bold]red\\n")
    sys.exit(1)


def squat(flags):
    for log in Path(os.environ["FAKE_REPORTS"]).glob("*/logs"):
        (log.parent / "trials.jsonl").mkdir()
    fake_upstream.run(flags)


def windows(flags):
    sys.stdout.reconfigure(newline="\\r\\n")
    fake_upstream.run(flags)


os.environ.setdefault("FAKE_TENSORFLOW", "MINOR")
fake_upstream.BEHAVIOURS.update(run=fake_upstream.run, hostile=hostile, squat=squat, windows=windows)
for pair in filter(None, os.environ.get("FAKE_BEHAVIOURS", "").split(",")):
    model, behaviour = pair.split("=")
    fake_upstream.BEHAVIOURS[model] = fake_upstream.BEHAVIOURS[behaviour]
if "FAKE_SPY" in os.environ:
    model = [word.split("=")[1] for word in sys.argv if word.startswith("--model=")][0]
    records = b"".join(path.read_bytes() for path in Path(os.environ["FAKE_REPORTS"]).glob("**/trials.jsonl"))
    with open(os.environ["FAKE_SPY"], "a") as spy:
        spy.write("%s %d %d\\n" % (model, records.count(b"\\n"), not records.endswith(b"\\n") and len(records)))
fake_upstream.main()
"""

TENSORFLOW = """
__version__ = "VERSION"
class test:
    is_built_with_cuda = staticmethod(lambda: True)
class sysconfig:
    get_build_info = staticmethod(lambda: {"cuda_version": "9.0"})
class ConfigProto:
    class gpu_options:
        allow_growth = False
"""
DEVICE_LIB = """
import os, sys
class Device:
    def __init__(self, kind, index):
        self.device_type, self.name, self.physical_device_desc, self.memory_limit = kind, "/device:%s:%d" % (kind, index), "a fake " + kind, 2**30
def list_local_devices(config):
    gpus = 0 if os.environ.get("CUDA_VISIBLE_DEVICES") == "-1" else int(os.environ.get("FAKE_GPUS", "0"))
    if not gpus:
        sys.stderr.write("2018-11-06 10:00:00.000001: E tensorflow/cuda_driver.cc:300] failed call to cuInit: CUDA_ERROR_NO_DEVICE\\n")
    return [Device("CPU", 0)] + [Device("GPU", index) for index in range(gpus)]
"""

CPUINFO = """
def get_cpu_info():
    return {"brand_raw": "Fake CPU", "arch": "X86_64", "flags": []}
"""
"""In place of py-cpuinfo, which asks the CPU for a second at each start. What is read of a host is tested with the real one elsewhere."""


@dataclasses.dataclass(frozen=True)
class Product:
    """The copy of the package with everything that it needs."""

    root: Path
    """Holds wrapper/, and the folders that follow."""
    commits: dict[str, str]
    """The upstream commit of each release that can be installed."""

    @property
    def upstream(self) -> str:
        return (self.root / "upstream").as_uri()

    @property
    def vendor(self) -> Path:
        """With checkouts and environments in it as soon as a test made them."""
        return self.root / "vendor"

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "wrapper", *arguments]

    def variables(self, **more: str) -> dict[str, str]:
        uv = {
            "UV_OFFLINE": "1",
            "UV_NO_INDEX": "1",
            "UV_FIND_LINKS": str(self.root / "wheels"),
            "UV_CACHE_DIR": str(self.root / "cache"),
            "UV_LINK_MODE": "copy",
        }
        own = {"PYTHONPATH": str(self.root), "TMPDIR": str(self.root / "tmp"), "TFCNN_UPSTREAM": self.upstream}
        return {**os.environ, **uv, **own, **more}

    def run(self, *arguments: str, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the product to its end."""
        return subprocess.run(
            self.command(*arguments),
            cwd=cwd or self.root,
            env=self.variables(**variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=120,
        )

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """Start a command of the product, as the leader of a group of its own, so that a signal meets it alone."""
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.root,
            env=self.variables(**variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            start_new_session=True,
        )

    def sweep(self, reports: Path, *arguments: str, release: str = OLD) -> tuple[str, ...]:
        """The arguments of a small sweep on the CPU."""
        given = () if release == "" else ("--tensorflow", release)
        small = ("--steps", "5", "--warmup-steps", "1")
        return ("run", *given, "--device", "cpu", "--vendor", str(self.vendor), "--reports", str(reports), *small, *arguments)


def only_report(reports: Path) -> Path:
    """The one report that stands in `reports`."""
    (directory,) = (path for path in reports.iterdir() if path.is_dir())
    return directory


def trials_in(reports: Path) -> tuple[Trial, ...]:
    return read_trials(only_report(reports))


def planned_commands(plan: str) -> list[tuple[int, list[str]]]:
    """The number and the command line of each trial in what a dry run printed."""
    found = re.findall(r"^trials? ([\d, ]+): .*\n      (.+)$", plan, re.MULTILINE)
    return [(int(number), shlex.split(command)) for numbers, command in found for number in numbers.split(", ")]


def alive(pids: list[int]) -> list[int]:
    """Those of these processes that still run; a zombie does not."""
    return [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE]


def wait_until(condition: Callable[[], object], seconds: float = 30.0) -> bool:
    """Whether the condition became true within this time; looked at every 20 ms."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture(scope="session")
def product(tmp_path_factory: pytest.TempPathFactory) -> Product:
    root = tmp_path_factory.mktemp("product")
    shutil.copytree(PROJECT / "wrapper", root / "wrapper", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("tmp", "wheels"):
        (root / name).mkdir()
    (root / "cpuinfo.py").write_text(CPUINFO, encoding="utf-8")
    commits = _make_upstream(root / "upstream")
    _give_own_lock(root)
    _rewrite_table(root / "wrapper" / "data" / "releases.yaml", commits)
    for version in (OLD, NEW):
        lock(root, version)
    compileall.compile_dir(root / "wrapper", quiet=1)  # where PYTHONDONTWRITEBYTECODE is set, each start would do it
    return Product(root=root, commits=commits)


@pytest.fixture(scope="session")
def interpreters(product: Product) -> dict[str, str]:
    """Interpreters that have a fake TensorFlow, by its version: made by the product's own bootstrap."""
    for version in (OLD, NEW):
        made = product.run("bootstrap", "--tensorflow", version, "--device", "cpu", "--vendor", str(product.vendor))
        made.check_returncode()
    programs = "Scripts/python.exe" if sys.platform == "win32" else "bin/python"
    return {version: str(next((product.vendor / "environments").glob(f"{version}-cpu-*")) / programs) for version in (OLD, NEW)}


def _make_upstream(repository: Path) -> dict[str, str]:
    """A repository with a branch for the old release and one for the new; their commits."""
    script = repository / "scripts" / "tf_cnn_benchmarks" / "tf_cnn_benchmarks.py"
    script.parent.mkdir(parents=True)
    shutil.copy(FAKE, script.parent)
    git(repository, "init", "--quiet", "--initial-branch=cnn_tf_v1.12_compatible")
    commits = {}
    for version in (OLD, NEW):
        script.write_text(ENTRY.replace("MINOR", version.rpartition(".")[0]), encoding="utf-8", newline="\n")
        git(repository, "add", ".")
        git(repository, "commit", "--quiet", "--message", f"Benchmark TensorFlow {version}")
        commits[version] = git(repository, "rev-parse", "HEAD")
        git(repository, "switch", "--quiet", "-C", "master")
    return commits


def git(repository: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.invalid")
    return subprocess.run(["git", *identity, *arguments], cwd=repository, capture_output=True, check=True, encoding="utf-8").stdout.strip()


def _give_own_lock(root: Path) -> None:
    """The machine's lock is the same for all, whatever their variables; a sweep of a test neither waits for a real one nor holds it up."""
    module = root / "wrapper" / "runner" / "lock.py"
    own = f"FOLDER = Path({str(root / 'tmp' / 'tfcnn')!r})"
    text, changed = re.subn(r"^FOLDER = .*$", lambda _: own, module.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert changed == 1
    module.write_text(text, encoding="utf-8")


def _rewrite_table(table: Path, commits: dict[str, str]) -> None:
    """All rows as they are, but for commits that the fake upstream has and the one Python that surely is here."""
    content = yaml.safe_load(table.read_text(encoding="utf-8"))
    for row in content["releases"]:
        row.update(python=[MINOR], upstream_commit=commits[OLD if row["tensorflow"].startswith("1.") else NEW])
    table.write_text(yaml.safe_dump(content), encoding="utf-8")


def lock(root: Path, version: str) -> None:
    files = {
        "tensorflow/__init__.py": TENSORFLOW.replace("VERSION", version),
        "tensorflow/python/__init__.py": "",
        "tensorflow/python/client/__init__.py": "",
        "tensorflow/python/client/device_lib.py": DEVICE_LIB,
    }
    wheels = [_make_wheel(root / "wheels", "tensorflow", version, files)]
    if version == NEW:
        wheels.append(_make_wheel(root / "wheels", "tf_keras", version, {"tf_keras/__init__.py": ""}))
    pins = [f"{wheel.name.split('-')[0]}=={version} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n" for wheel in wheels]
    for device in ("cpu", "gpu"):
        (root / "wrapper" / "data" / "locks" / f"{version}-{device}.txt").write_text("".join(pins), encoding="utf-8")


def _make_wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> Path:
    info = f"{name}-{version}.dist-info"
    metadata = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        record = f"{info}/RECORD,,\n"
        for path, text in {**files, **metadata}.items():
            archive.writestr(path, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={digest},{len(text.encode())}\n"
        archive.writestr(f"{info}/RECORD", record)
    return wheel
