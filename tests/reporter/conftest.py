"""Records to report on: a session and trials, as the pipeline makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from wrapper.parser.verdict import Judgement
from wrapper.process import Execution
from wrapper.reporter.store import Session, Trial
from wrapper.runner.sweep import Case

TrialMaker = Callable[..., Trial]
SessionMaker = Callable[..., Session]

GPU = {
    "name": "NVIDIA H200",
    "driver": "570.86",
    "memory_bytes": 150_754_820_096,
    "pcie_generation": 5,
    "pcie_width": 16,
    "pcie_generation_max": 5,
    "pcie_width_max": 16,
}


@pytest.fixture
def make_trial() -> TrialMaker:
    """Makes a trial: `total` None is a failure with `verdict`."""

    def make(index: int, total: float | None, *, verdict: str = "", model: str = "resnet50", repeat: int = 1, **changes: Any) -> Trial:
        judgement = {
            "verdict": verdict or ("ok" if total is not None else "out_of_memory"),
            "images_per_sec": total,
            "total_line": 31 if total else None,
        }
        judgement |= changes.pop("judgement", {})
        case = {"model": model, "batch_size": 64, "device": "gpu"} | changes.pop("case", {})
        values: dict[str, Any] = {
            "index": index,
            "case": Case(**case),
            "repeat": repeat,
            "command": ("/opt/python3.6/bin/python", "tf_cnn_benchmarks.py", f"--model={model}", "--batch_size=64"),
            "execution": Execution(exit_code=0 if total else 1, started="2026-11-30T20:00:00Z", seconds=12.5),
            "judgement": Judgement(**judgement),
            "log": f"logs/{index:03d}-{Case(**case).name}-r{repeat}.out",
        }
        return Trial(**(values | changes))

    return make


@pytest.fixture
def make_session() -> SessionMaker:
    """Makes the session of a GPU sweep."""

    def make(**changes: Any) -> Session:
        values: dict[str, Any] = {
            "created": "2026-11-30T20:00:00Z",
            "sweep": {"name": "all", "repeats": 3},
            "release": {"tensorflow": "1.12.0", "upstream_commit": "ec056be" + "0" * 33, "upstream_ref": "cnn_tf_v1.12_compatible", "verified": True},
            "upstream": {"commit": "ec056be" + "0" * 33, "address": "https://github.com/tensorflow/benchmarks.git"},
            "environment": {"kind": "locked", "python_version": "3.6.15", "tensorflow": "1.12.0", "packages": {"numpy": "1.16.4"}},
            "host": {
                "cpu": "Intel(R) Xeon(R) CPU @ 2.20GHz",
                "cores_physical": 8,
                "cores_logical": 16,
                "memory_bytes": 137_438_953_472,
                "disk": "Samsung SSD 980 PRO",
                "os": "Linux 6.1",
                "gpus": [dict(GPU)],
            },
            "versions": {"tfcnn": "0.1.0", "python": "3.11.7"},
            "command": ("tfcnn", "run", "--tensorflow", "1.12.0"),
            "choice": "asked for with --tensorflow",
            "device": "gpu",
        }
        return Session(**(values | changes))

    return make
