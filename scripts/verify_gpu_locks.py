"""Whether each release's lock for GPUs installs, and TensorFlow finds all CUDA libraries in it: `python scripts/verify_gpu_locks.py [RELEASE ...]`.

No GPU is needed for that: TensorFlow opens the libraries before it asks the driver for anything. Releases up to 2.13 take them from the system and
are left out. Each environment is made in a folder of its own, with the installer's cache in it, and is removed before the next (about 10 GB of disk).
The outcome is written into wrapper/data/proven.yaml after each release. Exits with 1 and names them when some do not find their libraries.
"""

from __future__ import annotations

import os
import re
import shutil
import sys

import msgspec
from verify_releases import publishable, say, today

from wrapper.argument_types import HOME
from wrapper.bootstrapper.environment import make_environment
from wrapper.bootstrapper.proven import NO_ENVIRONMENT, OK, Outcome, Proof, load_proven, save_proven
from wrapper.bootstrapper.release import Release, load_releases, resolve_release
from wrapper.errors import FatalError
from wrapper.process import run_captured, scrubbed_environment

WORK = HOME / "vendor" / "verification-gpu"
LIMIT_S = 300.0
# The function is TensorFlow's own and returns an absl::Status, whose first word is 0 or 1 where it is ok, else an address.
OPEN_ALL = """
import ctypes, os, tensorflow
library = ctypes.CDLL(os.path.join(os.path.dirname(tensorflow.__file__), "libtensorflow_framework.so.2"))
status = (ctypes.c_uint64 * 2)()
library._ZN3tsl8internal9DsoLoader26MaybeTryDlopenGPULibrariesEv(status)
print("opened" if status[0] in (0, 1) else "lacking")
"""


def holds_cuda(release: Release) -> bool:
    """Whether the release's lock for GPUs holds the CUDA libraries."""
    return release.wheel is not None and release.wheel.locked_cudnn is not None


def open_libraries(release: Release) -> Outcome:
    """Make the environment for GPUs and let its TensorFlow open the CUDA libraries.

    Raises:
        FatalError: it can't be made.
    """
    environment = make_environment(release, "gpu", vendor=WORK, say=say, elsewhere=True)
    variables = {**scrubbed_environment(os.environ, environment.variables, keep_pythonpath=False), "TF_CPP_MAX_VLOG_LEVEL": "1"}
    done = run_captured([environment.python, "-c", OPEN_ALL], cwd=WORK, environment=variables, time_limit_s=LIMIT_S)
    if done.stdout.strip().endswith("opened"):
        return Outcome(outcome=OK, date=today())
    lacking = dict.fromkeys(re.findall(r"Could not load dynamic library '((?!libnvinfer)[^']*)'", done.stderr))
    reason = f"not found: {', '.join(lacking)}" if lacking else " ".join(done.stderr.splitlines()[-1:])
    return Outcome(outcome="failed", date=today(), reason=publishable(reason, WORK))


def main() -> None:
    """Verify the releases of the command line, or all whose lock holds CUDA."""
    if sys.platform != "linux":
        raise SystemExit("the packages of CUDA are for Linux")
    table = load_releases()
    releases = [release for release in ([resolve_release(name, table) for name in sys.argv[1:]] or table) if holds_cuda(release)]
    os.environ["UV_CACHE_DIR"] = str(WORK / "cache")
    failed = []
    for release in releases:
        shutil.rmtree(WORK, ignore_errors=True)
        WORK.mkdir(parents=True)
        try:
            outcome = open_libraries(release)
        except FatalError as error:
            outcome = Outcome(outcome=NO_ENVIRONMENT, date=today(), reason=publishable(error.what, WORK))
        say(f"{release.tensorflow}: {outcome.outcome} {outcome.reason}".rstrip())
        proofs = load_proven()
        proof = proofs.get(release.tensorflow, Proof(tensorflow=release.tensorflow, upstream_commit=release.upstream_commit))
        proofs |= {release.tensorflow: msgspec.structs.replace(proof, gpu_libraries=outcome)}
        save_proven(proofs, [each.tensorflow for each in table])
        failed += [release.tensorflow] if outcome.outcome != OK else []
    shutil.rmtree(WORK, ignore_errors=True)
    if failed:
        raise SystemExit(f"TensorFlow does not find the CUDA libraries of its lock: {', '.join(failed)}")


if __name__ == "__main__":
    main()
