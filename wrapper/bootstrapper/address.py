"""Where upstream may be fetched from, and how an address is shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from wrapper.errors import UsageError

DEFAULT_ADDRESS = "https://github.com/tensorflow/benchmarks.git"

_ALLOWED = "Use an https:// or ssh:// address, user@host:path, file://, or the path of a local clone or of a `git bundle` file"


def mask_credentials(text: str) -> str:
    """The text with user names, passwords and queries of the addresses in it replaced by ***. `git@` of ssh is no secret and stays."""
    text = re.sub(r"(\w://)(?!git@)[^/\s'\"]*@", r"\1***@", text)
    return re.sub(r"(\w://[^\s?'\"]*\?)[^\s'\"]+", r"\1***", text)


def check_address(address: str) -> str:
    """Accept an address of upstream, or refuse it before anything is started.

    Args:
        address: https://, ssh://, user@host:path, file://, or a path (of a clone or of a bundle file; it need not exist yet).

    Returns:
        the address; a path is made absolute.

    Raises:
        UsageError: anything else. `ext::` and its like would let an address run programs; `http` and `git` can be changed on the way.
    """
    refused = UsageError(f"upstream's address {mask_credentials(address)!r} is not accepted", _ALLOWED)
    if not address.strip() or address.startswith("-") or not address.isprintable():
        raise refused
    if url := re.match(r"(\w[\w+.-]*)://([^/]*)", address):
        scheme, server = url.groups()
        # a user or host that begins with "-" would be an option to ssh
        if scheme == "file" or (scheme in ("https", "ssh") and not server.startswith("-") and re.match(r"[\w\[]", server.rpartition("@")[2])):
            return address
        raise refused
    if re.match(r"\w[\w.-]*@(\w[\w.-]*|\[[\w:.]+\]):(?!:).", address):
        return address
    drive = re.match(r"[a-zA-Z]:[\\/]", address)
    if ":" in re.split(r"[\\/]", address)[0] and not drive:  # git would read it as host:path or as the name of a helper program
        raise refused
    return str(Path(address).expanduser().absolute())


def proxies_in(variables: Mapping[str, str]) -> str:
    """Which variables send git to a proxy, to be said behind an address that does not answer; empty where none does."""
    found = [f"{name} is {mask_credentials(value)}" for name, value in variables.items() if value and name.lower() in ("https_proxy", "all_proxy")]
    return f"; {' and '.join(found)}: if no proxy answers there, unset it" if found else ""
