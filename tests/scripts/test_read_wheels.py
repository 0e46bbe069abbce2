"""Reading what a wheel holds: fat binaries made by hand to the format's layout, and an unpacked wheel."""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from read_wheels import CODE, PLATFORM_TAGS, PTX, fat_binaries, in_each, in_largest, lock_entry, named_in, read_build, read_gpu_code

Parts = Sequence[tuple[int, int]]
ALL: Parts = [(PTX, 35), (CODE, 35), (CODE, 70)]


def fat_binary(parts: Parts, version: int = 1) -> bytes:
    """Kind and architecture of each part; the contents are of different lengths."""
    body = b""
    for number, (kind, architecture) in enumerate(parts):
        content = bytes(8 * number)
        body += struct.pack("<HHIQIIHHI", kind, 0x101, 64, len(content), 0, 0, 0, 6, architecture) + bytes(32) + content
    return struct.pack("<IHHQ", 0xBA55ED50, version, 16, len(body)) + body


def library(place: Path, *binaries: Parts) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(b"\x7fELF" + b"".join(b"something else" + fat_binary(parts) for parts in binaries) + b"libcudart.so.9.0\0libcudnn.so.7\0")
    return place


def test_each_part_of_each_fat_binary_is_seen(tmp_path: Path) -> None:
    assert fat_binaries(library(tmp_path / "a.so", ALL, [(CODE, 89)])) == [frozenset(ALL), frozenset({(CODE, 89)})]
    assert fat_binaries(library(tmp_path / "b.so")) == []


def test_the_magic_number_alone_is_no_fat_binary(tmp_path: Path) -> None:
    (tmp_path / "a.so").write_bytes(struct.pack("<I", 0xBA55ED50) + b"text" + fat_binary(ALL, version=2))
    assert fat_binaries(tmp_path / "a.so") == []


def test_what_few_fat_binaries_or_a_bundled_library_hold_does_not_count() -> None:
    common, few = frozenset(ALL), frozenset({(CODE, 50)})
    assert in_largest([[common] * 30 + [few]]) == set(ALL)
    assert in_largest([[common] * 3 + [few]]) == {*ALL, (CODE, 50)}
    assert in_largest([[few] * 2, [common] * 3]) == set(ALL)


def test_code_that_one_library_lacks_does_not_count() -> None:
    assert in_each([[frozenset({(CODE, 50)}), frozenset({(CODE, 75)})], [frozenset({(CODE, 75), (CODE, 90)})]]) == {(CODE, 75)}


def test_an_unpacked_wheel(tmp_path: Path) -> None:
    library(tmp_path / "tensorflow/large.so", ALL, ALL)
    library(tmp_path / "tensorflow/small.so.2")
    (tmp_path / "tensorflow/empty.so").touch()
    info = tmp_path / "tensorflow_gpu-1.12.0.dist-info"
    info.mkdir()
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nTag: cp36-cp36m-manylinux1_x86_64\n", encoding="utf-8")
    held = read_gpu_code(tmp_path, in_largest)
    assert (held.wheel, held.code, held.ptx) == ("tensorflow_gpu-1.12.0-cp36-cp36m-manylinux1_x86_64.whl", ("3.5", "7.0"), ("3.5",))


BUILD_INFO, CONFIG = "tensorflow/python/platform/build_info.py", "tensorflow_core/include/cuda/cuda_config.h"
TOLD = {
    "1.5": ({BUILD_INFO: "is_cuda_build = True\n"}, "9.0", "7"),
    "1.15": ({BUILD_INFO: "cuda_version_number = '10'\ncudnn_version_number = '7'\n", CONFIG: '#define TF_CUDA_VERSION "10.0"\n'}, "10.0", "7"),
    "2.21": ({BUILD_INFO: "build_info = OrderedDict([('cuda_version', '12.5.1'), ('cudnn_version', '9')])\n"}, "12.5", "9"),
}


@pytest.mark.parametrize(("files", "cuda", "cudnn"), TOLD.values(), ids=TOLD.keys())
def test_what_it_was_built_for(tmp_path: Path, files: dict[str, str], cuda: str, cudnn: str) -> None:
    library(tmp_path / "tensorflow/large.so", ALL)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_build(tmp_path) == {"cuda": cuda, "cudnn": cudnn}


def test_a_library_that_names_no_cuda_is_no_gpu_wheel(tmp_path: Path) -> None:
    library(tmp_path / "a.so", ALL)
    with pytest.raises(ValueError, match="loads no library"):
        named_in(tmp_path, rb"libcudart\.so\.8")


def test_the_entry_of_a_lock() -> None:
    wanted = "tensorflow-gpu==1.12.0 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb"
    lock = f"# made\ntensorflow==2.1 ; x\n{wanted}\ntermcolor==1.0 \\\n    --hash=sha256:cc\n"
    assert lock_entry(lock, "tensorflow-gpu") == wanted
    assert lock_entry(lock, "tensorflow") == "tensorflow==2.1 ; x"


@pytest.mark.parametrize(
    ("tag", "system"),
    [
        ("manylinux1_x86_64", "linux-x86_64"),
        ("linux_x86_64", "linux-x86_64"),
        ("manylinux_2_27_aarch64", "linux-aarch64"),
        ("macosx_10_11_x86_64", "macos-x86_64"),
        ("macosx_12_0_arm64", "macos-aarch64"),
        ("win_amd64", "windows-x86_64"),
    ],
)
def test_a_platform_tag_is_of_one_system(tag: str, system: str) -> None:
    assert [name for name, pattern in PLATFORM_TAGS.items() if re.search(pattern, f"`{tag}`")] == [system]
