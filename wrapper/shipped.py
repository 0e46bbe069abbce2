"""The tables that come with the program, in `wrapper/data`: read by all, written by `scripts/` alone."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from wrapper.errors import FatalError

DATA = Path(__file__).parent / "data"

T = TypeVar("T")


def read_table(path: Path, kind: type[T]) -> T:
    """Read a YAML file as values of a kind.

    Raises:
        FatalError: it is not YAML, or a row is incomplete or of the wrong type, such as a version without quotes.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # eight times as fast; a PyYAML that was built without libyaml lacks it
    try:
        return msgspec.convert(yaml.load(path.read_text(encoding="utf-8"), loader), kind)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        remedy = 'Take back what was changed in it by hand. Versions are text: write them in quotes, as in tensorflow: "1.10.1"'
        raise FatalError(f"the table {path} is wrong: {error}", remedy) from error


def write_table(path: Path, header: str, table: msgspec.Struct) -> None:
    """Write values as a YAML file that `read_table` reads, whole, or leave the file as it was.

    Args:
        header: comments that stand before it.
    """
    import yaml

    text = yaml.safe_dump(msgspec.to_builtins(table), sort_keys=False, default_flow_style=None, width=10_000, allow_unicode=True)
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_text(header + text, encoding="utf-8", newline="\n")
    temporary.replace(path)
