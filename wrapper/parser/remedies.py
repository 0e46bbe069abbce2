"""What to do next, a sentence for each verdict."""

from __future__ import annotations

from wrapper.runner.sweep import Case

REMEDIES = {
    "ok": "",
    "out_of_memory": "The batch size is per device, and {batch_size} does not fit: take a smaller one (tfcnn batch-size {model} finds the largest).",
    "wrong_device": "Make TensorFlow see the GPU (driver, CUDA libraries, CUDA_VISIBLE_DEVICES, a package built for GPUs), or ask for the CPU.",
    "device_count": "Ask for at most as many devices as TensorFlow opened, or make the others visible (CUDA_VISIBLE_DEVICES).",
    "unknown_model": "Take a model that this release's upstream has for this data set; {model} may need TensorFlow 1.",
    "bad_flag": "Correct the flag; upstream's flags differ between releases.",
    "version_mismatch": "Let the wrapper make the environment, or name one whose TensorFlow, NumPy, protobuf and Keras belong together.",
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


def remedy_of(verdict: str, case: Case) -> str:
    """The sentence for a verdict, about this case."""
    return REMEDIES[verdict].format(batch_size=case.batch_size, model=case.model)
