"""The command line, and what its options come to."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

import wrapper
from wrapper.argument_types import HOME, given_path, given_place, given_text
from wrapper.comparison_arguments import add_comparing
from wrapper.errors import UsageError
from wrapper.runner.quoting import shown

if TYPE_CHECKING:
    from wrapper.bootstrapper.setup import Wish
    from wrapper.opening import Request


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        prog="tfcnn",
        allow_abbrev=False,
        description="Run TensorFlow's official CNN benchmark, pinned to a TensorFlow release, three times a model, and say how fast this machine is.",
    )
    top.add_argument("--version", action="version", version=f"tfcnn {wrapper.__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", allow_abbrev=False, help="bootstrap, run a sweep, report", description="Bootstrap, run a sweep, report.")
    _add_wish(run)
    _add_sweep(run)
    _add_conduct(run)
    _add_beginning(run)
    noise = commands.add_parser("noise", allow_abbrev=False, help="run one case against itself, and say how small a difference can be told apart")
    _add_wish(noise)
    _add_sweep(noise)
    _add_conduct(noise)
    noise.add_argument("--pairs", type=int, default=5, metavar="N", help="trials on each side (default 5)")
    batch_size = commands.add_parser("batch-size", allow_abbrev=False, help="find the largest batch size per device that trains on this GPU")
    batch_size.add_argument("names", nargs="+", metavar="MODEL", help="a model of upstream's, such as resnet50")
    _add_wish(batch_size)
    _add_sweep(batch_size)
    _add_conduct(batch_size)
    bootstrap = commands.add_parser(
        "bootstrap", allow_abbrev=False, help="fetch upstream and make the environment, here or for a machine without a network"
    )
    _add_wish(bootstrap)
    doctor = commands.add_parser("doctor", allow_abbrev=False, help="say what stands in the way of a sweep on this machine, and what to do about it")
    _add_wish(doctor, demo=False)
    doctor.add_argument("--deep", action="store_true", help="import each TensorFlow that is found, and see whether it sees the GPU")
    doctor.add_argument("--json", action="store_true", help="print the findings as JSON")
    releases = commands.add_parser("releases", allow_abbrev=False, help="list the TensorFlow releases, and which of them this machine can run")
    releases.add_argument("--json", action="store_true", help="print all that is known of each as JSON")
    add_comparing(commands)
    return top


def _add_beginning(run: argparse.ArgumentParser) -> None:
    run.add_argument("--resume", type=given_path, metavar="DIR", help="go on with the sweep whose report is in DIR")
    run.add_argument("--retry", type=int, action="append", metavar="INDEX", help="with --resume: run this trial again; may be repeated")
    run.add_argument(
        "--as-published",
        type=given_text,
        metavar="SOURCE",
        help="repeat the conditions of a published source: tf_org_dgx1, tf_org_gce or tf_org_ec2 (GPUs of tensorflow.org's page of 2017)",
    )
    run.add_argument("--dry-run", action="store_true", help="print the plan with every command line, and start nothing")


def _add_wish(command: argparse.ArgumentParser, *, demo: bool = True) -> None:
    group = command.add_argument_group("what to run on")
    group.add_argument(
        "--tensorflow",
        type=given_text,
        metavar="RELEASE",
        help="such as 1.12.0 or 2.21 (default: what --environment names, else the newest that this machine's Pythons serve); run and bootstrap take"
        " several, as 1.12.0,2.21, which run sets side by side",
    )
    source = group.add_mutually_exclusive_group()
    source.add_argument(
        "--environment",
        type=given_place,
        metavar="KIND[:NAME]",
        help="where TensorFlow comes from: locked (default: made from the release's lock), python:PATH, conda (made for the release), conda:NAME,"
        " docker[:IMAGE] or podman[:IMAGE]; what is named is used as it is, and the release is read from it",
    )
    source.add_argument("--python", type=given_place, metavar="PATH", help="the short form of --environment python:PATH")
    group.add_argument("--device", choices=("auto", "cpu", "gpu"), default="auto", help="default: the GPU where there is one")
    group.add_argument(
        "--upstream", type=given_text, metavar="ADDRESS", help="a mirror, a clone or a git bundle of tensorflow/benchmarks (also TFCNN_UPSTREAM)"
    )
    group.add_argument(
        "--vendor",
        type=given_path,
        default=HOME / "vendor",
        metavar="DIR",
        help="where upstream and environments are kept (default: the project's vendor/)",
    )
    command.set_defaults(demo=False, commit=None)
    if demo:
        group.add_argument(
            "--commit",
            type=given_text,
            metavar="SHA",
            help="another commit of upstream than the release's own; every trial is marked as unverified",
        )
        what = "show the flow in a minute without TensorFlow, GPU or network; its figures mean nothing"
        group.add_argument("--demo", action="store_true", help=what)


def _add_conduct(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--reports", type=given_path, default=HOME / "reports", metavar="DIR", help="where reports go (default: the project's reports/)"
    )
    command.add_argument("--unproven-device", action="store_true", help="start although TensorFlow sees too few GPUs; trials are judged all the same")
    command.add_argument("--no-telemetry", action="store_true", help="sample nothing while trials run")
    command.add_argument("--wait-idle", action="store_true", help="wait until nobody else computes on the devices and the host")


def _add_sweep(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("what to run", "Each of these stands for the key of the same name in a sweep file, and goes over it.")
    group.add_argument(
        "--sweep", type=given_text, metavar="NAME_OR_FILE", help="all (default with a GPU), cpu (default without), official, smoke, or a YAML file"
    )
    group.add_argument(
        "--models",
        type=given_text,
        metavar="MODEL=BATCH,...",
        help="such as resnet50=64,vgg16=32; a batch size is per device, and may be left out where the sweep has it",
    )
    group.add_argument("--repeats", type=int, metavar="N", help="trials of each case (default 3)")
    group.add_argument("--steps", type=int, metavar="N", help="timed steps of a trial (default: the sweep's)")
    group.add_argument("--warmup-steps", type=int, metavar="N", help="steps before the timed ones (default: the sweep's)")
    group.add_argument("--devices", type=given_text, metavar="N,...", help="how many devices; several numbers make several cases")
    group.add_argument("--precisions", type=given_text, metavar="P,...", help="fp32, fp16 or both")
    group.add_argument("--xla", choices=("off", "on", "both"), help="XLA's automatic clustering")
    group.add_argument("--forward-only", action="store_true", default=None, help="inference instead of training")
    group.add_argument("--variable-update", type=given_text, metavar="WAY", help="parameter_server, replicated or independent")
    group.add_argument("--data-dir", type=given_place, metavar="DIR", help="real data (default: upstream's synthetic data)")
    group.add_argument("--data-name", type=given_text, metavar="NAME", help="upstream's data set: imagenet, cifar10, coco or librispeech")
    group.add_argument("--flag", type=given_text, action="append", metavar="NAME=VALUE", help="one more upstream flag; may be repeated")
    group.add_argument(
        "--until", type=given_text, metavar="PERCENT", help="such as 1%%: repeat until each case's 95 %% interval is within this of its mean"
    )
    group.add_argument("--max-repeats", type=int, metavar="N", help="with --until or --budget: no more repeats than this (default 20)")
    group.add_argument(
        "--budget", type=given_text, metavar="DURATION", help="such as 30m: plan steps and repeats so that the whole sweep fits, and keep to it"
    )
    group.add_argument("--time-limit", type=given_text, metavar="DURATION", help="for one trial, such as 30m or 2h (default 2h)")


def request(options: argparse.Namespace, given: list[str], keys: dict[str, Any], **more: Any) -> Request:
    from wrapper.opening import Request

    return Request(
        wish=wish(options),
        sweep=options.sweep,
        overrides=keys,
        reports=options.reports.resolve(),
        telemetry=not options.no_telemetry,
        wait_idle=options.wait_idle,
        command=("tfcnn", *given),
        **more,
    )


def wish(options: argparse.Namespace) -> Wish:
    from wrapper.bootstrapper.address import DEFAULT_ADDRESS, check_address
    from wrapper.bootstrapper.setup import Wish
    from wrapper.bootstrapper.source import parse_source

    if given := [name for name in ("tensorflow", "environment", "python", "commit") if options.demo and getattr(options, name)]:
        raise UsageError(f"--{given[0]}: the demo has a TensorFlow and an upstream of its own", f"Leave one of --{given[0]} and --demo out")
    return Wish(
        tensorflow=options.tensorflow,
        source=parse_source(f"python:{options.python}" if options.python else options.environment or "locked"),
        commit=options.commit,
        device=options.device,
        # the demo has an upstream of its own, whatever the environment says
        upstream=check_address(options.upstream or (not options.demo and os.environ.get("TFCNN_UPSTREAM")) or DEFAULT_ADDRESS),
        vendor=options.vendor.resolve(),
        demo=options.demo,
        unproven_device=(unproven := getattr(options, "unproven_device", False)),
        # a plan, of which nothing is started, may be made on any machine
        elsewhere=getattr(options, "dry_run", False) and not unproven,
    )


def overrides(options: argparse.Namespace) -> dict[str, Any]:
    """The keys of the sweep that flags set, as YAML would give them."""
    keys = (
        "repeats",
        "steps",
        "warmup_steps",
        "forward_only",
        "variable_update",
        "data_dir",
        "data_name",
        "time_limit",
        "until",
        "max_repeats",
        "budget",
    )
    keys_set = {key: getattr(options, key) for key in keys if getattr(options, key) is not None}
    if options.models is not None:
        keys_set["models"] = _models(options.models)
    if options.devices is not None:
        keys_set["devices"] = [_whole_number(number, "--devices") for number in options.devices.split(",")]
    if options.precisions is not None:
        keys_set["precisions"] = options.precisions.split(",")
    if options.xla is not None:
        keys_set["xla"] = {"off": [False], "on": [True], "both": [False, True]}[options.xla]
    if options.flag is not None:
        pairs = [text.removeprefix("--").partition("=") for text in options.flag]
        keys_set["flags"] = {name: value if equals else "true" for name, equals, value in pairs}
    return keys_set


def _models(text: str) -> dict[str, tuple[int | str, ...]]:
    models: dict[str, tuple[int | str, ...]] = {}
    for part in text.split(","):
        name, equals, size = part.strip().partition("=")
        if not name:
            raise UsageError(f"--models {shown(text)}: a model's name is missing", "Write MODEL=BATCH, such as resnet50=64,vgg16=32")
        if size == "max":
            models[name] = ("max",)
        else:
            models[name] = models.get(name, ()) + ((_whole_number(size, f"--models {name}"),) if equals else ())
    return models


def _whole_number(text: str, flag: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{flag}: {shown(text)} is not a whole number") from None
