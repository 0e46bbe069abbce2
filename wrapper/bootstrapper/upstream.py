"""Our copy of one upstream commit in `vendor/`. Git is started in `git_command.py` alone."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from urllib.request import url2pathname

import msgspec

from wrapper.bootstrapper.address import check_address, mask_credentials, proxies_in
from wrapper.bootstrapper.edits import changed_files
from wrapper.bootstrapper.git_command import GitError, git_head, git_setting, run_git
from wrapper.bootstrapper.placing import Say, existing, place
from wrapper.errors import FatalError, UsageError
from wrapper.shipped import DATA

_MIRROR = (
    "Where this machine can't reach it, name a mirror with --upstream PATH_OR_URL or TFCNN_UPSTREAM "
    "(a local clone or a `git bundle` file), or see the flow without any network with --demo"
)
_ANSWER_LIMIT_S, _FETCH_LIMIT_S = 60, 900
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


def fetch_checkout(commit: str, *, address: str, vendor: Path, say: Say) -> Checkout:
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
    return Checkout(path=str(final), commit=commit, address=git_setting(final, "remote.origin.url"))


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
        run_git(somewhere, "ls-remote", "--", _source(address), "HEAD", limit_s=limit_s, extra=_ask_nothing(somewhere))
    except GitError as error:
        what = f"upstream can't be reached at {shown}, and its commit {commit[:12]} is not in {vendor} ({error}){proxies_in(os.environ)}"
        raise FatalError(what, _MIRROR) from None
    return f"{shown} answers; commit {commit[:12]} is still to be fetched"


def known_commit(text: str, *, known: Iterable[str], vendor: Path) -> str:
    """The commit that is meant by its 40 hexadecimal digits, or by the first 7 or more of them, as far as that is known on this machine.

    Args:
        known: commits among which an abbreviation is looked up, besides those of the checkouts in `vendor`.

    Returns:
        all 40 digits; where they are not known those that were given, for `resolve_commit`.

    Raises:
        UsageError: it can't be a commit, or means several.
    """
    digits = text.strip().lower()
    if not re.fullmatch(r"[0-9a-f]{7,40}", digits):
        raise UsageError(f"--commit {text[:60]!r} is no commit", "Write its 40 hexadecimal digits, or at least the first 7")
    here = (git_head(checkout) for checkout in vendor.glob(f"benchmarks-{digits[:12]}*") if len(digits) < 40)
    found = {commit for commit in (*known, *here) if commit.startswith(digits)}
    return _only(digits, found) if found else digits


def resolve_commit(digits: str, *, address: str, vendor: Path) -> str:
    """The commit that begins with these digits in a local clone at the address, or is the tip of one of its branches and tags. Fetches nothing.

    Args:
        digits: of `known_commit`; all 40 are returned as they are, and nothing is asked.
        address: of upstream, see `check_address`.
        vendor: where git is started.

    Raises:
        UsageError: they mean none or several.
        FatalError: no git, or no answer.
    """
    if len(digits) == 40:
        return digits
    address = check_address(address)
    found = _commits_at(address, digits, existing(vendor))
    if not found:
        what = f"--commit {digits} means no commit that is known or the tip of a branch at {mask_credentials(address)}"
        raise UsageError(what, "Write all 40 digits")
    return _only(digits, found)


def _only(digits: str, found: set[str]) -> str:
    if len(found) > 1:
        raise UsageError(f"--commit {digits} means several commits: {', '.join(sorted(found))}", "Write all 40 digits")
    return next(iter(found))


def commit_date(checkout: Checkout) -> str:
    """The day on which a commit's author wrote it, YYYY-MM-DD."""
    return run_git(Path(checkout.path), "show", "--no-patch", "--format=%ad", "--date=short", checkout.commit)


def _commits_at(address: str, digits: str, somewhere: Path) -> set[str]:
    if (Path(address) / ".git").is_dir():
        with contextlib.suppress(GitError):  # none of that name, or several
            return {run_git(Path(address), "rev-parse", "--verify", "--quiet", f"{digits}^{{commit}}")}
    try:
        refs = run_git(somewhere, "ls-remote", "--", _source(address), limit_s=_ANSWER_LIMIT_S, extra=_ask_nothing(somewhere))
    except GitError as error:
        raise FatalError(f"upstream can't be asked which commit {digits} is ({error})", f"Write all 40 digits. {_MIRROR}") from None
    return {commit for commit, _, _ in (line.partition("\t") for line in refs.splitlines()) if commit.startswith(digits)}


def git_version(vendor: Path) -> str:
    """Git's own words, such as "git version 2.39.5". Raises FatalError where this machine has no git."""
    return run_git(existing(vendor), "version")


def demo_repository(directory: Path) -> tuple[str, str]:
    """Make the demo's upstream: a git repository with one commit that holds our stand-in where upstream has its main program.

    Args:
        directory: where the repository gets a directory of its own; made where missing.

    Returns:
        its address for `fetch_checkout`, and the commit, which is the same everywhere for the same script.

    Raises:
        FatalError: no git, or the directory can't be written or was changed.
    """
    script = (DATA / "demo" / "tf_cnn_benchmarks.py").read_text(encoding="utf-8")
    final = directory.absolute() / f"demo-upstream-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    place(final, lambda partial: _commit_demo(partial, script), lambda line: None)
    return str(final), _verify(final)


def _download(partial: Path, commit: str, address: str, say: Say) -> None:
    shown = mask_credentials(address)
    say(f"Fetching upstream commit {commit[:12]} from {shown}")
    _init(partial)
    run_git(partial, "config", "remote.origin.url", shown)
    try:
        _fetch(partial, address, commit)
    except GitError as error:
        raise FatalError(f"upstream could not be fetched from {shown} ({error})", _MIRROR) from None
    try:
        run_git(partial, "cat-file", "-e", f"{commit}^{{commit}}")
    except GitError:
        raise FatalError(f"{shown} has no commit {commit}", "Bring that mirror up to date, or leave out --upstream to fetch from GitHub") from None
    run_git(partial, "checkout", "--quiet", "--detach", commit)
    _verify(partial, commit)


def _fetch(partial: Path, address: str, commit: str) -> None:
    """Fetch the one commit, or everything where the server refuses to hand out a commit by its hash (or is a bundle)."""
    source, batch = _source(address), _ask_nothing(partial)
    refs = run_git(partial, "ls-remote", "--", source, limit_s=_ANSWER_LIMIT_S, extra=batch)
    fetch = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules")
    try:
        run_git(partial, *fetch, "--depth=1", "--", source, commit, limit_s=_FETCH_LIMIT_S, extra=batch)
    except GitError:
        # remotes: where a clone has upstream's branches; HEAD: a clone may stand at a commit that no branch has
        kinds = [f"+refs/{kind}/*:refs/upstream/{kind}/*" for kind in ("heads", "tags", "remotes")]
        head = ["+HEAD:refs/upstream/HEAD"] if re.search(r"\tHEAD$", refs, re.MULTILINE) else []
        run_git(partial, *fetch, "--update-shallow", "--", source, *kinds, *head, limit_s=_FETCH_LIMIT_S, extra=batch)


def _source(address: str) -> str:
    """git reads a bundle from a path, not from a file:// address."""
    bundle = url2pathname(address.removeprefix("file://")) if address.startswith("file://") else ""
    return bundle if Path(bundle).is_file() else address


def _ask_nothing(directory: Path) -> dict[str, str]:
    """The variables that make ssh fail instead of asking for a password."""
    default = "" if "GIT_SSH" in os.environ else "ssh -o ConnectTimeout=30"
    ssh = os.environ.get("GIT_SSH_COMMAND") or git_setting(directory, "core.sshCommand") or default
    return {"GIT_SSH_COMMAND": f"{ssh} -o BatchMode=yes"} if ssh else {}


def _commit_demo(partial: Path, script: str) -> None:
    target = Checkout(path=str(partial), commit="", address="").script
    target.parent.mkdir(parents=True)
    target.write_text(script, encoding="utf-8", newline="\n")
    _init(partial)
    run_git(partial, "add", "--force", "scripts")
    identity = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in _DEMO_IDENTITY.items()}
    tree = run_git(partial, "write-tree")
    commit = run_git(partial, "commit-tree", "-m", "Multiply NumPy matrices in upstream's output format", tree, extra=identity)
    run_git(partial, "update-ref", "HEAD", commit)


def _init(directory: Path) -> None:
    run_git(directory, "init", "--quiet", "--template=")
    info = directory / ".git" / "info"
    info.mkdir()
    (info / "attributes").write_text(_ATTRIBUTES, encoding="utf-8", newline="\n")


def _verify(directory: Path, commit: str | None = None) -> str:
    """Refuse a directory that is not a whole and unchanged checkout (of this commit). Writes nothing. Returns the commit that it stands at."""
    try:
        head = run_git(directory, "rev-parse", "--verify", "HEAD^{commit}")
        if commit not in (head, None):
            raise GitError(f"it stands at {head}")
        changed = changed_files(directory, run_git(directory, "ls-tree", "-r", "-z", "--full-tree", head))
    except (GitError, OSError) as error:
        raise FatalError(f"{directory} is not a sound checkout of {commit or 'upstream'} ({error})", "Delete it, and it is made again") from None
    if changed:
        names = ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")
        raise FatalError(
            f"{directory} has changes of its own: {names}", "They are kept. Save what you need, delete the directory, and it is made again"
        )
    return head
