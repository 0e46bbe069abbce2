"""Environments made by the real uv, without a network, from a tiny TensorFlow wheel that is built here."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from wrapper.bootstrapper import environment as room
from wrapper.bootstrapper.environment import find_pythons, make_environment, planned_environment
from wrapper.bootstrapper.inspection import Environment, fit_to_release, look_again, read_diagnosis, use_environment
from wrapper.bootstrapper.making import MARKER, read_marker
from wrapper.bootstrapper.pythons import Interpreter, choose_python, served_by
from wrapper.bootstrapper.release import Release, load_releases, resolve_release
from wrapper.errors import FatalError

MINOR = f"{sys.version_info.major}.{sys.version_info.minor}"
HERE = (Interpreter(path=os.path.realpath(sys._base_executable), version=".".join(map(str, sys.version_info[:3]))),)

GOOD = """
import os
__version__ = "{version}"
class test:
    is_built_with_cuda = staticmethod(lambda: True)
class sysconfig:
    get_build_info = staticmethod(lambda: {{"cuda_version": "9.0"}})
class ConfigProto:
    class gpu_options:
        allow_growth = False
"""
DEVICE_LIB = """
import os, sys
class Device:
    def __init__(self, kind):
        self.device_type, self.name, self.physical_device_desc, self.memory_limit = kind, "/device:%s:0" % kind, "a " + kind, 2**30
def list_local_devices(config):
    assert config.gpu_options.allow_growth
    sys.stderr.write("2018-11-06 10:00:00.000001: E tensorflow/cuda_driver.cc:300] failed call to cuInit: CUDA_ERROR_NO_DEVICE\\n")
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") == "-1" or os.environ.get("FAKE_DRIVER") == "gone"
    return [Device("CPU"), Device("XLA_CPU")] + ([] if hidden else [Device("GPU")])
"""


@dataclasses.dataclass(frozen=True)
class Index:
    """A package index without a network: a folder of wheels, a folder of locks, and a place for environments."""

    wheels: Path
    locks: Path
    vendor: Path
    said: list[str] = dataclasses.field(default_factory=list)

    def add(self, version: str = "1.12.0", *, init: str = GOOD, device_lib: str = DEVICE_LIB, libraries: Sequence[str] = ()) -> Path:
        """Put a TensorFlow on the index."""
        wheel = self.wheels / f"tensorflow-{version}-py3-none-any.whl"
        info = f"tensorflow-{version}.dist-info"
        files = {
            "tensorflow/__init__.py": init.format(version=version) if init is GOOD else init,
            "tensorflow/python/__init__.py": "",
            "tensorflow/python/client/__init__.py": "",
            "tensorflow/python/client/device_lib.py": device_lib,
            **dict.fromkeys(libraries, ""),
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: tensorflow\nVersion: {version}\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = "".join(f"{path},sha256={digest(text)},{len(text.encode())}\n" for path, text in files.items()) + f"{info}/RECORD,,\n"
        with zipfile.ZipFile(wheel, "w") as archive:
            for path, text in {**files, f"{info}/RECORD": record}.items():
                archive.writestr(path, text)
        return wheel

    def lock(self, wheel: Path, *, sha256: str | None = None) -> None:
        """Write the lock of a release that is this one wheel."""
        name, version = wheel.name.split("-")[:2]
        pin = f"{name}=={version} --hash=sha256:{sha256 or hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"
        for device in ("cpu", "gpu"):
            (self.locks / f"{version}-{device}.txt").write_text(pin, encoding="utf-8")

    def make(self, release: Release, device: str = "cpu", *, elsewhere: bool = False) -> Environment:
        return make_environment(release, device, vendor=self.vendor, say=self.said.append, elsewhere=elsewhere, pythons=HERE, locks=self.locks)

    def left(self) -> list[str]:
        """What lies in the folder of environments, without the lock files of processes."""
        folder = self.vendor / "environments"
        return [path.name for path in folder.iterdir() if path.suffix != ".lock"] if folder.exists() else []


def digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def release(version: str = "1.12.0", **changes: object) -> Release:
    row = Release(
        tensorflow=version,
        upstream_commit="0" * 40,
        upstream_ref="test",
        python=(MINOR,),
        package_cpu="tensorflow",
        package_gpu="tensorflow",
        environment={"TF_TEST": "1"},
        cutoff="2018-12-18",
    )
    return msgspec.structs.replace(row, **changes)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    """An index that uv is confined to."""
    wheels, locks = tmp_path / "wheels", tmp_path / "locks"
    wheels.mkdir()
    locks.mkdir()
    (locks / room.BUILD_TOOLS).write_text("", encoding="utf-8")
    for name, value in {"UV_OFFLINE": "1", "UV_NO_INDEX": "1", "UV_FIND_LINKS": str(wheels), "UV_CACHE_DIR": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    return Index(wheels=wheels, locks=locks, vendor=tmp_path / "vendor")


def without_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uv", None)


def test_made_checked_and_used_again(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    index.lock(index.add())
    planned = planned_environment(release(), "cpu", index.vendor, pythons=lambda: HERE, locks=index.locks)
    made = index.make(release())
    assert (planned.kind, planned.path, planned.python, planned.python_version) == ("to be made", made.path, made.python, HERE[0].version)
    assert (made.kind, made.tensorflow, made.cuda_built, made.variables) == ("locked", "1.12.0", "9.0", {"TF_TEST": "1"})
    assert made.packages == {"tensorflow": "1.12.0"}
    assert [device.kind for device in made.devices] == ["CPU"]
    assert (made.devices[0].memory_bytes, made.devices[0].description) == (2**30, "a CPU")
    assert re.fullmatch(rf"1\.12\.0-cpu-py{re.escape(MINOR)}-[0-9a-f]{{10}}", Path(made.path).name)
    assert list(Path(made.path).rglob("tensorflow/__pycache__/__init__.*.pyc")), "trials would compile it again and again"

    without_uv(monkeypatch)
    start = time.monotonic()
    again = make_environment(release(), "cpu", vendor=index.vendor, say=index.said.append, locks=index.locks)
    assert time.monotonic() - start < 0.2
    assert again == made
    assert planned_environment(release(), "cpu", index.vendor, pythons=lambda: (), locks=index.locks) == made


def test_a_tensorflow_before_1_8_lists_its_devices_without_a_configuration(index: Index) -> None:
    early = DEVICE_LIB.replace("list_local_devices(config)", "list_local_devices()").replace("    assert config.gpu_options.allow_growth\n", "")
    index.lock(index.add("1.5.0", device_lib=early))
    assert [device.kind for device in index.make(release("1.5.0"), "gpu").devices] == ["CPU", "GPU"]


def test_another_row_or_lock_is_another_environment(index: Index) -> None:
    wheel = index.add()
    index.lock(wheel)
    first = index.make(release())
    (index.locks / "1.12.0-cpu.txt").write_text("# changed\n" + (index.locks / "1.12.0-cpu.txt").read_text(encoding="utf-8"), encoding="utf-8")
    second = index.make(release())
    third = index.make(release(environment={}))
    assert len({first.path, second.path, third.path}) == 3
    assert index.make(release(environment={}, note="a remark does not matter")).path == third.path


def test_gpus_are_hidden_from_a_cpu_environment_and_asked_again_for_a_gpu_one(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    index.lock(index.add())
    first = index.make(release(), "gpu")
    assert [device.kind for device in first.devices] == ["CPU", "GPU"]
    assert first.diagnosis == ("failed call to cuInit: CUDA_ERROR_NO_DEVICE",)
    assert index.make(release(), "cpu").diagnosis == ()
    monkeypatch.setenv("FAKE_DRIVER", "gone")
    assert [device.kind for device in look_again(first).devices] == ["CPU"]


def test_an_environment_of_ours_that_no_longer_imports_names_the_directory_to_delete(index: Index) -> None:
    """Where every file is there, something else is wrong, and GBs are not fetched again without being asked."""
    index.lock(index.add())
    made = index.make(release())
    (file,) = Path(made.path).rglob("tensorflow/__init__.py")
    file.write_text("raise ImportError('broken')".ljust(file.stat().st_size), encoding="utf-8")
    os.utime(file, (0, 0))  # within the same second Python would believe its byte code
    assert index.make(release()) == made
    with pytest.raises(FatalError, match="ImportError: broken") as caught:
        look_again(made)
    assert f"delete {made.path}" in caught.value.remedy


@pytest.mark.parametrize("damage", ["no marker", "a marker cut short", "no interpreter", "a file deleted", "a file cut short"])
def test_a_half_made_or_damaged_environment_is_said_and_made_again(index: Index, damage: str) -> None:
    index.lock(index.add())
    made = index.make(release())
    path = Path(made.path)
    (path / "rubbish").touch()
    if damage == "no marker":
        (path / MARKER).unlink()
    elif damage == "a marker cut short":
        (path / MARKER).write_bytes((path / MARKER).read_bytes()[:-20])
    elif damage == "no interpreter":
        Path(made.python).unlink()
    else:
        (library,) = path.rglob("device_lib.py")
        library.unlink()  # not written over: uv links files to its cache
        if damage == "a file cut short":
            library.touch()
    assert index.make(release()) == made
    assert not (path / "rubbish").exists()
    (said,) = [line for line in index.said if line.startswith(f"{path} is made again: ")]
    assert ("1 files of its packages are gone or cut short, such as tensorflow" in said) == ("file" in damage)


def test_a_damaged_cache_is_named(index: Index) -> None:
    index.lock(index.add())
    made = Path(index.make(release()).path)
    (library,) = made.rglob("device_lib.py")
    if library.stat().st_nlink == 1:
        pytest.skip("uv copies here")
    library.write_text("written over", encoding="utf-8")
    with pytest.raises(FatalError, match="damaged as it was installed: 1 files") as caught:
        index.make(release())
    assert "uv cache clean" in caught.value.remedy
    assert index.left() == [made.name]


def test_a_damaged_environment_that_cannot_be_made_again_is_kept(index: Index) -> None:
    """Without a network, the few files that it lost may be had from another copy; a half-made one is of no use."""
    wheel = index.add()
    index.lock(wheel)
    made = index.make(release())
    (library,) = Path(made.path).rglob("device_lib.py")
    content = library.read_bytes()
    library.unlink()
    wheel.unlink()
    shutil.rmtree(index.vendor.with_name("cache"))
    with pytest.raises(FatalError, match="while installing TensorFlow"):
        index.make(release())
    assert index.left() == [Path(made.path).name]
    library.write_bytes(content)
    assert index.make(release()) == made
    (Path(made.path) / MARKER).unlink()
    with pytest.raises(FatalError, match="while installing TensorFlow"):
        index.make(release())
    assert index.left() == []


def aside(made: Environment) -> Path:
    return Path(made.path).with_name(f".{Path(made.path).name}.damaged")


@pytest.mark.parametrize("harm", ["its Python is not on this machine", "a marker of another version", "a marker cut short"])
def test_what_may_be_whole_is_kept_where_it_cannot_be_made_again(index: Index, harm: str) -> None:
    wheel = index.add()
    index.lock(wheel)
    made = index.make(release())
    marker = Path(made.path) / MARKER
    if harm.startswith("its"):
        Path(made.python).unlink()
        Path(made.python).symlink_to(index.wheels / "no-python")
    elif harm.endswith("short"):
        marker.write_bytes(marker.read_bytes()[:100])
    else:
        marker.write_bytes(marker.read_bytes().replace(b'"python_version"', b'"version"'))
    wheel.unlink()
    shutil.rmtree(index.vendor.with_name("cache"))
    with pytest.raises(FatalError, match="while installing TensorFlow"):
        index.make(release())
    assert index.left() == [Path(made.path).name]


@pytest.mark.parametrize("killed", ["before the first file", "while it was filled", "before the old one was removed"])
def test_a_start_that_was_killed_while_it_made_one_again_loses_nothing(index: Index, killed: str) -> None:
    wheel = index.add()
    index.lock(wheel)
    made = index.make(release())
    (library,) = Path(made.path).rglob("device_lib.py")
    library.unlink()
    Path(made.path).rename(aside(made))
    if killed == "before the old one was removed":
        assert index.make(release(), "cpu") == made
        shutil.copytree(made.path, aside(made), symlinks=True)
    elif killed == "while it was filled":
        (Path(made.path) / "bin").mkdir(parents=True)
    else:
        wheel.unlink()
        shutil.rmtree(index.vendor.with_name("cache"))
        with pytest.raises(FatalError, match="while installing TensorFlow"):
            index.make(release())
        assert index.left() == [Path(made.path).name]
        return
    assert index.make(release()) == made
    assert index.left() == [Path(made.path).name]


@pytest.mark.parametrize("record", [b"\xff\xfe\n", b'"' + b"x" * 140_000 + b'",sha256=,3\n', "a.py,sha256=,\u00b2\n".encode(), None])
def test_a_record_that_cannot_be_read_is_damage(index: Index, record: bytes | None) -> None:
    index.lock(index.add())
    made = index.make(release())
    (file,) = Path(made.path).rglob("RECORD")
    file.unlink()
    if record is None:
        file.mkdir()
    else:
        file.write_bytes(record)
    assert index.make(release()) == made


def test_the_warnings_of_an_installer_that_failed_are_not_its_reason(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = index.add()
    index.lock(wheel)
    wheel.unlink()
    monkeypatch.setenv("UV_NATIVE_TLS", "1")  # which uv calls deprecated
    with pytest.raises(FatalError, match="while installing TensorFlow") as caught:
        index.make(release())
    assert "UV_NATIVE_TLS" not in caught.value.what


SEES = DEVICE_LIB.replace("hidden = ", 'hidden = "nvidia/cusolver/lib" not in os.environ.get("LD_LIBRARY_PATH", "") or ')


@pytest.mark.skipif(sys.platform != "linux", reason="on Windows no TensorFlow takes CUDA from packages")
def test_tensorflow_is_told_where_the_packages_hold_their_cuda(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of an environment that was made before it was told, and where it was moved to."""
    index.lock(index.add(device_lib=SEES, libraries=["nvidia/cudnn/lib/libcudnn.so.9", "nvidia/cusolver/lib/libcusolver.so.11", "nvidia/notes.txt"]))
    monkeypatch.setenv("LD_LIBRARY_PATH", "/of/the/user")
    made = index.make(release(), "gpu")
    assert [device.kind for device in made.devices] == ["CPU", "GPU"]
    packages = next(Path(made.path).glob("lib/python*/site-packages"))
    assert made.variables == {"TF_TEST": "1", "LD_LIBRARY_PATH": f"{packages}/nvidia/cudnn/lib:{packages}/nvidia/cusolver/lib:/of/the/user"}

    given = use_environment(made.python, device="gpu")
    assert [device.kind for device in given.devices] == ["CPU", "GPU"]
    assert given.variables == {"LD_LIBRARY_PATH": f"/of/the/user:{packages}/nvidia/cudnn/lib:{packages}/nvidia/cusolver/lib"}

    marker = Path(made.path) / MARKER
    marker.write_bytes(msgspec.json.encode(msgspec.structs.replace(made, variables={"TF_TEST": "1"})))
    moved = dataclasses.replace(index, vendor=index.vendor.rename(index.vendor.with_name("moved")))
    monkeypatch.delenv("LD_LIBRARY_PATH")
    again = moved.make(release(), "gpu")
    assert again.variables["LD_LIBRARY_PATH"].count(f"{moved.vendor}/") == 2 == len(again.variables["LD_LIBRARY_PATH"].split(":"))
    assert [device.kind for device in look_again(again).devices] == ["CPU", "GPU"]


def test_a_moved_vendor_is_used_where_it_lies_now(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    index.lock(index.add())
    made = index.make(release(), "gpu")
    moved = dataclasses.replace(index, vendor=index.vendor.rename(index.vendor.with_name("moved vendor")))
    without_uv(monkeypatch)
    again = moved.make(release(), "gpu")
    assert Path(again.path) == moved.vendor / "environments" / Path(made.path).name
    assert look_again(again) == again == msgspec.structs.replace(made, path=again.path, python=again.python)


NEEDS_CUDA = """
import os
if "FAKE_CUDA" not in os.environ:
    raise ImportError("LIBRARY: cannot open shared object file: No such file or directory")
""" + GOOD.format(version="1.12.0")


@pytest.mark.parametrize("library", ["libcublas.so.9.0", "libcuda.so.1", "libcudnn.so.7", "libnccl.so.2"])
def test_what_is_made_for_the_gpu_of_another_machine_need_not_import_on_this_one(index: Index, monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    index.lock(index.add(init=NEEDS_CUDA.replace("LIBRARY", library)))
    with pytest.raises(FatalError, match=library):
        index.make(release(), "gpu")
    made = index.make(release(), "gpu", elsewhere=True)
    assert (made.tensorflow, made.devices, made.packages) == ("1.12.0", (), {})
    assert any(f"{library}: cannot open shared object file" in line and "it is imported there" in line for line in index.said)
    assert index.make(release(), "gpu") == made, "on the other machine, without making it again"
    with pytest.raises(FatalError, match=library):
        look_again(made)
    monkeypatch.setenv("FAKE_CUDA", "here")
    seen = look_again(made)
    assert [device.kind for device in seen.devices] == ["CPU", "GPU"] and seen.packages["tensorflow"] == "1.12.0" and seen.cuda_built


def test_what_is_made_for_another_machine_is_refused_where_something_else_is_wrong(index: Index) -> None:
    index.lock(index.add(init=NEEDS_CUDA.replace("LIBRARY", "libstdc++.so.6")))
    with pytest.raises(FatalError, match="libstdc"):
        index.make(release(), "gpu", elsewhere=True)
    assert index.left() == []


def test_a_conda_environment_that_was_moved_is_not_used(index: Index) -> None:
    index.lock(index.add())
    made = index.make(release())
    (Path(made.path) / MARKER).write_bytes(msgspec.json.encode(msgspec.structs.replace(made, kind="conda")))
    assert read_marker(Path(made.path)) is not None
    assert read_marker(Path(made.path).rename(index.vendor / "moved")) is None


def test_another_file_than_the_locked_one_is_refused(index: Index) -> None:
    index.lock(index.add(), sha256="0" * 64)
    with pytest.raises(FatalError, match="not what the lock says while installing TensorFlow"):
        index.make(release())
    assert index.left() == []


@pytest.mark.parametrize(
    ("init", "said"),
    [
        ("raise ImportError('libcublas.so.9.0: cannot open shared object file')", "does not import: ImportError: libcublas.so.9.0: cannot open"),
        ("import numpy_of_the_past", "does not import: ModuleNotFoundError: No module named 'numpy_of_the_past'"),
        ("raise TypeError('Descriptors cannot be created directly.\\nIf this call came')", "TypeError: Descriptors cannot"),
        ("import os\nos._exit(3)", "exit code 3 and without a message"),
        ("__version__ = '1.12.0'", "has no attribute 'test'"),
    ],
)
def test_a_tensorflow_that_does_not_import_is_quoted_and_leaves_nothing(index: Index, init: str, said: str) -> None:
    index.lock(index.add(init=init))
    with pytest.raises(FatalError, match=said):
        index.make(release())
    assert index.left() == []


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_processor_without_avx_is_named(index: Index) -> None:
    index.lock(index.add(init="import os, signal\nos.kill(os.getpid(), signal.SIGILL)"))
    with pytest.raises(FatalError, match="AVX"):
        index.make(release())


def test_without_network_and_cache(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    index.lock(index.add())
    monkeypatch.delenv("UV_NO_INDEX")
    monkeypatch.delenv("UV_FIND_LINKS")
    with pytest.raises(FatalError, match="can't be fetched while installing") as caught:
        index.make(release())
    assert all(way in caught.value.remedy for way in ("UV_DEFAULT_INDEX", "--python", "--demo"))
    assert index.left() == []


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_full_disk_is_named(index: Index) -> None:
    index.lock(index.add(init=GOOD.format(version="1.12.0") + "\n#" + "x" * 2_000_000))
    index.vendor.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(index.vendor)], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let root mount")
    try:
        with pytest.raises(FatalError, match="disk is full"):
            index.make(release())
        assert index.left() == []
    finally:
        subprocess.run(["umount", str(index.vendor)], check=True)


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root may mount")
@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_a_made_environment_is_used_where_nothing_can_be_written(index: Index, device: str) -> None:
    index.lock(index.add())
    made = index.make(release(), device)
    folder = str(index.vendor)
    if subprocess.run(["mount", "--bind", folder, folder], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let root mount")
    try:
        for lock in (index.vendor / "environments").glob(".*.lock"):
            lock.unlink()
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
        with pytest.raises(OSError, match="Read-only"):
            (index.vendor / "x").touch()
        assert index.make(release(), device) == made
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_vendor_that_is_no_directory(index: Index) -> None:
    index.lock(index.add())
    index.vendor.touch()
    with pytest.raises(FatalError, match="can't be made"):
        index.make(release())


def test_two_at_once_make_it_once(index: Index) -> None:
    index.lock(index.add())
    script = f"""
import sys
from pathlib import Path
import msgspec
from wrapper.bootstrapper.pythons import Interpreter
from wrapper.bootstrapper.environment import make_environment
from wrapper.bootstrapper.release import Release
release = msgspec.json.decode({msgspec.json.encode(release())!r}, type=Release)
python = Interpreter(path={HERE[0].path!r}, version={HERE[0].version!r})
made = make_environment(release, "cpu", vendor=Path({str(index.vendor)!r}), say=print, pythons=[python], locks=Path({str(index.locks)!r}))
print("path", made.path)
"""
    both = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [each.communicate(timeout=60)[0].splitlines() for each in both]
    assert [each.returncode for each in both] == [0, 0]
    assert len({output[-1] for output in outputs}) == 1
    assert sum(line.startswith("making the environment") for output in outputs for line in output) == 1


def test_a_patch_without_a_lock_is_resolved_by_date(index: Index) -> None:
    index.add("1.12.2")
    made = index.make(release("1.12.2", verified=False))
    assert made.tensorflow == "1.12.2"


def test_a_missing_python_names_what_would_do_and_how_to_get_it(index: Index) -> None:
    index.lock(index.add())
    old = release(python=("3.6", "3.5"))
    for attempt in (lambda: index.make(old), lambda: planned_environment(old, "cpu", index.vendor, pythons=lambda: HERE, locks=index.locks)):
        with pytest.raises(FatalError) as caught:
            attempt()
        assert "needs Python 3.6 or 3.5" in caught.value.what
        assert HERE[0].version in caught.value.what
        assert all(way in caught.value.remedy for way in ("pyenv install 3.6", "conda create", "python.org", "py launcher", "--python PATH"))
        assert "uv python install" not in caught.value.remedy, "uv has no 3.6"


def test_choice_of_python() -> None:
    found = [Interpreter(path=version, version=version) for version in ("3.13.0", "3.9.2", "3.9.18", "3.7.1")]
    assert choose_python(release(python=("3.9", "3.13")), found).version == "3.9.18"
    assert choose_python(release(python=("3.8", "3.13")), found).version == "3.13.0"
    releases = load_releases()
    assert served_by(found, releases)[-1].tensorflow == releases[-1].tensorflow
    assert served_by(found[1:], releases)[-1].tensorflow == "2.20.0"
    assert served_by(found[3:], releases)[-1].tensorflow == "2.10.1"
    with pytest.raises(FatalError, match="no known TensorFlow release runs on this machine's Pythons"):
        served_by([Interpreter(path="x", version="3.99.0")], releases)


@pytest.mark.skipif(sys.platform == "win32", reason="pyenv's shims are shell scripts")
def test_pythons_behind_shims_and_in_conda_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    behind, shims, conda = tmp_path / "pyenv/versions/some/bin", tmp_path / "pyenv/shims", tmp_path / "conda/envs/old"
    for folder in (behind, shims, conda / "bin", tmp_path / ".conda"):
        folder.mkdir(parents=True)
    shim = shims / f"python{MINOR}"
    shim.write_text("#!/bin/sh\nexit 127\n", encoding="utf-8")
    shim.chmod(0o755)
    (behind / f"python{MINOR}").symlink_to(HERE[0].path)
    (tmp_path / ".conda/environments.txt").write_text(f"{conda}\n", encoding="utf-8")
    for name, value in {"PATH": str(shims), "PYENV_ROOT": str(tmp_path / "pyenv"), "HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    assert [python.path for python in find_pythons()] == [HERE[0].path]
    (behind / f"python{MINOR}").rename(conda / "bin" / f"python{MINOR}")
    assert [python.path for python in find_pythons()] == [HERE[0].path]


def given(index: Index, **wheel: str) -> Path:
    """An environment that a user made, as far as we know it: one of ours, found by its interpreter."""
    index.lock(index.add(**wheel))
    return Path(index.make(release()).python)


def test_a_given_environment_by_path_directory_and_command(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    python = given(index)
    before = sorted(python.parents[1].rglob("*"))
    command = python.parent / ("my-python.exe" if sys.platform == "win32" else "my-python")
    shutil.copy(python, command, follow_symlinks=False)
    monkeypatch.setenv("PATH", f"{python.parent}{os.pathsep}{os.environ['PATH']}")
    without_uv(monkeypatch)
    for name in (str(python), str(python.parents[1]), "my-python"):
        environment = use_environment(name, device="cpu")
        assert (environment.kind, environment.tensorflow, environment.path) == ("given", "1.12.0", str(python.parents[1]))
        assert Path(environment.python).parent == python.parent
    command.unlink()
    assert sorted(python.parents[1].rglob("*")) == before, "something was written into it"


def test_pythonpath_reaches_a_given_environment_but_not_a_locked_one(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "module" / "tensorflow"
    module.mkdir(parents=True)
    (module / "__init__.py").write_text("raise ImportError('the one of the module system')", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(module.parent))
    python = given(index)
    with pytest.raises(FatalError, match="the one of the module system"):
        use_environment(str(python), device="cpu")


def test_a_folder_named_tensorflow_in_the_current_directory_is_not_imported(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "work" / "tensorflow"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise ImportError('a clone')", encoding="utf-8")
    (folder.parent / "pyproject.toml").write_text('[tool.uv]\nrequired-version = "<0.1"\n', encoding="utf-8")
    monkeypatch.chdir(folder.parent)
    assert use_environment(str(given(index)), device="cpu").tensorflow == "1.12.0"


def test_not_a_python(tmp_path: Path) -> None:
    with pytest.raises(FatalError, match="there is no interpreter at"):
        use_environment(str(tmp_path / "absent"), device="cpu")
    with pytest.raises(FatalError, match="there is no interpreter at"):
        use_environment(str(tmp_path), device="cpu")
    other = shutil.which("git")
    assert other
    with pytest.raises(FatalError, match="is not a Python interpreter"):
        use_environment(other, device="cpu")
    text = tmp_path / "notes.txt"
    text.touch()
    with pytest.raises(FatalError, match="cannot start"):
        use_environment(str(text), device="cpu")


def test_a_python_without_tensorflow() -> None:
    with pytest.raises(FatalError, match="has no TensorFlow"):
        use_environment(sys.executable, device="cpu")


def test_keras_that_upstream_needs() -> None:
    newest = resolve_release("2.21.0", load_releases())
    environment = Environment(kind="given", path="/e", python="/e/bin/python", python_version="3.12.1", tensorflow="2.21.0")
    with pytest.raises(FatalError, match=re.escape("tf-keras==2.21.*")):
        fit_to_release(environment, newest)
    with_keras = msgspec.structs.replace(environment, packages={"tf_keras": "2.21.0"})
    assert fit_to_release(with_keras, newest).variables == {"TF_USE_LEGACY_KERAS": "1"}
    assert fit_to_release(environment, resolve_release("2.8.4", load_releases())).variables == {}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "2021-11-30 19:58:27.594453: I tensorflow/stream_executor/cuda/cuda_diagnostics.cc:156] "
            "kernel driver does not appear to be running on this host (vm): /proc/driver/nvidia/version does not exist",
            "kernel driver does not appear to be running on this host (vm): /proc/driver/nvidia/version does not exist",
        ),
        (
            "E0000 00:00:1796069738.103077     964 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA_ERROR_NO_DEVICE: no device",
            "failed call to cuInit: INTERNAL: CUDA_ERROR_NO_DEVICE: no device",
        ),
        (
            "2020-01-01 19:54:46.313151: W tensorflow/stream_executor/platform/default/dso_loader.cc:55] "
            "Could not load dynamic library 'libcudart.so.10.1'; dlerror: libcudart.so.10.1: cannot open shared object file",
            "Could not load dynamic library 'libcudart.so.10.1'; dlerror: libcudart.so.10.1: cannot open shared object file",
        ),
        (
            "2020-01-01 19:54:46.313151: W tensorflow/stream_executor/platform/default/dso_loader.cc:55] "
            "Could not load dynamic library 'libnvinfer.so.6'; dlerror: libnvinfer.so.6: cannot open shared object file",
            None,
        ),
        (
            "I0000 00:00:1796068714.685731    3316 cpu_feature_guard.cc:227] This TensorFlow binary is optimized",
            None,
        ),
    ],
)
def test_diagnosis(line: str, said: str | None) -> None:
    assert read_diagnosis(f"noise\n{line}\n{line}\n") == (() if said is None else (said,))
