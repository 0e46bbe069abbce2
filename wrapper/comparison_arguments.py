"""The options of the commands that run nothing and set figures beside each other."""

from __future__ import annotations

import argparse

from wrapper.argument_types import HOME, given_list, given_path, given_ratio, given_text


def add_comparing(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add those commands."""
    _add_report(commands.add_parser("report", allow_abbrev=False, help="make a report again from its records"))
    _add_compare(commands.add_parser("compare", allow_abbrev=False, help="compare reports or logs with published figures or with a report"))
    _add_references(commands.add_parser("references", allow_abbrev=False, help="list published figures with their conditions and sources"))
    imports = commands.add_parser("import", allow_abbrev=False, help="read other people's logs, and say which figures can be believed")
    imports.add_argument("paths", type=given_path, nargs="+", metavar="PATH", help="a log, or a directory that is searched for logs")
    imports.add_argument("--csv", type=given_path, metavar="FILE", help="write a row for each log")
    verify = commands.add_parser("verify", allow_abbrev=False, help="recompute a report from its logs; exits with 1 when something does not hold")
    verify.add_argument("directory", type=given_path, metavar="DIR", help="a report's directory, or that of several releases")
    merge = commands.add_parser("merge", allow_abbrev=False, help="put reports of several machines side by side")
    merge.add_argument("directories", type=given_path, nargs="+", metavar="DIR", help="a report's directory, or a directory of reports")
    site = commands.add_parser("site", allow_abbrev=False, help="make a static site of reports")
    site.add_argument("out", type=given_path, metavar="OUT", help="the directory to make it in")
    site.add_argument(
        "directories", type=given_path, nargs="+", metavar="DIR", help="a report, a directory of reports, or one of other people's logs"
    )


def _add_report(command: argparse.ArgumentParser) -> None:
    command.add_argument("directory", type=given_path, metavar="DIR", help="a report's directory, or that of several releases")
    command.add_argument("--block", action="store_true", help="print only a block of Markdown to paste into an issue or a forum")
    command.add_argument("--price", type=float, metavar="AMOUNT", help="what the hardware cost, for images per unit of price")
    command.add_argument("--kwh", type=float, metavar="AMOUNT", help="what a kilowatt-hour costs, for the energy of an image")
    command.add_argument("--per-hour", type=float, metavar="AMOUNT", help="what an hour of the machine costs, as clouds rent it")
    _add_against(command)
    command.epilog = (
        "What it is compared with is kept in comparison.json and shown in report.md and report.html from then on; delete that file to end it."
    )


def _add_compare(command: argparse.ArgumentParser) -> None:
    command.add_argument("compared", type=given_path, nargs="+", metavar="REPORT", help="a report's directory, or a log or a directory of logs")
    _add_against(command)
    command.add_argument("--fail-below", type=given_ratio, metavar="RATIO", help="such as 0.95: exit with 5 when a case is slower than this")
    command.add_argument("--junit", type=given_path, metavar="FILE", help="with --fail-below: write the outcome as JUnit XML")
    command.add_argument("--json", type=given_path, metavar="FILE", help="write the means as continuous-benchmark actions read them")


def _add_against(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--against",
        type=given_list,
        action="extend",
        default=[],
        metavar="SOURCE_OR_DEVICE,...",
        help="a source (see tfcnn references --sources), a GPU, a family or an architecture, such as tf_org_dgx1, 'RTX 2080 Ti', V100 or Turing; or "
        "CPU; may be repeated",
    )
    command.add_argument("--baseline", type=given_text, metavar="NAME_OR_DIR", help="another report, or a directory of logs, to compare with")
    command.add_argument("--strict", action="store_true", help="keep only references whose conditions are all stated and the same")
    command.add_argument("--all", action="store_true", help="print every ratio with its conditions, also where that takes many screens")
    command.add_argument("--reports", type=given_path, default=HOME / "reports", metavar="DIR", help="where a --baseline is found by its name")


def _add_references(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--gpu", type=given_text, metavar="NAME", help="a GPU, a family or an architecture, such as 'RTX 2080 Ti', V100 or Turing; or CPU"
    )
    command.add_argument("--model", type=given_text, metavar="NAME", help="such as resnet50")
    command.add_argument("--source", type=given_text, metavar="NAME", help="such as tf_org_dgx1; --sources lists them")
    command.add_argument("--sources", action="store_true", help="list the sources of the figures instead of the figures")
    command.add_argument("--precision", choices=("fp32", "fp16"), help="only figures that state this one")
    command.add_argument("--batch-size", type=int, metavar="N", help="per device")
    command.add_argument("--devices", type=int, metavar="N", help="0: the CPU")
    command.add_argument("--mode", choices=("training", "forward-only"), help="forward-only is inference")
    command.add_argument("--all", action="store_true", help="print each figure, however many there are, instead of counting them")
    command.add_argument("--json", action="store_true", help="print all that is known of each figure as JSON")
