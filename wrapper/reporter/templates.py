"""The templates in `data/templates`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from wrapper.shipped import DATA

if TYPE_CHECKING:
    import jinja2

TEMPLATES = DATA / "templates"


def environment(finalize: Callable[[object], object], *, html: bool) -> jinja2.Environment:
    """Where templates are looked up; a name that a template uses and is not given raises jinja2.UndefinedError.

    Args:
        finalize: escapes whatever is printed into a template.
        html: whether that is done for HTML too.
    """
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES, encoding="utf-8"),
        autoescape=html,
        finalize=finalize,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        extensions=["jinja2.ext.do"],
    )
