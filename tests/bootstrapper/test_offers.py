"""Which releases a machine can run, and what the others lack: Pythons and GPUs as values, the committed tables as they are."""

from __future__ import annotations

import io
import json

import msgspec
import pytest
from rich.console import Console

from wrapper.bootstrapper.host import Gpu
from wrapper.bootstrapper.offers import Here, Offer, list_offers
from wrapper.bootstrapper.proven import NO_ENVIRONMENT, OK, OUTDATED, Outcome, Proof
from wrapper.bootstrapper.pythons import Interpreter
from wrapper.bootstrapper.release import Release, load_releases
from wrapper.views import releases_json, releases_parts

MODELS = ("trivial", "vgg16", "ssd300")
PYTHONS = (Interpreter(path="x", version="3.11.7"), Interpreter(path="y", version="3.6.15"))
LINUX = Here(pythons=PYTHONS, system="linux-x86_64")


def offers(*gpus: Gpu, proof: Proof | None = None, **changes: object) -> dict[str, Offer]:
    here = msgspec.structs.replace(LINUX, **({"gpus": gpus, "cuda_served": "12.8"} | changes))
    proofs = {proof.tensorflow: proof} if proof else {}
    return {offer.release.tensorflow: offer for offer in list_offers(load_releases(), here, proofs, MODELS)}


def gpu(capability: str) -> Gpu:
    return Gpu(index=0, name="GPU", compute_capability=capability)


def shown(found: dict[str, Offer], width: int) -> list[str]:
    printed = io.StringIO()
    Console(file=printed, width=width).print(*releases_parts(list(found.values())), sep="\n", soft_wrap=True, markup=False)
    return printed.getvalue().splitlines()


def test_without_a_gpu_python_decides() -> None:
    found = offers()
    assert (found["1.12.0"].python, found["1.12.0"].device, found["1.12.0"].missing) == ("3.6", "cpu", ())
    assert (found["2.3.4"].python, found["2.3.4"].device) == ("3.6", "cpu")
    newest = offers(pythons=(Interpreter(path="x", version="3.7.1"),))["2.21.0"]
    assert (newest.python, newest.device, newest.missing) == ("", "", ("Python 3.11 or 3.13 or 3.12 or 3.10",))


def test_with_a_gpu_its_code_and_the_driver_decide() -> None:
    volta = offers(gpu("7.0"))
    assert volta["2.21.0"].device == "cpu" and "cuDNN" in volta["2.21.0"].missing[0]
    assert volta["2.19.1"].device == "gpu" and volta["2.19.1"].missing == () and not volta["2.19.1"].compiled_at_start
    assert offers(gpu("8.6"))["1.12.0"].compiled_at_start
    assert "CUDA 9.0 at most" in offers(gpu("7.0"), cuda_served="9.0")["1.15.5"].missing[0]


def test_a_gpu_is_of_no_use_without_the_libraries_that_a_release_takes_from_the_system() -> None:
    def lack(release: Release) -> str | None:
        return "no CUDA here" if release.tensorflow == "1.12.0" else None

    found = offers(gpu("7.0"), lack=lack)
    assert (found["1.12.0"].device, found["1.12.0"].missing) == ("cpu", ("no CUDA here",))
    assert found["1.12.3"].device == "gpu"


def test_a_release_that_was_not_published_for_a_system_is_not_offered_there() -> None:
    found = offers(system="windows-x86_64")
    assert (found["1.10.1"].device, found["1.10.1"].missing) == ("", ("wheels for windows-x86_64",))
    assert (found["1.12.0"].device, found["1.12.0"].missing) == ("cpu", ())


def test_one_gpu_that_fits_is_enough() -> None:
    assert offers(gpu("7.0"), gpu("9.0"))["2.21.0"].missing == ()
    assert not offers(gpu("12.0"), gpu("9.0"))["2.21.0"].compiled_at_start


def outcome(kind: str, date: str = "2026-11-30") -> Outcome:
    return Outcome(outcome=kind, date=date, reason="" if kind == OK else "it broke")


def test_what_is_proven() -> None:
    models = {"trivial": outcome(OK, "2026-11-29"), "vgg16": outcome("failed"), "ssd300": outcome("failed", "2026-12-01")}
    proof = Proof(tensorflow="2.21.0", upstream_commit="a" * 40, models=models)
    proven = offers(proof=proof)["2.21.0"].proven
    assert (proven.date, proven.models, proven.ok, proven.failed) == ("2026-11-30", 2, ("trivial",), {"vgg16": "failed: it broke"})
    assert proven.not_tried == ()
    outdated = msgspec.structs.replace(proof, models={"trivial": outcome(OUTDATED)}, failure=outcome(NO_ENVIRONMENT))
    proven = offers(proof=outdated)["2.21.0"].proven
    assert (proven.ok, proven.failed, proven.not_tried) == ((), {"": "it broke"}, ("trivial", "vgg16"))


def test_ran_failed_and_not_tried_are_told_apart() -> None:
    proof = Proof(tensorflow="1.12.0", upstream_commit="a" * 40, models={"trivial": outcome(OK), "vgg16": outcome("library_missing")})
    found = offers(proof=proof)
    rows = {line.split()[0]: line.split()[1:] for line in shown(found, 80) if line[:1].isdigit()}
    assert rows["1.12.0"][:6] == ["CPU,", "Python", "3.6", "1", "1", "1"] and rows["1.12.3"][:6] == ["CPU,", "Python", "3.6", "0", "0", "3"]
    assert "  1.12.0: vgg16: library_missing: it broke" in shown(found, 80)
    for listed in json.loads(releases_json(list(found.values())))["releases"]:
        proven = listed["proven"]
        assert len(proven["ok"]) + len(proven["failed"]) + len(proven["not_tried"]) == proven["models"]


def test_models_that_failed_alike_share_a_line() -> None:
    proof = Proof(tensorflow="1.12.0", upstream_commit="a" * 40, models={"trivial": outcome("failed"), "vgg16": outcome("failed")})
    assert "  1.12.0: trivial, vgg16: failed: it broke" in shown(offers(proof=proof), 80)


@pytest.mark.parametrize("width", [80, 120])
def test_each_release_is_one_line_of_a_terminal(width: int) -> None:
    broken = Proof(tensorflow="2.21.0", upstream_commit="a" * 40, models={"vgg16": outcome("failed")})
    lines = shown(offers(gpu("12.0"), cuda_served="12.2", proof=broken), width)
    rows = [line.rstrip() for line in lines if line[:1].isdigit()]
    assert len(rows) == len(load_releases()) and max(map(len, rows)) <= 80
    (old,) = [row for row in rows if row.startswith("1.12.0")]
    assert "GPU*, Python 3.6" in old and "3.5–7.0, PTX" in old
    assert any(line.startswith("* ") and "first start" in line for line in lines)
    assert any("2.21.0" in line and "can't compile its PTX" in line for line in lines), "what is missing, below the table"
    assert "  2.21.0: vgg16: failed: it broke" in lines
