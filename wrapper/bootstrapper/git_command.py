"""The only place that starts git."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from wrapper.bootstrapper.address import mask_credentials
from wrapper.errors import FatalError

if TYPE_CHECKING:
    from git import Git

_NO_GIT = ("this machine has no git, or it is not on the PATH", "Install it (https://git-scm.com/downloads, or the system's package `git`)")
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",  # may name a program to run
    "core.longpaths": "true",
    "gc.auto": "0",  # gc goes on in the background, which stops the rename on Windows
    "maintenance.auto": "false",
    "i18n.commitEncoding": "utf-8",  # is part of a commit's hash
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "60",
}


class GitError(FatalError):
    """A git command failed; the message is the command's name and git's own words, with credentials masked."""


def git_setting(directory: Path, key: str) -> str:
    """A value of git's configuration; empty where it is not set."""
    return _told(directory, "config", "--get", key)


def git_head(directory: Path) -> str:
    """The commit that a repository stands at; empty where it is none."""
    return _told(directory, "rev-parse", "--verify", "HEAD^{commit}")


def _told(directory: Path, *arguments: str) -> str:
    try:
        return run_git(directory, *arguments)
    except GitError:
        return ""


def run_git(directory: Path, *arguments: str, limit_s: float | None = None, extra: dict[str, str] | None = None) -> str:
    """Run one git command on the repository in `directory` and return its standard output.

    Raises:
        GitError: it failed, or took longer than `limit_s` seconds.
        FatalError: this machine has no git.
    """
    child = _start(directory, arguments, _environment(directory) | (extra or {}))
    try:
        output, errors = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        _end(child)
        raise GitError(f"git {arguments[0]}: no answer within {limit_s} s") from None
    except BaseException:
        _end(child)
        raise
    if child.returncode:
        lines = errors.decode(errors="replace").partition("Please make sure")[0].splitlines()  # what follows is git's general advice
        words = "; ".join(line.strip() for line in lines if line.strip()) or f"exit code {child.returncode}"
        raise GitError(f"git {arguments[0]}: {mask_credentials(words)[:400]}")
    return str(output.decode(errors="surrogateescape")).removesuffix("\n")


def _start(directory: Path, arguments: tuple[str, ...], environment: dict[str, str]) -> Git.AutoInterrupt:
    try:
        import git
    except ImportError as error:  # GitPython starts the git program on import
        if said := re.search(r"fatal: [^'\n]*", str(error)):
            raise FatalError(f"git does not start: {said[0].strip()}", "Mend the file that it names (`git config` reads it)") from error
        raise FatalError(*_NO_GIT) from error
    settings = [word for key, value in _SETTINGS.items() for word in ("-c", f"{key}={value}")]
    command = [str(git.Git.GIT_PYTHON_GIT_EXECUTABLE), *settings, *arguments]
    try:
        # as_process, since GitPython's own time limit is not for Windows, and its timer keeps an interrupted Python alive until it is over
        return git.Git(directory).execute(command, as_process=True, env=environment)
    except git.GitCommandNotFound as error:
        raise FatalError(*_NO_GIT) from error


def _end(child: Git.AutoInterrupt) -> None:
    """End a git command with its helper programs (ssh, git-remote-https), which would keep its output open."""
    import psutil

    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(child.pid)
        for process in (parent, *parent.children(recursive=True)):  # in this order: git starts another helper when one fails
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
    child.communicate()


def _environment(directory: Path) -> dict[str, str]:
    """What git must not take from elsewhere. The user's own configuration stays in force (proxies, `insteadOf`, credential helpers)."""
    git_dir = directory / ".git"
    return {
        # Named, not searched for: in a broken checkout git would go up and find the project's own repository; and inside a git hook the
        # variables name the repository that the hook is of.
        "GIT_DIR": str(git_dir),
        "GIT_WORK_TREE": str(directory),
        "GIT_COMMON_DIR": str(git_dir),
        "GIT_INDEX_FILE": str(git_dir / "index"),
        "GIT_OBJECT_DIRECTORY": str(git_dir / "objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": "",
        "GIT_NAMESPACE": "",
        "GIT_DEFAULT_HASH": "sha1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_ALLOW_PROTOCOL": "https:ssh:file",
        # no prompt, on the terminal or in a window
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",
        "GCM_INTERACTIVE": "never",
    }
