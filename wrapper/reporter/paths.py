"""Text without the directories of the machine that it comes from, which say nothing to others and name a user. Pure."""

from __future__ import annotations

import re
from pathlib import PureWindowsPath

_SHOWN = r"(?!(?:job|device|[cg]pu):|(?:dev|proc|sys)/)"
"""After a first slash: TensorFlow's names of devices, and what every Linux has, such as /dev/shm."""
_PART = r"""[^\s/'"<>,;:()]+"""
_POSIX = rf"""(?:/(?:home|Users)/{_PART}[ ]{_PART}/|/{_SHOWN}{_PART}/|~[\w.-]*/)[^\s'"<>,;()]*"""
_WINDOWS = r"""(?:[A-Za-z]:[\\/]|\\\\)(?:[^\s'"<>,;|()]|[ ](?=[^\s\\]*\\))*"""
_START = rf"(?:file://)?(?:~[\w.-]*[/\\]|/{_SHOWN}|[A-Za-z]:[\\/]|\\\\)"
_WHOLE = re.compile(_START)
_WITHIN = re.compile(rf"""(?P<quote>['"])(?P<quoted>{_START}[^'"]*)(?P=quote)|(?<![\w.:/\\…~-])(?P<bare>(?:file://)?(?:{_POSIX}|{_WINDOWS}))""")
"""Between quotes a path may hold whatever it likes; elsewhere it ends with the word, but for a space in a user's name and in Windows' directories."""


def without_directories(text: str) -> str:
    """Text with "…/name" for each absolute path in it, and "~" for a user's own directory; addresses (https://...) stay as they are."""
    return _WITHIN.sub(lambda found: found[0].replace(found["quoted"] or found["bare"], _shortened(found["quoted"] or found["bare"])), text)


def short_path(text: str) -> str:
    """The same for a text that may be one path, with whatever spaces in it."""
    return _shortened(text) if _WHOLE.match(text) else without_directories(text)


def _shortened(path: str) -> str:
    *parents, name = PureWindowsPath(path).parts  # it knows the separators of both worlds
    if not parents:
        return path
    return "~" if parents[-1] in {"home", "Users"} else f"…/{name}"
