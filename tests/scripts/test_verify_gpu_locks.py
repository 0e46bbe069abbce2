"""The check of the locks for GPUs, on the tests' own lock, whose TensorFlow has no libraries to open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from e2e_kit import NEW, OLD, Product

from wrapper.bootstrapper.proven import load_proven

pytest_plugins = ["e2e_kit"]

SCRIPT = Path(__file__).parents[2] / "scripts" / "verify_gpu_locks.py"


@pytest.mark.skipif(sys.platform != "linux", reason="the packages of CUDA are for Linux")
def test_libraries_that_are_not_found_are_kept_with_their_reason_and_loud(product: Product) -> None:
    table = product.root / "wrapper" / "data" / "proven.yaml"
    before = load_proven(table)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), OLD, NEW],
        cwd=product.root,
        env=product.variables(),
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    assert done.returncode == 1, done.stdout
    assert done.stderr.strip() == f"TensorFlow does not find the CUDA libraries of its lock: {NEW}"
    proofs = load_proven(table)
    assert proofs[OLD] == before[OLD], "it takes CUDA from the system"
    outcome = proofs[NEW].gpu_libraries
    assert outcome is not None and outcome.outcome == "failed"
    assert "libtensorflow_framework.so.2: cannot open shared object file" in outcome.reason and str(product.root) not in outcome.reason
    assert proofs[NEW].models == before[NEW].models
    assert not (product.root / "vendor" / "verification-gpu").exists()
