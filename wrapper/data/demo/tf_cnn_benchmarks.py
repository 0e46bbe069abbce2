"""A stand-in for tf_cnn_benchmarks that multiplies NumPy matrices, to show the flow around it without TensorFlow.

It takes the flags of tf_cnn_benchmarks that matter to that flow and prints in its format (branch 1.14 and later). Each step is
real work that is really timed, but of a made-up network: the figures can't be compared with anything. --use_fp16, --xla and
--data_dir are accepted and change nothing. Needs Python 3.8 and NumPy.
"""

import argparse
import re
import sys
import time

import numpy as np

NOTICE = "DEMO: NumPy matrix products, not TensorFlow. These figures can't be compared with anything."
RULE = "-" * 64
WIDTH = 512
ROWS_PER_IMAGE = 256

# The names that upstream knows for each data set, and the images that an epoch of it has.
MODELS = {
    "imagenet": r"alexnet|googlenet|inception[34]|lenet|mobilenet|nasnet(large)?|ncf|overfeat|trivial|vgg1[169]|resnet50_v1\.5"
    r"|resnet(50|101|152)(_v2)?|official_resnet(18|34|50|101|152|200)(_v2)?",
    "cifar10": r"alexnet|densenet(40_k12|100_k12|100_k24)|nasnet|resnet(20|32|44|56|110)(_v2)?|trivial",
    "coco": r"ssd300",
    "librispeech": r"deepspeech2",
}
EPOCH = {"imagenet": 1281167, "cifar10": 50000, "coco": 118287, "librispeech": 2}


class UpstreamParser(argparse.ArgumentParser):
    """Refuses a flag in the words and with the exit code that absl gives to upstream."""

    def error(self, message):
        print(f"FATAL Flags parsing error: {message}", file=sys.stderr)
        print("Pass --helpshort or --helpfull to see help on flags.", file=sys.stderr)
        sys.exit(1)


def boolean(text):
    """Read absl's spellings of a boolean."""
    values = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
    if text.lower() not in values:
        raise argparse.ArgumentTypeError(f"Non-boolean argument to boolean flag: {text}")
    return values[text.lower()]


def parse_flags(arguments):
    """Read the command line; a flag that is unknown or has no meaning here ends the program with exit code 1."""
    parser = UpstreamParser(allow_abbrev=False)
    parser.add_argument("--model", default="trivial")
    for name, default in (("batch_size", 0), ("num_batches", 0), ("num_warmup_batches", 10), ("num_gpus", 1), ("display_every", 10)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--device", choices=["cpu"], default="cpu")
    parser.add_argument("--data_format", choices=["NHWC", "NCHW"], default="NCHW")
    parser.add_argument("--variable_update", choices=["parameter_server", "replicated", "independent"], default="parameter_server")
    for name in ("use_fp16", "xla", "forward_only"):
        parser.add_argument("--" + name, type=boolean, nargs="?", const=True, default=False)
    parser.add_argument("--data_dir")
    parser.add_argument("--data_name", choices=sorted(MODELS), default="imagenet")
    flags, rest = parser.parse_known_args(arguments)
    for word in rest:
        if not word.startswith("-"):
            raise ValueError(f"Received unknown positional arguments: {[word]}")
        name = word.lstrip("-").split("=")[0]
        parser.error(f"Unknown command line flag '{name}'.")
    flags.batch_size = flags.batch_size if flags.batch_size > 0 else 32
    flags.num_batches = flags.num_batches or 100
    return flags


def print_header(flags):
    """Print the block that says what was asked for."""
    total_batch = flags.batch_size * flags.num_gpus
    rows = [
        ("TensorFlow:", "0.0"),
        ("Model:", flags.model),
        ("Dataset:", flags.data_name + " (synthetic)"),
        ("Mode:", "forward only" if flags.forward_only else "training"),
        ("SingleSess:", "False"),
        ("Batch size:", f"{total_batch} global"),
        ("", f"{flags.batch_size} per device"),
        ("Num batches:", str(flags.num_batches)),
        ("Num epochs:", f"{flags.num_batches * total_batch / EPOCH[flags.data_name]:.2f}"),
        ("Devices:", str([f"/{flags.device}:{index}" for index in range(flags.num_gpus)])),
        ("NUMA bind:", "False"),
        ("Data format:", flags.data_format),
        ("Optimizer:", "sgd"),
        ("Variables:", flags.variable_update),
    ]
    if flags.variable_update == "replicated":
        rows.append(("AllReduce:", "None"))
    for key, value in rows:
        print(f"{key:13}{value}")
    print("==========")


def build_step(flags):
    """Make the network and its data from a fixed seed; return a function that does one step and returns its loss (and accuracies, forward only)."""
    random = np.random.RandomState(1234)
    depth = re.search(r"\d+", flags.model)
    layers = [random.randn(WIDTH, WIDTH).astype(np.float32) / WIDTH**0.5 for _ in range(4 + int(depth.group() if depth else 8) // 8)]
    images = random.randn(flags.batch_size * flags.num_gpus * ROWS_PER_IMAGE, WIDTH).astype(np.float32)
    labels = random.randint(WIDTH, size=len(images))
    rows = np.arange(len(images))

    def step():
        values = images
        for layer in layers[:-1]:
            values = np.tanh(values @ layer)
        scores = values @ layers[-1]
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        scores /= scores.sum(axis=1, keepdims=True)
        if flags.forward_only:
            rank = (scores > scores[rows, labels][:, None]).sum(axis=1)
            return 0.0, np.mean(rank < 1), np.mean(rank < 5)
        loss = -np.log(scores[rows, labels]).mean()
        scores[rows, labels] -= 1
        layers[-1] -= 0.5 * (values.T @ scores) / len(images)
        return (loss,)

    return step


def step_line(number, seconds, batch, results):
    """One line of progress: the mean speed since the warm-up, its standard error, and 1.4826 times the median absolute deviation."""
    speeds = batch / np.array(seconds)
    jitter = 1.4826 * np.median(np.abs(speeds - np.median(speeds)))
    error = np.std(speeds) / len(speeds) ** 0.5
    columns = "".join(f"\t{value:.3f}" for value in results)
    return f"{number}\timages/sec: {batch / np.mean(seconds):.1f} +/- {error:.1f} (jitter = {jitter:.1f}){columns}"


def main():
    """Do what the command line asks for."""
    flags = parse_flags(sys.argv[1:])
    print(NOTICE, file=sys.stderr)
    if not re.fullmatch(MODELS[flags.data_name], flags.model):
        raise ValueError(f"Invalid model name '{flags.model}' for dataset '{flags.data_name}'")
    print_header(flags)
    print("Generating training model")
    print("Initializing graph")
    step = build_step(flags)
    print("Running warm up")
    for _ in range(flags.num_warmup_batches):
        step()
    print("Done warm up")
    print("Step\tImg/sec\ttotal_loss" + ("\ttop_1_accuracy\ttop_5_accuracy" if flags.forward_only else ""))

    batch = flags.batch_size * flags.num_gpus
    seconds = []
    start = time.perf_counter()
    for number in range(1, flags.num_batches + 1):
        before = time.perf_counter()
        results = step()
        seconds.append(time.perf_counter() - before)
        if number == 1 or number % flags.display_every == 0:
            print(step_line(number, seconds, batch, results))
    elapsed = time.perf_counter() - start
    print(RULE)
    print(f"total images/sec: {flags.num_batches * batch / elapsed:.2f}")
    print(RULE)


if __name__ == "__main__":
    main()
