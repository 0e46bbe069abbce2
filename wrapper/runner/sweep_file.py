"""A sweep file's plain values. A file may come from anywhere: what could grow out of proportion is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from wrapper.errors import UsageError
from wrapper.runner.quoting import shown

MAX_BYTES = 1_000_000


def read_sweep_file(path: Path) -> dict[Any, Any]:
    """The keys and values of the YAML mapping in `path`.

    Raises:
        OSError: it can't be read.
        UsageError: too large, not YAML, or not a mapping.
    """
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise UsageError(f"{path} is larger than {MAX_BYTES} bytes", "Name a sweep file")
    try:
        raw = yaml.load(data.decode("utf-8"), _SweepLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: not UTF-8, or a number or a date that can't be one
        raise UsageError(f"{path} is not valid YAML ({' '.join(str(error).split())[:300]})", "Mend the file") from error
    if not isinstance(raw, dict):
        raise UsageError(f"{path} holds no keys", "A sweep file is a YAML mapping with at least the key 'models'")
    return raw


class _SweepLoader(yaml.SafeLoader):
    """PyYAML's safe loader, without repeated keys, of which the last would win in silence, and without aliases, which multiply what a file holds."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "aliases are not read; write the value out", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode) and key_node.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key {shown(key_node.value)} stands twice", key_node.start_mark)
            seen.add(str(key_node.value))
        return super().construct_mapping(node, deep=deep)
