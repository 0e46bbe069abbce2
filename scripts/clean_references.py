"""Make `wrapper/data/references/results.csv` and `sources.csv` from the collected tables of published figures.

    python scripts/clean_references.py [DIRECTORY]

DIRECTORY holds `training.csv`, `inference.csv` and `sources.csv` as collected (default: ../shared/references beside the project).
No figure is changed and no row is dropped: a row keeps the name of its table and its number in it ("training-1" is the first row
below the header). The collectors' free notes become columns; a note that no rule here understands stops the cleaning, so nothing is lost
in silence. `gpus.csv` is kept by hand.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from wrapper.reporter.reference import BEFORE_TF32

PROJECT = Path(__file__).resolve().parents[1]
TARGET = PROJECT / "wrapper" / "data" / "references"

COLUMNS = (
    *("row", "source", "gpu", "machine", "devices", "model", "batch_size", "precision", "tf32", "xla", "mode", "data", "data_set"),
    *("variable_update", "all_reduce", "parameter_device", "optimizer", "tensorflow", "images_per_sec", "loss_nan"),
    *("repeats", "warmup_steps", "steps", "date", "setup", "caution"),
)

# collected name -> (canonical name of gpus.csv, what else it says about the machine)
GPU_NAMES = {
    "CPU (EC2 r4.16xlarge)": ("CPU of EC2 r4.16xlarge", ""),
    "CPU Xeon E5-2686 v4 (EC2 m4.xlarge)": ("CPU Xeon E5-2686 v4", "EC2 m4.xlarge"),
    "Radeon Vega 7 (Ryzen 4700U iGPU)": ("Radeon Vega 7", "integrated in Ryzen 4700U"),
    "Tesla V100-PCIE-16GB (remote vGPU over RDMA)": ("Tesla V100-PCIE-16GB", "remote vGPU over RDMA"),
}

# collected variable_update -> (upstream's flag, all-reduce, where the parameters live)
VARIABLE_UPDATES = {
    "": ("", "", ""),
    "parameter_server": ("parameter_server", "", ""),
    "parameter_server(default)": ("parameter_server", "", ""),
    "parameter_server(cpu)": ("parameter_server", "", "cpu"),
    "parameter_server(gpu)": ("parameter_server", "", "gpu"),
    "replicated": ("replicated", "", ""),
    "replicated(nccl)": ("replicated", "nccl", ""),
    "replicated(NCCL)": ("replicated", "nccl", ""),
    "replicated(no NCCL; gpu)": ("replicated", "none", "gpu"),
    "distributed_replicated": ("distributed_replicated", "", ""),
    "distributed_replicated(cross_replica_sync)": ("distributed_replicated", "", ""),
    "horovod": ("horovod", "", ""),
    "horovod(2 nodes)": ("horovod", "", ""),
}

# what a source's method says of all its rows
OPTIMIZERS = {"lambda_logs_2020_21": "sgd", "nd_a100_2021": "sgd"}

# (part of a note, {column: value}): "setup" and "caution" collect, others are set; {1} is the first group. An empty mapping: where it was
# found, who wrote it, or what another column says already.
RULES: tuple[tuple[str, dict[str, str]], ...] = (
    (r"loss=nan", {"loss_nan": "true"}),
    (r"Ampere: TF32 may be active \(not recorded\)|\"fp32\" on Ampere may be TF32", {}),
    # runs and steps
    (r"5 runs averaged; each 10 warm-up \+ 100 timed steps", {"repeats": "5", "warmup_steps": "10", "steps": "100"}),
    (r"5 runs x \(10 warm-up \+ 100 steps\)", {"repeats": "5", "warmup_steps": "10", "steps": "100"}),
    (r"1 run x 10 batches", {"repeats": "1", "steps": "10"}),
    (r"num_batches=(\d+)|(?<![\d_-])(\d+) (?:batches|steps)\b", {"steps": "{1}"}),
    (r"config=(\w+) run=(\d)", {"setup": "configuration {1}, run {2}", "repeats": "1"}),
    (r"run on (host|container)", {"setup": "{1}", "repeats": "1"}),
    (r"optimizer (\w+)", {"optimizer": "{1}"}),
    # data and flags
    (r"dataset=(cifar10|imagenet)(?: \(synthetic\))?", {"data_set": "{1}"}),
    (r"ImageNet TFRecords", {"data_set": "imagenet"}),
    (r"--distortions=false --local_parameter_device=(gpu)", {"setup": "no distortions", "parameter_device": "{1}"}),
    (r"--use_tf_layers=false", {"setup": "use_tf_layers=false"}),
    (r"--device=cpu --data_format=NHWC", {"setup": "NHWC"}),
    (r"(?<!with )TF_ROCM_FUSION_ENABLE=1", {"setup": "TF_ROCM_FUSION_ENABLE=1"}),
    # software and hardware
    (r"CUDA ([\d.]+)[/ ]cuDNN ([\d.]+)", {"setup": "CUDA {1}, cuDNN {2}"}),
    (r"CUDA (10), other machine", {"setup": "CUDA {1}"}),
    (r"(ROCm [\d.]+)(?:, (Ubuntu 18\.04|lxc container))?(?=;|,|$)", {"setup": "{0}"}),
    (r"(?:git|benchmarks) (?:git )?(9165a70)", {"setup": "upstream {1}"}),
    (r"HPE dlcookbook-dlbs fork of tf_cnn_benchmarks \((\w+)\)", {"setup": "fork of upstream ({1})"}),
    (r"mkl_experiment branch of tf_cnn_benchmarks", {"setup": "branch mkl_experiment"}),
    (r"build=(\w+)", {"setup": "{1} build"}),
    (r"cnn_tf_v2\.1_compatible|PowerAI 1\.7\.0|NGC [\w.-]+(?: image)?|i7-6700K|(?:2x )?EPYC \d+|Ryzen 9 5950X|Threadripper 1920X", {"setup": "{0}"}),
    (r"docker (tensorflow:[\w.-]+)", {"setup": "container {1}"}),
    (r"DirectML \(Windows\)", {"setup": "DirectML on Windows"}),
    (r"host has 8 GPUs", {"setup": "8 GPUs in the host"}),
    (r"\bIB\b", {"setup": "InfiniBand"}),
    (r"GPUs accessed through Orion vGPU", {"setup": "Orion vGPU"}),
    (r"(\d+) parameter servers", {"setup": "parameter servers: {1}"}),
    (r"\"other results\" table, batch 32", {"setup": "the page's further table"}),
    (r"older version of the same docs", {"setup": "older version of the page"}),
    (r"Aug 2017", {"date": "2017-08"}),
    (r"May 2017", {"date": "2017-05"}),
    (r"Jan (2019|2024)", {"date": "{1}-01"}),
    # reasons to trust a row less
    (r"precision not named on page \(script of that date had fp32 default\)", {"caution": "precision taken from upstream's default"}),
    (r"precision not printed \(fp32 presumed\)", {"caution": "precision taken from upstream's default"}),
    (r"precision not (?:visible \(fp32 is the script default\)|stated \(fp32 presumed\))", {}),
    (r"variable_update and precision not recorded \(no use_fp16 seen\)", {"caution": "precision inferred: no flag for fp16 recorded"}),
    (r"no --use_fp16", {"caution": "precision inferred: no flag for fp16 shown"}),
    (r"\(FP32 inferred: ratios match the FP32 bullet list\)", {"caution": "precision inferred from the page's other figures"}),
    (r"variable_update assumed same as main table", {"caution": "variable update taken from the page's main table"}),
    (r"heading says InceptionV3 but the printed command says resnet50", {"caution": "heading and command name different models"}),
    (r"best setting found", {"caution": "best of several settings"}),
    (r"(?:\()?rounded in source(?:\))?", {"caution": "rounded"}),
    (r"\bapproximate\b", {"caution": "approximate"}),
    (r"stated batch 8\*256 belongs to the Estimator command", {"caution": "batch size stands beside another command"}),
    (r"author notes: memory not enough", {"caution": "memory was short"}),
    (r"run with unified memory oversubscription \(batch exceeds VRAM\) - not a normal speed", {"caution": "batch larger than the GPU's memory"}),
    (r"value = step 100 running mean(?: \(total line not in excerpt\))?", {"caution": "running mean at step 100, not a total"}),
    (r"still falling during the run", {"caution": "falling during the run"}),
    (r"very jittery run", {"caution": "unsteady run"}),
    (r"the two threads disagree: 93 \(#256\) vs 105 \(#173\)", {"caution": "published as 93 and as 105"}),
    (r"\(3\.5 shows a known regression\)", {"caution": "ROCm 3.5 has a known regression"}),
    (r"memory clock capped(?: at 875 MHz by driver)?", {"caution": "memory clock held low by the driver"}),
    (r"ROCm issue repeats 97\.40 \(ROCm 5\.3\) and 80\.03 \(ROCm 5\.4\)", {"caution": "80.03 with ROCm 5.4"}),
    (r"early DirectML preview - reported as a bug", {"caution": "early preview, reported as a bug"}),
    (r"--eval=True \(inference incl\. accuracy\)", {"caution": "measured by --eval, which also computes the accuracy"}),
    (r"GPU type from horovod#288, where the same author[\w ]+4x V100 nodes", {"caution": "GPU taken from another post of the author"}),
    (r"8-GPU value limited by preprocessing", {"caution": "at 8 GPUs the input pipeline limits"}),
    # where it was found, or what the columns say already
    (r"average_examples_per_sec from metric\.log|CIFAR-10 images \(32x32\), not ImageNet-size|performance guide page|forward_only|\btraining\b", {}),
    (r"with TF_ROCM_FUSION_ENABLE=1 step 50 shows [\d.]+ \(total not visible\)|\(same commits as tensorflow\.org page\)", {}),
    (r"(?:Akash network docs|Chinese blog in a stored repository|TACC Longhorn user guide) \((?:find_string|stored) id \d+\)|same post", {}),
    (r"stored note id \d+|Korean blog note ids [\d/]+|virtaitech/orion doc/quick-start/remote_rdma\.md|server-gear\.com RTX \d+ x\d page", {}),
    (r"first table in stored page excerpt|batch size not in excerpt \(repo scripts[^)]*\)", {}),
    (r"(?:alexnet )?batch not (?:in excerpt|stated(?: \(script default[^)]*\))?)", {}),
    (r"the shown command is for resnet50|command shown for vgg16 batch 64, replicated\+nccl|data kind not visible", {}),
    (r"TF version not (?:in excerpt|stated)|TF nightly|variable_update not stated|[\w /]+ (?:rows|tables|page|GPUs) cut off", {}),
    (r"attempt to reproduce tf_org_ec2 \(230/228 at 8 GPUs\)", {}),
    (r"(?:microsoft/|tensorflow/)?[\w-]+#(\d+)(?: (?:vilmara|daadaada|tfboyd|reedwm|GD06)\b)?", {"setup": "issue {1}"}),
    (r"(?<!\w)#(256 \+ #173|\d+)(?: (?:user fshi98, /12-01|WannaBeOCer|comment|extraymond|himanshugoel2797|witeko)\b)?", {"setup": "issue {1}"}),
    (r"tfboyd/benchmark_harness (?:eval_0_stdout\.txt|sample log worker_0_stdout\.txt, run)", {}),
    (r"tensorflow/models PR 5518 tfboyd : \"benchmark code \(non-xla\), 5,700\"", {}),
)

# row -> why to trust it less, which its note doesn't say: the logs themselves, read again with `tfcnn import`, don't bear it out
CAUTIONS = {
    "training-521": "the log's header says 256 per device, but 1024 global on 2 GPUs",
    "training-527": "the log's header says 256 per device, but 2048 global on 4 GPUs",
    "training-533": "the log's header says 256 per device, but 4096 global on 8 GPUs",
}


def main() -> int:
    collected = Path(sys.argv[1]) if len(sys.argv) > 1 else PROJECT.parent / "shared" / "references"
    with (TARGET / "gpus.csv").open(encoding="utf-8", newline="") as file:
        architectures = {line["gpu"]: line["architecture"] for line in csv.DictReader(file)}
    sources = {line["source"]: line for line in _read(collected / "sources.csv")}
    results = [
        clean_row(row, f"{table}-{number}", sources[row["source"]], architectures)
        for table in ("training", "inference")
        for number, row in enumerate(_read(collected / f"{table}.csv"), start=1)
    ]
    _write(TARGET / "results.csv", COLUMNS, results)
    _write(TARGET / "sources.csv", tuple(next(iter(sources.values()))), sources.values())
    print(f"{len(results)} figures of {len(sources)} sources")
    return 0


def clean_row(row: Mapping[str, str], name: str, source: Mapping[str, str], architectures: Mapping[str, str]) -> dict[str, str]:
    """One collected row as a row of results.csv.

    Args:
        row: as collected.
        name: "training-1" is the first row of training.csv.
        source: its source, whose repeats and steps hold where the row's note says nothing else.
        architectures: of each canonical GPU name.

    Raises:
        ValueError: a part of the note that no rule understands.
        KeyError: an unknown GPU or variable update.
    """
    gpu, machine = GPU_NAMES.get(row["gpu"], (row["gpu"], row["machine"]))
    update, all_reduce, parameter_device = VARIABLE_UPDATES[row["variable_update"]]
    noted = read_note(row["note"])
    caution = [text for text in (noted.get("caution"), CAUTIONS.get(name)) if text]
    return {
        **{column: row[column] for column in ("source", "devices", "model", "batch_size", "precision", "data", "tensorflow", "images_per_sec")},
        "row": name,
        "gpu": gpu,
        "machine": machine,
        # whether TF32 was on is not recorded by any source
        "tf32": "false" if row["precision"] == "fp32" and architectures[gpu] in BEFORE_TF32 else "",
        "xla": {"yes": "true", "no": "false", "": ""}[row["xla"]],
        "mode": {"training": "training", "inference": "forward only"}[row["mode"]],
        "variable_update": update,
        "all_reduce": all_reduce,
        "parameter_device": noted.get("parameter_device", parameter_device),
        "optimizer": noted.get("optimizer", OPTIMIZERS.get(row["source"], "")),
        "repeats": noted.get("repeats", source["repeats"]),
        "steps": noted.get("steps", source["steps"]),
        "date": row["date"] or noted.get("date", ""),
        **{column: noted.get(column, "") for column in ("data_set", "loss_nan", "warmup_steps", "setup")},
        "caution": "; ".join(caution),
    }


def read_note(note: str) -> dict[str, str]:
    """The columns that a collector's note fills."""
    columns: dict[str, str] = {}
    rest = note
    for pattern, updates in RULES:
        for match in re.finditer(pattern, rest):
            groups = [match[0], *(group for group in match.groups() if group is not None)]
            for column, template in updates.items():
                value = template.format(*groups)
                columns[column] = f"{columns[column]}; {value}" if column in columns and column in ("setup", "caution") else value
        rest = re.sub(pattern, "", rest)
    if rest.strip(" ;,:"):
        raise ValueError(f"no rule for {rest!r} in the note {note!r}")
    return columns


def _read(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _write(path: Path, columns: tuple[str, ...], rows: Iterable[Mapping[str, str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    sys.exit(main())
