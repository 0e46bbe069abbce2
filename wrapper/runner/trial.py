"""One trial: a planned command line becomes a process and three files beside each other."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from wrapper.errors import FatalError
from wrapper.process import Execution, run_logged, scrubbed_environment
from wrapper.runner.plan import PlannedTrial

LOGS = "logs"
"""The folder of the logs in the directory of a report."""


def run_trial(
    planned: PlannedTrial,
    *,
    directory: Path,
    environment_variables: Mapping[str, str],
    keep_pythonpath: bool,
    time_limit_s: float,
    on_line: Callable[[bytes, float], None] | None = None,
    on_start: Callable[[int], None] | None = None,
    cleanup: Sequence[str] = (),
) -> Execution:
    """Run one trial and keep all that it prints.

    It runs in the user's working directory, because paths in the user's own flags are meant from there.

    Args:
        directory: the report's directory; `logs/<log_name>.stdout`, `.stderr` and `.times.csv` are written in it.
        environment_variables: set for the trial beside those of this process (see `scrubbed_environment`).
        keep_pythonpath: for an interpreter that the user named, see `scrubbed_environment`.
        time_limit_s: seconds, see `run_logged`.
        on_line: see `run_logged`.
        on_start: see `run_logged`.
        cleanup: see `run_logged`.

    Returns:
        how it ended; a trial is never raised. What the hooks raise is.

    Raises:
        FatalError: its logs can't be made.
    """
    logs = directory / LOGS
    stdout, stderr, times = (logs / f"{planned.log_name}{ending}" for ending in (".stdout", ".stderr", ".times.csv"))
    try:
        logs.mkdir(parents=True, exist_ok=True)
        for path in (stdout, stderr, times):
            path.write_bytes(b"")  # where the child can't be started, what an earlier run of the trial printed must not pass for its output
    except OSError as error:
        raise FatalError(f"the logs of trial {planned.index} can't be written in {logs} ({error})", "Mend that, then go on with --resume") from error
    return run_logged(
        planned.command,
        cwd=Path.cwd(),
        environment=scrubbed_environment(os.environ, environment_variables, keep_pythonpath=keep_pythonpath),
        stdout_path=stdout,
        stderr_path=stderr,
        times_path=times,
        time_limit_s=time_limit_s,
        on_line=on_line,
        on_start=on_start,
        cleanup=cleanup,
    )
