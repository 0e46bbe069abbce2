"""Why a trial that has no credible figure failed: from how the process ended, explained by standard error."""

from __future__ import annotations

from wrapper.parser.output import Output
from wrapper.parser.stderr import StderrSummary
from wrapper.process import Execution

# Signals by number, not from the signal module: a record made on one system is judged on another.
_SIGNALS = {
    1: "SIGHUP",
    2: "SIGINT",
    3: "SIGQUIT",
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    13: "SIGPIPE",
    15: "SIGTERM",
}
_SIGNAL_MEANINGS = {
    4: "the CPU lacks an instruction that this TensorFlow was built with, often AVX",
    9: "most often the system, because the host's memory was full",
}
# https://learn.microsoft.com/openspecs/windows_protocols/ms-erref (NTSTATUS values)
_WINDOWS_CODES = {
    0xC0000005: "access violation",
    0xC0000006: "page could not be read from disk",
    0xC0000017: "not enough host memory",
    0xC000001D: "illegal instruction: the CPU lacks one that this TensorFlow was built with, often AVX",
    0xC00000FD: "stack overflow",
    0xC0000135: "a DLL was not found",
    0xC0000142: "a DLL could not be initialised",
    0xC000013A: "Ctrl-C",
    0xC0000374: "heap corruption",
    0xC0000409: "aborted by a run-time check",
}
_WINDOWS_CTRL_C = 0xC000013A
_WINDOWS_NO_DLL = frozenset({0xC0000135, 0xC0000142})

# The command line and the environment come first, because what they break can't have trained; then causes before their consequences.
_ORDER = (
    "bad_flag",
    "unknown_model",
    "version_mismatch",
    "library_missing",
    "gpu_architecture",
    "driver",
    "wrong_device",
    "nccl",
    "disk_full",
    "out_of_memory",
    "data",
    "cudnn",
)


def explain(execution: Execution, output: Output, stderr: StderrSummary) -> tuple[str, str] | None:
    """Find the one reason of a trial that did not end cleanly.

    Args:
        execution: how the process ended.
        output: what it had printed by then.
        stderr: its standard error.

    Returns:
        verdict and reason; None where the process ended by itself with exit code 0.
    """
    if execution.ended_by == "timeout":
        return "timed_out", f"not finished after {execution.seconds:.0f} s, stage reached: {output.stage}{_last_step(output)}"
    if execution.ended_by == "interrupt":
        return "interrupted", f"stopped at stage: {output.stage}{_last_step(output)}"
    if execution.exit_code is None or execution.error:
        return "failed", execution.error or "the process could not be started"
    if execution.exit_code == 0:
        return None
    return _explain_exit(execution.exit_code, stderr)


def how_it_ended(execution: Execution) -> str:
    """One phrase for an end that was not clean."""
    if execution.ended_by != "exit" or execution.exit_code is None:
        return f"ended by {execution.ended_by} after {execution.seconds:.0f} s"
    return _in_words(execution.exit_code)


def _in_words(exit_code: int) -> str:
    signal, code = _signal(exit_code), exit_code & 0xFFFFFFFF
    if signal:
        return f"signal {signal} ({_SIGNALS.get(signal, 'unknown')})"
    return f"exit code 0x{code:08X} ({_WINDOWS_CODES[code]})" if code in _WINDOWS_CODES else f"exit code {exit_code}"


def _explain_exit(exit_code: int, stderr: StderrSummary) -> tuple[str, str]:
    signal, code = _signal(exit_code), exit_code & 0xFFFFFFFF
    if signal == 2 or code == _WINDOWS_CTRL_C or ("interrupted" in stderr.hits and stderr.error is None):
        return "interrupted", "KeyboardInterrupt" if "interrupted" in stderr.hits else "Ctrl-C"
    if signal in (9, 15):
        return "killed", _killed(signal, stderr)
    for verdict in _ORDER:
        if verdict in stderr.hits and not (verdict == "cudnn" and "memory_pressure" in stderr.hits):
            return "failed" if verdict == "disk_full" else verdict, stderr.hits[verdict].text
    # cuDNN's and TensorFlow's own failures after a failed allocation are its consequence; a Python error is not.
    if "memory_pressure" in stderr.hits and (stderr.error is None or "errors_impl." in stderr.error.text):
        return "out_of_memory", stderr.hits["memory_pressure"].text
    if code in _WINDOWS_NO_DLL:
        return "library_missing", _in_words(exit_code)
    if signal:
        return "killed", _killed(signal, stderr)
    if code in _WINDOWS_CODES:
        return "killed", _in_words(exit_code)
    return "failed", error_text(stderr) or (stderr.last_lines[-1] if stderr.last_lines else f"exit code {exit_code}, nothing on standard error")


def error_text(stderr: StderrSummary) -> str:
    """The first error with its cause, where TensorFlow prints the two on different lines."""
    if stderr.error is None:
        return ""
    return f"{stderr.error.text} {stderr.cause.text}" if stderr.cause else stderr.error.text


def _signal(exit_code: int) -> int:
    """The signal's number, also where a shell or launcher stood between (128 + number); 0 where there was none."""
    if -65 < exit_code < 0:
        return -exit_code
    return exit_code - 128 if exit_code - 128 in _SIGNALS else 0


def _killed(signal: int, stderr: StderrSummary) -> str:
    said = _SIGNAL_MEANINGS.get(signal) or error_text(stderr) or "".join(stderr.last_lines[-1:])
    return _in_words(-signal) + (f": {said}" if said else "")


def _last_step(output: Output) -> str:
    return f", last step shown: {output.steps[-1].step}" if output.steps else ""
