"""What to do next, a sentence for each verdict, and what each kind of warning means."""

from __future__ import annotations

from collections.abc import Iterable

from wrapper.runner.sweep import Case

REMEDIES = {
    "ok": "",
    "out_of_memory": "The batch size is per device, and {batch_size} does not fit: take a smaller one (tfcnn batch-size {model} finds the largest).",
    "wrong_device": "Make TensorFlow see the GPU (driver, CUDA libraries, CUDA_VISIBLE_DEVICES, a package built for GPUs), or ask for the CPU.",
    "device_count": "Ask for at most as many devices as TensorFlow opened, or make the others visible (CUDA_VISIBLE_DEVICES).",
    "unknown_model": "Take a model that this release's upstream has for this data set; {model} may need TensorFlow 1.",
    "bad_flag": "Correct the flag; upstream's flags differ between releases.",
    "version_mismatch": "Let the wrapper make the environment (if it did, delete that: it is made anew), or name one whose packages fit together.",
    "library_missing": "Install the library named, in the version that this TensorFlow was built for, where the loader finds it.",
    "driver": "Update the GPU's driver to one that this release's CUDA accepts, and restart the machine.",
    "gpu_architecture": "Take a release whose CUDA knows this GPU's architecture, most often a newer one.",
    "cudnn": "Install the cuDNN version that this TensorFlow was built for, end other processes on the GPU, or set TF_FORCE_GPU_ALLOW_GROWTH=true.",
    "nccl": "Look at the NCCL lines with NCCL_DEBUG=INFO; in a container give /dev/shm more room, or take another variable update.",
    "data": "Check that the data directory holds upstream's files for this data set and enough records for the steps asked for.",
    "killed": "Look in the system's log for who ended the process; for SIGKILL free host memory or take a smaller batch.",
    "timed_out": "Raise the time limit (the first start on a new GPU may compile for many minutes), or look in the log for where it hangs.",
    "interrupted": "Resume the sweep.",
    "no_total": "Look at the log: upstream ended without its closing line.",
    "bogus_total": "Run more steps; if it stays so, this upstream does not measure this case.",
    "disagrees": "Remove what changes upstream's run (an extra flag, an old training directory), or ask for what it ran.",
    "failed": "Read the log, at the line given where one is.",
}

WARNINGS = {
    "busy_device": "another process used the GPU during the trial, so the figure may be too low",
    "clock_disagrees": "upstream's total and the speed at which its step lines came are further apart than the timing explains",
    "coarse_total": "the run was so short that upstream's own clock knows its total only roughly; more steps make it sure",
    "drift": "the speed rose or fell in the course of the trial or from repeat to repeat, so the mean depends on how long was measured",
    "incomplete": "the sweep was stopped before all its trials had run",
    "link_degraded": "the GPU's PCIe link ran narrower or slower than the GPU can",
    "memory_pressure": "TensorFlow reported that memory was short; the trial ended well, but may have been slowed down",
    "nan_loss": "the loss became not a number: the speed is valid, the training is not",
    "numerics": "the first losses of the repeats differ, so they did not compute the same",
    "slow_first_repeat": "the first repeat was clearly slower than the others, as on a cold machine",
    "telemetry_lost": "the GPU's readings during the trial could not be kept, so nothing is known of clock, power and heat",
    "throttled": "the GPU was held below its clock by heat or power for a part of the timed steps",
    "too_few": "fewer repeats than it takes to know the spread",
    "unclean_exit": "upstream did not end cleanly, but only after it had printed its total",
    "unstable": "the repeats are so far apart that the mean is known only roughly",
    "commit_of_another_time": "the commit of upstream that was given by hand is older or newer than this TensorFlow",
    "unverified_release": "this pair of TensorFlow and upstream was never run by this project",
}
"""Each kind of warning beside a valid figure, in words."""


def meanings(kinds: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Each kind of warning once, with what it means."""
    return tuple((kind, WARNINGS.get(kind, "not known to this version")) for kind in sorted(set(kinds)))


def remedy_of(verdict: str, case: Case) -> str:
    """The sentence for a verdict, about this case."""
    return REMEDIES[verdict].format(batch_size=case.batch_size, model=case.model)
