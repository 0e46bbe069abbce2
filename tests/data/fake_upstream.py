"""A stand-in for upstream's main program, for tests: it takes upstream's flags (--name=value) and needs nothing but Python 3.6.

An ordinary --model prints a valid log in the format of upstream's newest branches, its header taken from the flags. These models misbehave:

  hang         prints up to the warm-up, then nothing for ever
  crash        a traceback on standard error, exit code 1
  oom          TensorFlow's out-of-memory error on standard error, exit code 1
  killed       ends itself by SIGKILL after the first step line (exit code 1 on Windows)
  no_total     exits with 0 before the total
  garbage      bytes that are no text, carriage returns, a zero byte, and then a valid log
  long_line    FAKE_LONG_LINE_BYTES bytes (default 1 GB) without a newline
  orphan       a valid log; leaves behind a descendant in a session of its own that keeps standard output open
  stubborn     like hang, with a child that ignores SIGTERM, and a grandchild that has left the family as in orphan
  replay       the file FAKE_REPLAY, FAKE_LINE_S seconds a line, then exit code FAKE_EXIT_CODE

Variables, each of them optional:

  FAKE_TOTALS      "100.00,101.00": what the first, second, ... call prints as the total, round and round; without it the true speed is printed
  FAKE_COUNTER     file that counts the calls
  FAKE_STEP_S      seconds that a step takes (0.001)
  FAKE_EXIT_CODE   exit code after an ordinary log (0)
  FAKE_PIDS        file to which the process ids of all descendants are appended, one a line
  FAKE_MAX_BATCH   a batch size per device above which an ordinary model ends as oom
  FAKE_GPUS        so many GPUs that TensorFlow's lines on standard error say were opened (0)
  FAKE_TENSORFLOW  the version in the header ("2.21")
"""

# ruff: noqa: T201 (it is here to print)

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

RULE = "-" * 64
DEFAULTS = {
    "model": "trivial",
    "batch_size": "32",
    "num_batches": "100",
    "num_warmup_batches": "10",
    "num_gpus": "1",
    "device": "gpu",
    "data_format": "NCHW",
    "display_every": "10",
    "variable_update": "parameter_server",
    "local_parameter_device": "gpu",
    "all_reduce_spec": "",
    "optimizer": "sgd",
    "data_name": "imagenet",
    "data_dir": "",
    "forward_only": "false",
}


def print_header(flags):
    batch, devices, steps = int(flags["batch_size"]), int(flags["num_gpus"]), int(flags["num_batches"])
    print("TensorFlow:  " + os.environ.get("FAKE_TENSORFLOW", "2.21"))
    print("Model:       " + flags["model"])
    print("Dataset:     " + flags["data_name"] + ("" if flags["data_dir"] else " (synthetic)"))
    print("Mode:        " + ("forward only" if flags["forward_only"].lower() == "true" else "training"))
    print("SingleSess:  False")
    print(f"Batch size:  {batch * devices} global")
    print(f"             {batch} per device")
    print(f"Num batches: {steps}")
    print(f"Num epochs:  {steps * batch * devices / 1281167.0:.2f}")
    print("Devices:     {}".format(["/{}:{}".format(flags["device"], number) for number in range(devices)]))
    print("NUMA bind:   False")
    print("Data format: " + flags["data_format"])
    print("Optimizer:   sgd")
    print("Variables:   " + flags["variable_update"])
    print("==========")
    print("Generating training model")
    print("Initializing graph")
    print("Running warm up")


def next_total():
    """The total that this call shall print, or None."""
    totals = [total for total in os.environ.get("FAKE_TOTALS", "").split(",") if total]
    if not totals:
        return None
    calls = 0
    if "FAKE_COUNTER" in os.environ:
        counter = Path(os.environ["FAKE_COUNTER"])
        calls = int(counter.read_text()) if counter.exists() else 0
        counter.write_text(str(calls + 1))
    return totals[calls % len(totals)]


def print_steps(flags, total):
    """Train: step lines as upstream's, the running mean agreeing with the total to come. Returns the true total."""
    print("Done warm up")
    print("Step\tImg/sec\ttotal_loss")
    images, steps, every = int(flags["batch_size"]) * int(flags["num_gpus"]), int(flags["num_batches"]), int(flags["display_every"])
    start = time.perf_counter()
    for step in range(1, steps + 1):
        time.sleep(float(os.environ.get("FAKE_STEP_S", "0.001")))
        if step == 1 or step % every == 0:
            mean = float(total) if total else images * step / (time.perf_counter() - start)
            print(f"{step}\timages/sec: {mean:.1f} +/- 0.0 (jitter = 0.0)\t7.608")
    return f"{images * steps / (time.perf_counter() - start):.2f}"


def print_total(total):
    print(RULE)
    print("total images/sec: " + total)
    print(RULE)


def run(flags):
    """The whole of an ordinary log."""
    for number in range(int(os.environ.get("FAKE_GPUS", "0"))):
        device = f"/job:localhost/replica:0/task:0/device:GPU:{number} with 8000 MB memory"
        sys.stderr.write(f"Created device {device}:  -> device: {number}, name: Fake, pci bus id: 0000:00:06.0, compute capability: 9.0\n")
    if int(flags["batch_size"]) > int(os.environ.get("FAKE_MAX_BATCH", flags["batch_size"])):
        oom(flags)
    print_header(flags)
    total = next_total()
    true_total = print_steps(flags, total)
    print_total(total or true_total)
    sys.exit(int(os.environ.get("FAKE_EXIT_CODE", "0")))


def start_sleeper(ignores_sigterm=False, leaves_family=False):
    """A descendant that sleeps for ten minutes with our standard output open; `leaves_family`: in a session of its own, its parent gone."""
    code = "import os, signal, time\n"
    if leaves_family and os.name == "posix":
        code += "os.setsid()\nif os.fork():\n    os._exit(0)\n"
    if ignores_sigterm:
        code += "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    code += "open({!r}, 'a').write('%d\\n' % os.getpid())\n".format(os.environ.get("FAKE_PIDS", os.devnull))
    code += "print('descendant ready', flush=True)\ntime.sleep(600)\n"
    child = subprocess.Popen([sys.executable, "-c", code])
    if leaves_family and os.name == "posix":
        child.wait()


def hang(flags):
    print_header(flags)
    sys.stdout.flush()
    time.sleep(600)


def crash(flags):
    print_header(flags)
    raise ValueError("the fake was asked to crash")


def oom(flags):
    print_header(flags)
    sys.stderr.write("tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[512,64,112,112]\n")
    sys.exit(1)


def killed(flags):
    print_header(flags)
    print_steps(dict(flags, num_batches="1"), None)
    sys.stdout.flush()
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))


def no_total(flags):
    print_header(flags)
    print_steps(flags, None)


def garbage(flags):
    sys.stdout.flush()
    os.write(1, bytes(range(256)) + b"\xff\xfe\xfd\rhalf a line\r\x00\x1b[31m\n")
    run(flags)


def long_line(flags):
    sys.stdout.flush()
    left = int(os.environ.get("FAKE_LONG_LINE_BYTES", "1000000000"))
    while left:
        left -= os.write(1, b"x" * min(left, 1 << 20))


def orphan(flags):
    start_sleeper(leaves_family=True)
    run(flags)


def stubborn(flags):
    start_sleeper(ignores_sigterm=True)
    start_sleeper(ignores_sigterm=True, leaves_family=True)
    hang(flags)


def replay(flags):
    with Path(os.environ["FAKE_REPLAY"]).open("rb") as log:
        for line in log:
            os.write(1, line)
            time.sleep(float(os.environ.get("FAKE_LINE_S", "0")))
    sys.exit(int(os.environ.get("FAKE_EXIT_CODE", "0")))


BEHAVIOURS = {behaviour.__name__: behaviour for behaviour in (hang, crash, oom, killed, no_total, garbage, long_line, orphan, stubborn, replay)}


def main():
    given = dict(argument[2:].partition("=")[::2] for argument in sys.argv[1:] if argument.startswith("--"))
    flags = dict(DEFAULTS, **given)
    BEHAVIOURS.get(flags["model"], run)(flags)


if __name__ == "__main__":
    main()
