"""Read what the GPU wheels of each release hold: `python scripts/read_wheels.py [RELEASE ...] [--again]`.

Each wheel is that of the release's lock for Linux on x86-64, by its hash. One at a time is fetched from the index that uv is configured with,
unpacked into a scratch folder (up to 3 GB), read and deleted. What was read is written into wrapper/data/wheels.yaml after each release; rows that
were read from the same versions are left out the next time.

CUDA and cuDNN come from TensorFlow's build_info.py or cuda_config.h where they say it, else from the names of the libraries that it loads. The GPU
code comes from the headers of the fat binaries in the libraries: NVIDIA's own cuobjdump of CUDA 12 and later refuses the code of older releases.
"""

from __future__ import annotations

import argparse
import mmap
import re
import struct
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from wrapper.bootstrapper.environment import LOCKS, run_uv
from wrapper.bootstrapper.release import Release, load_releases, resolve_release
from wrapper.bootstrapper.wheels import WHEELS, GpuCode, Wheel, WheelTable, load_wheels
from wrapper.errors import FatalError
from wrapper.shipped import write_table

HEADER = """\
# What the wheels of each release's GPU package hold, for Linux on x86-64: written by scripts/read_wheels.py, which says how it reads them.
#   tensorflow     the row of releases.yaml
#   read           the day, UTC
#   cuda, cudnn    what TensorFlow was built for, by its own build information, and the major version of cuDNN that it loads
#   own            TensorFlow's code for GPUs, by compute capability, and ptx, which the driver compiles for newer GPUs, in the file called wheel
#   locked_cudnn   the same of the cuDNN in the lock, where the lock holds one: what is lower than its lowest code is cuDNN's limit
#   systems        for which the packages for the CPU (cpu) and the GPU (gpu) have wheels, by the package index
"""
FAT_BINARY = re.compile(re.escape(struct.pack("<IHH", 0xBA55ED50, 1, 16)))
"""Magic number, version, and size of the header, which ends with the size of what follows (`fatBinaryHeader` in CUDA's fatbinary.h)."""
ENTRY = struct.Struct("<HHIQIIHHI")
"""Kind, version, sizes of header and of content, compressed size, options, minor and major version, architecture."""
PLATFORM_TAGS = {
    "linux-x86_64": r"linux\w*_x86_64",
    "linux-aarch64": r"linux\w*_aarch64",
    "windows-x86_64": r"win_amd64",
    "macos-x86_64": r"macosx\w+_x86_64",
    "macos-aarch64": r"macosx\w+_arm64",
}
"""Systems as `this_system` names them, and the tags of their wheels."""
PTX, CODE = 1, 2
LEAST_SHARE = 0.05
"""What fewer of TensorFlow's fat binaries hold is the code of a few kernels."""

Part = tuple[int, int]
"""PTX or code, and its architecture, such as 89."""
Libraries = list[list[frozenset[Part]]]
"""The fat binaries of each library."""


def read_release(release: Release) -> Wheel:
    """Fetch and read the wheels of a release.

    Raises:
        FatalError: one can't be fetched.
        ValueError: a wheel that does not hold what every GPU wheel holds.
    """
    tensorflow = re.sub(r"\[.*", "", release.package_gpu)
    with tempfile.TemporaryDirectory(prefix="tfcnn-wheel-") as folder:
        fetch(release, tensorflow, Path(folder))
        built = read_build(Path(folder))
        own = read_gpu_code(Path(folder), in_largest)
    locked = None
    if name := locked_cudnn(release):
        with tempfile.TemporaryDirectory(prefix="tfcnn-wheel-") as folder:
            fetch(release, name, Path(folder))
            locked = read_gpu_code(Path(folder), in_each)
    systems = {device: read_systems(release, device) for device in ("cpu", "gpu")}
    return Wheel(tensorflow=release.tensorflow, read=datetime.now(UTC).date().isoformat(), own=own, locked_cudnn=locked, systems=systems, **built)


def read_systems(release: Release, device: str) -> tuple[str, ...]:
    """The systems for which the release's package for a device has wheels, by what uv says when it is asked for one that has none.

    Raises:
        FatalError: the index does not answer.
    """
    requirement = f"{release.package(device)}=={release.tensorflow}"
    with tempfile.TemporaryDirectory(prefix="tfcnn-wheel-") as folder:
        wanted = Path(folder) / "wanted.in"
        wanted.write_text(f"{requirement}\n", encoding="utf-8")
        how = ["--no-deps", "--only-binary=:all:", "--python-platform=riscv64-unknown-linux", f"--python-version={release.python[0]}"]
        told = " ".join(run_uv(["pip", "compile", *how, str(wanted)]).stderr.split())
    listed = re.search(r"on the following platforms?: (.*)", told)
    if not listed:
        raise FatalError(f"the index can't be asked for {requirement}: {told}", "Mend that")
    return tuple(system for system, tag in PLATFORM_TAGS.items() if re.search(tag, listed[1]))


def fetch(release: Release, name: str, folder: Path) -> None:
    """Unpack the wheel of one package of a release's lock."""
    wanted = folder / "wanted.txt"
    wanted.write_text(lock_entry(lock_text(release), name), encoding="utf-8")
    platform = [f"--python-version={release.python[0]}", "--python-platform=x86_64-manylinux_2_28", "--only-binary=:all:"]
    how = ["--no-cache", "--no-deps", "--require-hashes", *platform, f"--target={folder}", f"--requirements={wanted}"]
    captured = run_uv(["pip", "install", *how])
    if captured.exit_code != 0:
        raise FatalError(f"the wheel of {name} for TensorFlow {release.tensorflow} can't be fetched: {captured.stderr.strip()}", "Mend that")


def lock_text(release: Release) -> str:
    return (LOCKS / f"{release.tensorflow}-gpu.txt").read_text(encoding="utf-8")


def lock_entry(lock: str, name: str) -> str:
    """The requirement of a package with its hashes, as it stands in a lock."""
    (entry,) = re.findall(rf"^{name}==.*(?:\n .*)*", lock, re.MULTILINE)
    return str(entry)


def locked_cudnn(release: Release) -> str | None:
    """The name of cuDNN's package in a release's lock."""
    found = re.search(r"^nvidia-cudnn-cu\d+(?===)", lock_text(release), re.MULTILINE)
    return found[0] if found else None


def read_build(folder: Path) -> dict[str, str]:
    """The CUDA version and the major version of cuDNN that an unpacked TensorFlow is for."""
    files = [path for name in ("build_info.py", "cuda_config.h") for path in sorted(folder.rglob(name))]
    told = "\n".join(path.read_text(encoding="utf-8") for path in files)
    built = {}
    for name, library, digits in (("cuda", rb"libcudart\.so\.(\d+\.\d+)", r"\d+\.\d+"), ("cudnn", rb"libcudnn\.so\.(\d+)", r"\d+")):
        version = re.search(rf"{name}_version(?:_number)?\W+({digits})", told, re.IGNORECASE)
        built[name] = version[1] if version else named_in(folder, library)
    return built


def named_in(folder: Path, library: bytes) -> str:
    """The version in the name of a library that TensorFlow's largest one loads."""
    largest = max(folder.rglob("*.so*"), key=lambda path: path.stat().st_size)
    with largest.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        found = re.search(library, content)
        if not found:
            raise ValueError(f"{largest.name} loads no library like {library!r}")
        return str(found[1], "ascii")


def read_gpu_code(folder: Path, select: Callable[[Libraries], set[Part]]) -> GpuCode:
    """What the libraries of an unpacked wheel hold, as far as it counts."""
    files = [path for path in sorted(folder.rglob("*.so*")) if path.is_file() and path.stat().st_size]
    kept = select([binaries for path in files if (binaries := fat_binaries(path))])
    return GpuCode(wheel=wheel_name(folder), code=capabilities(kept, CODE), ptx=capabilities(kept, PTX))


def in_largest(libraries: Libraries) -> set[Part]:
    """What a good share of the fat binaries holds in the library that has most of them; TensorFlow's wheels bundle others, such as TensorRT."""
    library = max(libraries, key=len)
    holders = Counter(part for binary in library for part in binary)
    return {part for part, number in holders.items() if number >= LEAST_SHARE * len(library)}


def in_each(libraries: Libraries) -> set[Part]:
    """What each library has some of: without one of them the others are of no use. Many fat binaries are for one architecture alone."""
    return set.intersection(*({part for binary in library for part in binary} for library in libraries))


def fat_binaries(path: Path) -> list[frozenset[Part]]:
    """What each fat binary in a file holds: code or PTX, and for which architecture."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return [frozenset(entries(content, match.end())) for match in FAT_BINARY.finditer(content)]


def entries(content: mmap.mmap, at: int) -> Iterator[Part]:
    """The parts of a fat binary.

    Args:
        at: where the header's last field is, the size of the parts together.
    """
    (size,) = struct.unpack_from("<Q", content, at)
    at += 8
    end = at + size
    while at < end:
        kind, _, header, length, *_, architecture = ENTRY.unpack_from(content, at)
        yield kind, architecture
        at += header + length


def capabilities(kept: set[Part], wanted: int) -> tuple[str, ...]:
    """Such as "8.9" for 89, lowest first."""
    return tuple(f"{number // 10}.{number % 10}" for kind, number in sorted(kept) if kind == wanted)


def wheel_name(folder: Path) -> str:
    """The name of the file that was unpacked there, with the first of its tags."""
    (info,) = folder.glob("*.dist-info")
    tag = re.search(r"^Tag: (\S+)", (info / "WHEEL").read_text(encoding="utf-8"), re.MULTILINE)
    return f"{info.name.removesuffix('.dist-info')}-{tag[1] if tag else 'unknown'}.whl"


def is_current(wheel: Wheel | None, release: Release) -> bool:
    """Whether what was read is of the lock's versions."""
    if not wheel:
        return False
    name = locked_cudnn(release)
    version = re.search(r"==(\S+)", lock_entry(lock_text(release), name)) if name else None
    return (version[1] if version else None) == (wheel.locked_cudnn.version if wheel.locked_cudnn else None)


def save(wheels: Mapping[str, Wheel]) -> None:
    """Write the table whole, in the order of the releases, or leave the file as it was."""
    write_table(WHEELS, HEADER, WheelTable(tuple(wheels[release.tensorflow] for release in load_releases() if release.tensorflow in wheels)))


def main() -> None:
    """Read the releases that the command line names, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("releases", nargs="*", metavar="RELEASE", help="such as 1.12.0; all where none is named")
    parser.add_argument("--again", action="store_true", help="read also what was read before")
    options = parser.parse_args()
    table = load_releases()
    try:
        for release in [resolve_release(name, table) for name in options.releases] or table:
            if options.again or not is_current(load_wheels().get(release.tensorflow), release):
                wheel = read_release(release)
                save(load_wheels() | {release.tensorflow: wheel})
                print(
                    f"{release.tensorflow}: CUDA {wheel.cuda}, code {' '.join(wheel.own.code)}, PTX {' '.join(wheel.own.ptx) or 'none'}", flush=True
                )
    except FatalError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
