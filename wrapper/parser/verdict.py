"""Whether a trial has a valid figure, and if not, the one reason.

The exit code and a credible total decide; text on standard error only explains. In 4,026 finished public runs "OOM" stands 64 times and
"Error" 178 times, and exit code 0 says nothing about a figure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from wrapper.parser.agreement import disagreements, last_step, prints_number_of_steps
from wrapper.parser.clock import STAMP_S, Clock, disagreement, drift
from wrapper.parser.failure import error_text, explain, how_it_ended
from wrapper.parser.line import readable
from wrapper.parser.output import Output
from wrapper.parser.remedies import remedy_of
from wrapper.parser.stderr import StderrSummary
from wrapper.process import Execution
from wrapper.runner.sweep import Case

CLOCK_TOLERANCE = 0.05
"""Relative difference of the total and the last step's running mean from which on it is told; in 4,026 public runs it was at most 0.7 %."""
ROUNDING = 0.055
"""images/sec; what `%.1f` and `%.2f` take off at most, which counts on a slow device."""
BOGUS_RATIO = 2.0
"""Total over the stamps' throughput from which on the total can't be true: what slows a run slows both."""
SEEN_FROM_S = 3.0
"""Seconds of steps in which NVML, read five times a second, can't have missed a GPU's work."""
POLL_S = 0.25
"""Upstream watches the global step in intervals of this length; 1.5 takes its total from them."""
COARSE = 0.01


class Warning(msgspec.Struct, frozen=True, kw_only=True):
    """Something to know beside a valid figure."""

    kind: str
    detail: str


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one trial."""

    verdict: str
    """"ok" or the one reason why there is no valid figure."""
    images_per_sec: float | None = None
    """None unless the verdict is ok."""
    total_line: int | None = None
    """Where in the standard output log the figure stands, from 1."""
    reason: str = ""
    """The log line or reading that decided, as text."""
    reason_log: str = ""
    """"stdout" or "stderr": the log that the reason stands in; empty where it stands in none."""
    reason_line: int | None = None
    """Where in that log, from 1; None where no one line decided."""
    remedy: str = ""
    """What to do next, one sentence."""
    warnings: tuple[Warning, ...] = ()


def judge(
    *,
    case: Case,
    execution: Execution,
    output: Output,
    stderr: StderrSummary,
    release_minor: str | None = None,
    seen_on_devices: frozenset[int] | None = None,
    clock: Clock | None = None,
    window: tuple[float, float] | None = None,
) -> Judgement:
    """Decide on a single-process trial.

    Args:
        case: what was asked for.
        execution, output, stderr: how the process ended and what it printed, standard output read strictly.
        release_minor: TensorFlow's release as "major.minor", to hold against the header; None where it is not known.
        seen_on_devices: GPUs on which NVML saw the process tree compute; None where that was not sampled.
        clock: throughput by the stamps of the step lines; None where there are none.
        window: start and end of the timed loop in seconds, see `timed_window`; None where that is not known.

    Returns:
        "ok" with the figure in images/sec and its warnings, or another verdict of words.yaml with the line or reading that decided.
    """
    problem: tuple[str, str] | None
    if missing := _total_problem(output):
        # Where the process did not end cleanly, that is the reason, and not what is missing because of it.
        problem = explain(execution, output, stderr) or _explain_missing(missing, stderr)
    elif execution.error:
        problem = "failed", execution.error
    else:
        problem = _doubt(case, output, stderr, release_minor, seen_on_devices, clock) or _window_problem(case, output, window)
    if problem:
        return _refused(case, *problem, output, stderr)
    return Judgement(
        verdict="ok",
        images_per_sec=output.totals[0],
        total_line=output.total_lines[0],
        reason=f"total images/sec: {output.totals[0]:.2f}",
        warnings=tuple(_warnings(case, execution, output, stderr, clock)),
    )


def _refused(case: Case, verdict: str, reason: str, output: Output, stderr: StderrSummary) -> Judgement:
    """No figure, and where the reason stands: on standard error the line that it quotes, else the first doubtful total."""
    quoted = next((hit for hit in (*stderr.hits.values(), stderr.error) if hit is not None and hit.text and hit.text in reason), None)
    total = output.total_lines[0] if verdict == "bogus_total" and output.total_lines else None
    return Judgement(
        verdict=verdict,
        reason=readable(reason),
        reason_log="stderr" if quoted else "stdout" if total else "",
        reason_line=quoted.line if quoted else total,
        remedy=remedy_of(verdict, case),
    )


def _total_problem(output: Output) -> tuple[str, str] | None:
    """What keeps the total from being credible, by standard output alone."""
    if output.malformed_totals:
        return "bogus_total", f"not a whole line of upstream's: {output.malformed_totals[0]}"
    if not output.totals:
        return "no_total", f"no total, stage reached: {output.stage}"
    if len(output.totals) > 1:
        return "bogus_total", f"{len(output.totals)} totals from one process, at lines {output.total_lines[0]}, {output.total_lines[1]}"
    total, line = output.totals[0], output.total_lines[0]
    if not math.isfinite(total) or total <= 0:
        return "bogus_total", f"total images/sec: {total:.2f}"
    if "Model" not in output.header:
        return "bogus_total", f"total images/sec: {total:.2f} without a header block"
    if output.step_header_line is None or output.step_header_line > line or not output.steps:
        return "bogus_total", f"total images/sec: {total:.2f} without step lines before it: the timed loop did not run as asked"
    # Upstream shows step 1 whatever `--display_every` says; 1.5 polls, and may miss it.
    if prints_number_of_steps(output) and output.steps[0].step != 1:
        return "bogus_total", f"total images/sec: {total:.2f}, but the step lines begin with step {output.steps[0].step} instead of 1"
    return None


def _explain_missing(problem: tuple[str, str], stderr: StderrSummary) -> tuple[str, str]:
    verdict, reason = problem
    error = error_text(stderr) if verdict == "no_total" else ""
    return verdict, f"{reason}; {error}" if error else reason


def _doubt(
    case: Case, output: Output, stderr: StderrSummary, release_minor: str | None, seen_on_devices: frozenset[int] | None, clock: Clock | None
) -> tuple[str, str] | None:
    """What keeps a credible total from being that of the case."""
    if different := disagreements(case, output, release_minor):
        return "disagrees", "; ".join(map(str, different))
    return _device_problem(case, stderr, seen_on_devices, clock) or _clock_problem(case, output, clock)


def _device_problem(case: Case, stderr: StderrSummary, seen_on_devices: frozenset[int] | None, clock: Clock | None) -> tuple[str, str] | None:
    """Whether there is proof of as many GPUs as asked for, and of none where the CPU was asked for.

    With upstream's soft placement what does not find its GPU runs elsewhere in silence. TensorFlow opens every GPU that it may see, so its lines can
    show that there were too few; where they are missing, NVML's sight of the process tree is the proof. Where both can be had, both are wanted: a GPU
    that was opened and did nothing proves nothing. NVML reads so seldom that it may miss the work of a shorter run.
    """
    if case.device == "cpu":
        return ("wrong_device", f"CPU asked for, and the process computed on GPU {min(seen_on_devices)}") if seen_on_devices else None
    opened = {gpu.index for gpu in stderr.gpus} or set(stderr.candidate_gpus)
    proof, witness = (opened, "TensorFlow opened") if opened else (seen_on_devices or frozenset(), "the process was seen on")
    if not proof:
        lack = stderr.hits.get("no_gpu") or stderr.hits.get("gpu_architecture") or stderr.hits.get("driver")
        return (
            "wrong_device",
            lack.text if lack else "GPU asked for, but no line of TensorFlow's about a GPU that it opened, and no process seen on one",
        )
    if len(proof) < case.devices:
        return "device_count", f"{case.devices} GPUs asked for, {witness} {len(proof)}: {sorted(proof)}"
    if seen_on_devices is None or clock is None or clock.seconds < SEEN_FROM_S or len(seen_on_devices) >= case.devices:
        return None
    worked = f"NVML saw work on {sorted(seen_on_devices) or 'none'} of them in {clock.seconds:.1f} s"
    return "device_count" if seen_on_devices else "wrong_device", f"{case.devices} GPUs asked for and opened, but {worked}"


def _warnings(case: Case, execution: Execution, output: Output, stderr: StderrSummary, clock: Clock | None) -> Iterator[Warning]:
    if execution.exit_code != 0 or execution.ended_by != "exit":
        yield Warning(kind="unclean_exit", detail=f"{how_it_ended(execution)}, after the total was printed")
    lost = next((step for step in output.steps if step.loss is not None and not math.isfinite(step.loss)), None)
    if lost is not None:
        yield Warning(kind="nan_loss", detail=f"the loss is {lost.loss} at step {lost.step}: the speed is valid, the training is not")
    if pressure := stderr.hits.get("memory_pressure") or stderr.hits.get("out_of_memory"):
        yield Warning(kind="memory_pressure", detail=pressure.text)
    yield from _clock_warnings(case, output, clock)


def _clock_problem(case: Case, output: Output, clock: Clock | None) -> tuple[str, str] | None:
    ratio = disagreement(clock, output.totals[0], steps=case.steps, tolerance=BOGUS_RATIO - 1) if clock else None
    if clock is None or ratio is None or ratio < 1:
        return None
    return "bogus_total", f"total {output.totals[0]:.2f} images/sec, but the step lines came at {clock.images_per_sec:.2f} images/sec"


def _window_problem(case: Case, output: Output, window: tuple[float, float] | None) -> tuple[str, str] | None:
    """Whether upstream's clock ran for less than half of the time in which nothing but the loop ran; also tells where one step line alone came."""
    if window is None or not prints_number_of_steps(output):
        return None
    total, images = output.totals[0], case.steps * case.global_batch_size
    loop_s = window[1] - window[0] - STAMP_S - POLL_S  # after the loop upstream may poll once more for the last step
    if loop_s <= 0 or total * loop_s <= BOGUS_RATIO * images:
        return None
    return "bogus_total", f"total {total:.2f} images/sec, but the loop took {loop_s:.2f} s at least: {images / loop_s:.2f} images/sec at most"


def _clock_warnings(case: Case, output: Output, clock: Clock | None) -> Iterator[Warning]:
    total, last = output.totals[0], last_step(output)
    # A running mean that covers little of the run says nothing about the total: a short run may show step 1 alone.
    if last and 2 * last.step >= case.steps and abs(total - last.images_per_sec) > CLOCK_TOLERANCE * last.images_per_sec + ROUNDING:
        figures = f"total {total:.2f} images/sec, mean of the steps {last.images_per_sec:.1f}"
        yield Warning(kind="clock_disagrees", detail=f"{figures}: the total also counts what happens between the steps, such as checkpoints")
    if clock and (course := drift(clock)):
        yield Warning(kind="drift", detail=course)
    if clock and disagreement(clock, total, steps=case.steps, tolerance=CLOCK_TOLERANCE):
        figures = f"total {total:.2f} images/sec, by the stamps of the step lines {clock.images_per_sec:.2f}"
        yield Warning(kind="clock_disagrees", detail=f"{figures} (within {clock.resolution:.1%})")
    resolution = POLL_S * total / (case.steps * case.global_batch_size)
    if not prints_number_of_steps(output) and resolution > COARSE:
        yield Warning(
            kind="coarse_total", detail=f"upstream 1.5 times in intervals of {POLL_S} s: this short a run is known to {resolution:.0%} only"
        )
