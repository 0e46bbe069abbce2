"""Our copy of one upstream commit in `vendor/`. Git is used here and nowhere else."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import url2pathname

import msgspec

from wrapper.bootstrapper.address import DEFAULT_ADDRESS, check_address, mask_credentials, proxies_in
from wrapper.bootstrapper.edits import changed_files
from wrapper.bootstrapper.placing import existing, place
from wrapper.errors import FatalError

if TYPE_CHECKING:
    from git import Git

__all__ = ["DEFAULT_ADDRESS", "Checkout", "check_address", "demo_repository", "fetch_checkout", "git_version", "look_at_upstream"]

_MIRROR = (
    "Where this machine can't reach it, name a mirror with --upstream PATH_OR_URL or TFCNN_UPSTREAM "
    "(a local clone or a `git bundle` file), or see the flow without any network with --demo"
)
_NO_GIT = ("this machine has no git, or it is not on the PATH", "Install it (https://git-scm.com/downloads, or the system's package `git`)")
_ANSWER_LIMIT_S, _FETCH_LIMIT_S = 60, 900
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
# info/attributes wins over the .gitattributes of a commit: files come out byte for byte and no filter program is started.
_ATTRIBUTES = "* !filter !ident !working-tree-encoding !eol -text\n"
_DEMO_IDENTITY = {"NAME": "tfcnn demo", "EMAIL": "demo@example.invalid", "DATE": "2000-01-01T00:00:00+0000"}


class Checkout(msgspec.Struct, frozen=True, kw_only=True):
    """One commit of upstream on disk, verified and clean."""

    path: str
    """The directory, absolute."""
    commit: str
    address: str
    """Where it was fetched from, as the user would write it; credentials are masked."""

    @property
    def script(self) -> Path:
        """The benchmark's main program."""
        return Path(self.path) / "scripts" / "tf_cnn_benchmarks" / "tf_cnn_benchmarks.py"


class _GitError(FatalError):
    """A git command failed; the message is the command's name and git's own words, with credentials masked."""


def fetch_checkout(commit: str, *, address: str, vendor: Path, say: Callable[[str], None]) -> Checkout:
    """Bring one commit of upstream into `vendor/benchmarks-<first 12 digits>/`, or use the one that is there.

    A checkout that is there is used without the network and without writing. Processes that ask at the same time wait for each other.

    Args:
        commit: all 40 digits.
        address: where to fetch from (see `check_address`).
        vendor: made where missing.
        say: prints one line of progress.

    Raises:
        UsageError: the address is not accepted.
        FatalError: no git, no answer, no such commit there, a directory of that name with edits or not sound, or `vendor` can't be written.
    """
    if not re.fullmatch(r"[0-9a-f]{40}", commit):
        raise ValueError(f"not a full commit: {commit!r}")
    address = check_address(address)
    final = vendor.absolute() / f"benchmarks-{commit[:12]}"
    place(final, lambda partial: _download(partial, commit, address, say), say)
    _verify(final, commit)
    return Checkout(path=str(final), commit=commit, address=_config(final, "remote.origin.url"))


def look_at_upstream(commit: str, *, address: str, vendor: Path, limit_s: float) -> str:
    """Whether `fetch_checkout` can be expected to bring a commit, without fetching or writing anything.

    Args:
        limit_s: seconds within which the address has to answer, where the commit is not in `vendor` yet.

    Returns:
        in words, where the commit is or will come from.

    Raises:
        UsageError: the address is not accepted.
        FatalError: no git, no answer, or a checkout with edits or not sound.
    """
    address = check_address(address)
    final = vendor.absolute() / f"benchmarks-{commit[:12]}"
    if os.path.lexists(final):
        _verify(final, commit)
        return f"commit {commit[:12]} is in {final}"
    shown, somewhere = mask_credentials(address), existing(vendor)
    try:
        _run(somewhere, "ls-remote", "--", _source(address), "HEAD", limit_s=limit_s, extra=_ask_nothing(somewhere))
    except _GitError as error:
        what = f"upstream can't be reached at {shown}, and its commit {commit[:12]} is not in {vendor} ({error}){proxies_in(os.environ)}"
        raise FatalError(what, _MIRROR) from None
    return f"{shown} answers; commit {commit[:12]} is still to be fetched"


def git_version(vendor: Path) -> str:
    """Git's own words, such as "git version 2.39.5". Raises FatalError where this machine has no git."""
    return _run(existing(vendor), "version")


def demo_repository(directory: Path) -> tuple[str, str]:
    """Make the demo's upstream: a git repository with one commit that holds our stand-in where upstream has its main program.

    Args:
        directory: where the repository gets a directory of its own; made where missing.

    Returns:
        its address for `fetch_checkout`, and the commit, which is the same everywhere for the same script.

    Raises:
        FatalError: no git, or the directory can't be written or was changed.
    """
    script = (Path(__file__).parents[1] / "data" / "demo" / "tf_cnn_benchmarks.py").read_text(encoding="utf-8")
    final = directory.absolute() / f"demo-upstream-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    place(final, lambda partial: _commit_demo(partial, script), lambda line: None)
    return str(final), _verify(final)


def _download(partial: Path, commit: str, address: str, say: Callable[[str], None]) -> None:
    shown = mask_credentials(address)
    say(f"Fetching upstream commit {commit[:12]} from {shown}")
    _init(partial)
    _run(partial, "config", "remote.origin.url", shown)
    try:
        _fetch(partial, address, commit)
    except _GitError as error:
        raise FatalError(f"upstream could not be fetched from {shown} ({error})", _MIRROR) from None
    try:
        _run(partial, "cat-file", "-e", f"{commit}^{{commit}}")
    except _GitError:
        raise FatalError(f"{shown} has no commit {commit}", "Bring that mirror up to date, or leave out --upstream to fetch from GitHub") from None
    _run(partial, "checkout", "--quiet", "--detach", commit)
    _verify(partial, commit)


def _fetch(partial: Path, address: str, commit: str) -> None:
    """Fetch the one commit, or everything where the server refuses to hand out a commit by its hash (or is a bundle)."""
    source, batch = _source(address), _ask_nothing(partial)
    refs = _run(partial, "ls-remote", "--", source, limit_s=_ANSWER_LIMIT_S, extra=batch)
    fetch = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules")
    try:
        _run(partial, *fetch, "--depth=1", "--", source, commit, limit_s=_FETCH_LIMIT_S, extra=batch)
    except _GitError:
        # remotes: where a clone has upstream's branches; HEAD: a clone may stand at a commit that no branch has
        kinds = [f"+refs/{kind}/*:refs/upstream/{kind}/*" for kind in ("heads", "tags", "remotes")]
        head = ["+HEAD:refs/upstream/HEAD"] if re.search(r"\tHEAD$", refs, re.MULTILINE) else []
        _run(partial, *fetch, "--update-shallow", "--", source, *kinds, *head, limit_s=_FETCH_LIMIT_S, extra=batch)


def _source(address: str) -> str:
    """git reads a bundle from a path, not from a file:// address."""
    bundle = url2pathname(address.removeprefix("file://")) if address.startswith("file://") else ""
    return bundle if Path(bundle).is_file() else address


def _ask_nothing(directory: Path) -> dict[str, str]:
    """The variables that make ssh fail instead of asking for a password."""
    default = "" if "GIT_SSH" in os.environ else "ssh -o ConnectTimeout=30"
    ssh = os.environ.get("GIT_SSH_COMMAND") or _config(directory, "core.sshCommand") or default
    return {"GIT_SSH_COMMAND": f"{ssh} -o BatchMode=yes"} if ssh else {}


def _commit_demo(partial: Path, script: str) -> None:
    target = Checkout(path=str(partial), commit="", address="").script
    target.parent.mkdir(parents=True)
    target.write_text(script, encoding="utf-8", newline="\n")
    _init(partial)
    _run(partial, "add", "--force", "scripts")
    identity = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in _DEMO_IDENTITY.items()}
    tree = _run(partial, "write-tree")
    commit = _run(partial, "commit-tree", "-m", "Multiply NumPy matrices in upstream's output format", tree, extra=identity)
    _run(partial, "update-ref", "HEAD", commit)


def _init(directory: Path) -> None:
    _run(directory, "init", "--quiet", "--template=")
    info = directory / ".git" / "info"
    info.mkdir()
    (info / "attributes").write_text(_ATTRIBUTES, encoding="utf-8", newline="\n")


def _verify(directory: Path, commit: str | None = None) -> str:
    """Refuse a directory that is not a whole and unchanged checkout (of this commit). Writes nothing. Returns the commit that it stands at."""
    try:
        head = _run(directory, "rev-parse", "--verify", "HEAD^{commit}")
        if commit not in (head, None):
            raise _GitError(f"it stands at {head}")
        changed = changed_files(directory, _run(directory, "ls-tree", "-r", "-z", "--full-tree", head))
    except (_GitError, OSError) as error:
        raise FatalError(f"{directory} is not a sound checkout of {commit or 'upstream'} ({error})", "Delete it, and it is made again") from None
    if changed:
        names = ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")
        raise FatalError(
            f"{directory} has changes of its own: {names}", "They are kept. Save what you need, delete the directory, and it is made again"
        )
    return head


def _config(directory: Path, key: str) -> str:
    """A value of git's configuration; empty where it is not set."""
    try:
        return _run(directory, "config", "--get", key)
    except _GitError:
        return ""


def _run(directory: Path, *arguments: str, limit_s: float | None = None, extra: dict[str, str] | None = None) -> str:
    """Run one git command on the repository in `directory` and return its standard output.

    Raises:
        _GitError: it failed, or took longer than `limit_s` seconds.
        FatalError: this machine has no git.
    """
    child = _start(directory, arguments, _environment(directory) | (extra or {}))
    try:
        output, errors = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        _end(child)
        raise _GitError(f"git {arguments[0]}: no answer within {limit_s} s") from None
    except BaseException:
        _end(child)
        raise
    if child.returncode:
        lines = errors.decode(errors="replace").partition("Please make sure")[0].splitlines()  # what follows is git's general advice
        words = "; ".join(line.strip() for line in lines if line.strip()) or f"exit code {child.returncode}"
        raise _GitError(f"git {arguments[0]}: {mask_credentials(words)[:400]}")
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
