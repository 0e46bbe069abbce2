"""Fetching upstream, against real git repositories. The fixtures use GitPython; one test fetches the real upstream."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import git
import pytest

from wrapper.bootstrapper.address import DEFAULT_ADDRESS, check_address, mask_credentials
from wrapper.bootstrapper.upstream import Checkout, fetch_checkout
from wrapper.errors import FatalError, UsageError

SCRIPT = "scripts/tf_cnn_benchmarks/tf_cnn_benchmarks.py"
STORED_AS_IS = "* !filter !ident !working-tree-encoding !eol -text\n"
WHO = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in (("NAME", "t"), ("EMAIL", "t@example.invalid"))}


@pytest.fixture(autouse=True)
def git_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's configuration for these tests, so that a test can set something and the machine's own does not matter."""
    path = tmp_path / "gitconfig"
    path.touch()
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return path


class Origin:
    """A small upstream: `release` is one commit behind on its own branch, `main` is ahead of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.path.mkdir(parents=True)
        self.git = git.Git(path)
        self.git.update_environment(**WHO)
        self.git.init("--quiet", "--initial-branch=main")
        (self.path / ".git" / "info").mkdir(exist_ok=True)
        (self.path / ".git" / "info" / "attributes").write_text(STORED_AS_IS, encoding="utf-8")
        self.first = self.commit("print('first')\n")
        self.git.branch("release")
        self.second = self.commit("print('second')\r\n")

    def commit(self, text: str, attributes: str = "") -> str:
        script = self.path / SCRIPT
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_bytes(text.encode())
        (self.path / ".gitattributes").write_text(attributes, encoding="utf-8")
        self.git.add("--all")
        self.git.commit("--quiet", "--message", "A commit")
        return str(self.git.rev_parse("HEAD"))

    @property
    def url(self) -> str:
        return self.path.as_uri()


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    return Origin(tmp_path / "origin é ü" / "up stream")


@pytest.fixture
def vendor(tmp_path: Path) -> Path:
    return tmp_path / "ven dor é"


def fetch(commit: str, address: str, vendor: Path, said: list[str] | None = None) -> Checkout:
    return fetch_checkout(commit, address=address, vendor=vendor, say=[].append if said is None else said.append)


def commits_in(checkout: Checkout) -> int:
    return int(git.Git(checkout.path).rev_list("--all", "HEAD", "--count"))


def snapshot(directory: Path) -> dict[str, tuple[int, int]]:
    """Every file with its size and time of change."""
    return {str(path): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in directory.rglob("*")}


def refuse_hashes(git_config: Path) -> None:
    """As with a server of before protocol version 2: only the tips of branches may be asked for."""
    git_config.write_text("[protocol]\n\tversion = 0\n", encoding="utf-8")


# fetching


def test_fetches_one_commit_alone_and_verifies_it(origin: Origin, vendor: Path) -> None:
    said: list[str] = []
    checkout = fetch(origin.first, origin.url, vendor, said)
    assert checkout == Checkout(path=str(vendor / f"benchmarks-{origin.first[:12]}"), commit=origin.first, address=origin.url)
    assert checkout.script.read_text(encoding="utf-8") == "print('first')\n"
    assert commits_in(checkout) == 1
    assert said == [f"Fetching upstream commit {origin.first[:12]} from {origin.url}"]
    assert [path.name for path in vendor.glob("*.partial")] == []


def test_two_commits_lie_side_by_side(origin: Origin, vendor: Path) -> None:
    first, second = (fetch(commit, origin.url, vendor) for commit in (origin.first, origin.second))
    assert first.script.read_bytes() == b"print('first')\n"
    assert second.script.read_bytes() == b"print('second')\r\n"


@pytest.mark.parametrize("moved", ["forward", "rewritten", "deleted"])
def test_a_branch_that_moved_changes_nothing(origin: Origin, vendor: Path, moved: str) -> None:
    if moved == "forward":
        origin.git.branch("--force", "release", origin.second)
    elif moved == "rewritten":
        origin.git.checkout("--quiet", "release")
        origin.git.commit("--quiet", "--amend", "--message", "Rewritten")
    else:
        origin.git.branch("--delete", "--force", "release")
    assert fetch(origin.first, origin.url, vendor).script.read_bytes() == b"print('first')\n"


def test_a_server_that_refuses_hashes_gives_all_branches(origin: Origin, vendor: Path, git_config: Path) -> None:
    refuse_hashes(git_config)
    origin.git.branch("--delete", "--force", "release")
    checkout = fetch(origin.first, origin.url, vendor)
    assert checkout.script.read_bytes() == b"print('first')\n"
    assert commits_in(checkout) == 2


@pytest.mark.parametrize("as_url", [False, True])
def test_a_bundle_of_everything(origin: Origin, vendor: Path, tmp_path: Path, as_url: bool) -> None:
    bundle = tmp_path / "up stream é.bundle"
    origin.git.bundle("create", "--quiet", str(bundle), "--all")
    checkout = fetch(origin.first, bundle.as_uri() if as_url else str(bundle), vendor)
    assert checkout.script.read_bytes() == b"print('first')\n"


def test_a_bundle_of_head_alone(origin: Origin, vendor: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "head.bundle"
    origin.git.bundle("create", "--quiet", str(bundle), "HEAD")
    assert fetch(origin.first, str(bundle), vendor).commit == origin.first


def test_a_bundle_that_needs_commits_we_lack_is_refused(origin: Origin, vendor: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "increment.bundle"
    origin.git.bundle("create", "--quiet", str(bundle), f"{origin.first}..main")
    with pytest.raises(FatalError, match=r"could not be fetched from .*increment\.bundle.*--upstream"):
        fetch(origin.second, str(bundle), vendor)


@pytest.mark.parametrize("kind", ["clone", "bare", "clone without hashes", "shallow", "detached", "bundle of a clone"])
def test_a_local_clone_is_a_mirror(origin: Origin, vendor: Path, tmp_path: Path, git_config: Path, kind: str) -> None:
    mirror = tmp_path / "mirror"
    options = {"bare": ["--bare"], "shallow": ["--depth=1", "--branch=release"]}.get(kind, [])
    git.Git().clone("--quiet", *options, origin.url, str(mirror))
    address = str(mirror)
    wanted = origin.first
    if kind in ("clone without hashes", "detached"):
        refuse_hashes(git_config)
    if kind == "detached":
        there = git.Git(mirror)
        there.update_environment(**WHO)
        there.checkout("--quiet", "--detach")
        there.commit("--quiet", "--allow-empty", "--message", "On no branch")
        wanted = str(there.rev_parse("HEAD"))
    if kind == "bundle of a clone":
        git.Git(mirror).checkout("--quiet", "--orphan", "empty")
        git.Git(mirror).branch("--delete", "--force", "main")
        address = str(tmp_path / "clone.bundle")
        git.Git(mirror).bundle("create", "--quiet", address, "--all")
    assert fetch(wanted, address, vendor).commit == wanted


def test_another_checkout_of_ours_is_a_mirror(origin: Origin, vendor: Path, tmp_path: Path) -> None:
    checkout = fetch(origin.first, origin.url, vendor)
    assert fetch(origin.first, checkout.path, tmp_path / "other").script.read_bytes() == b"print('first')\n"


def test_a_relative_path_is_of_the_callers_directory(origin: Origin, vendor: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(origin.path.parent)
    checkout = fetch(origin.first, origin.path.name, vendor)
    assert checkout.address == str(origin.path)


def test_the_users_insteadof_is_followed(origin: Origin, vendor: Path, git_config: Path) -> None:
    git_config.write_text(f'[url "{origin.url}"]\n\tinsteadOf = https://example.invalid/up.git\n', encoding="utf-8")
    checkout = fetch(origin.first, "https://example.invalid/up.git", vendor)
    assert checkout.address == "https://example.invalid/up.git"


# nothing of the fetched repository or of the surroundings interferes


def test_files_come_out_byte_for_byte_and_no_filter_or_hook_runs(origin: Origin, vendor: Path, git_config: Path, tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    template, hooks = tmp_path / "template" / "hooks", tmp_path / "hooks"
    for directory in (template, hooks):
        directory.mkdir(parents=True)
        hook = directory / "post-checkout"
        hook.write_text(f"#!/bin/sh\ntouch '{witness}'\n", encoding="utf-8")
        hook.chmod(0o755)
    commit = origin.commit("$Id$\nprint('x')\r\n\n", attributes="* filter=evil text eol=crlf ident working-tree-encoding=UTF-16\n")
    touch = f"touch '{witness.as_posix()}' && cat"
    git_config.write_text(
        f"[core]\n\tautocrlf = true\n\thooksPath = {hooks.as_posix()}\n[init]\n\ttemplateDir = {template.parent.as_posix()}\n"
        f'[filter "evil"]\n\tsmudge = "{touch}"\n\tclean = "{touch}"\n\trequired = true\n',
        encoding="utf-8",
    )
    checkout = fetch(commit, origin.url, vendor)
    assert checkout.script.read_bytes() == b"$Id$\nprint('x')\r\n\n"
    assert not witness.exists()


def test_inside_a_git_hook_the_other_repository_is_left_alone(origin: Origin, vendor: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Origin(tmp_path / "other")
    before = snapshot(other.path)
    git_dir = other.path / ".git"
    for name, path in {"DIR": git_dir, "WORK_TREE": other.path, "INDEX_FILE": git_dir / "index", "OBJECT_DIRECTORY": git_dir / "objects"}.items():
        monkeypatch.setenv(f"GIT_{name}", str(path))
    monkeypatch.setenv("GIT_ALTERNATE_OBJECT_DIRECTORIES", str(git_dir / "objects"))
    checkout = fetch(origin.first, origin.url, vendor)
    assert checkout.script.read_bytes() == b"print('first')\n"
    assert snapshot(other.path) == before


# reuse


def test_a_checkout_is_reused_without_its_origin_and_without_writing(origin: Origin, vendor: Path, tmp_path: Path) -> None:
    checkout = fetch(origin.first, origin.url, vendor)
    origin.path.rename(tmp_path / "gone")
    before = snapshot(vendor)
    said: list[str] = []
    assert fetch(origin.first, "https://localhost:1/x.git", vendor, said) == checkout
    assert said == []
    assert snapshot(vendor) == before


def test_what_python_leaves_behind_is_no_edit(origin: Origin, vendor: Path) -> None:
    checkout = fetch(origin.first, origin.url, vendor)
    subprocess.run([sys.executable, "-c", f"import compileall; compileall.compile_dir({str(checkout.script.parent)!r}, quiet=1)"], check=True)
    assert list(checkout.script.parent.glob("__pycache__/*.pyc"))
    assert fetch(origin.first, origin.url, vendor) == checkout


def edit_modified(checkout: Checkout) -> str:
    checkout.script.write_text("print('mine')\n", encoding="utf-8")
    return SCRIPT


def edit_staged(checkout: Checkout) -> str:
    edit_modified(checkout)
    git.Git(checkout.path).add(SCRIPT)
    return SCRIPT


def edit_untracked(checkout: Checkout) -> str:
    (checkout.script.parent / "mine é.py").write_text("", encoding="utf-8")
    return "scripts/tf_cnn_benchmarks/mine é.py"


def edit_deleted(checkout: Checkout) -> str:
    checkout.script.unlink()
    return SCRIPT


def edit_renamed(checkout: Checkout) -> str:
    git.Git(checkout.path).mv(SCRIPT, "moved.py")
    return f"moved.py, {SCRIPT}"


def edit_assumed_unchanged(checkout: Checkout) -> str:
    git.Git(checkout.path).update_index("--assume-unchanged", SCRIPT)
    return edit_modified(checkout)


def edit_skipped_in_worktree(checkout: Checkout) -> str:
    git.Git(checkout.path).update_index("--skip-worktree", SCRIPT)
    return edit_modified(checkout)


def edit_excluded(checkout: Checkout) -> str:
    (Path(checkout.path) / ".git" / "info" / "exclude").write_text("*\n", encoding="utf-8")
    return edit_untracked(checkout)


def edit_stray_byte_code(checkout: Checkout) -> str:
    checkout.script.with_name("flags.pyc").touch()
    return "scripts/tf_cnn_benchmarks/flags.pyc"


def edit_source_in_a_cache(checkout: Checkout) -> str:
    cache = checkout.script.parent / "__pycache__"
    cache.mkdir()
    (cache / "mine.py").touch()
    return "scripts/tf_cnn_benchmarks/__pycache__/mine.py"


EDITS = [edit_modified, edit_staged, edit_untracked, edit_deleted, edit_renamed]
HIDDEN_EDITS = [edit_assumed_unchanged, edit_skipped_in_worktree, edit_excluded, edit_stray_byte_code, edit_source_in_a_cache]


@pytest.mark.parametrize("edit", EDITS + HIDDEN_EDITS)
def test_edits_are_refused_by_name_and_kept(origin: Origin, vendor: Path, edit: Callable[[Checkout], str]) -> None:
    checkout = fetch(origin.first, origin.url, vendor)
    name = edit(checkout)
    before = snapshot(vendor)
    with pytest.raises(FatalError) as refusal:
        fetch(origin.first, origin.url, vendor)
    assert refusal.value.what == f"{checkout.path} has changes of its own: {name}"
    assert snapshot(vendor) == before


@pytest.mark.skipif(sys.platform == "win32", reason="makes links and pipes")
@pytest.mark.parametrize("kind", ["pipe", "link", "link of its directory"])
def test_what_is_no_file_any_more_is_an_edit(origin: Origin, vendor: Path, tmp_path: Path, kind: str) -> None:
    checkout = fetch(origin.first, origin.url, vendor)
    replaced = checkout.script.parent if kind == "link of its directory" else checkout.script
    replaced.rename(tmp_path / "elsewhere")
    if kind == "pipe":
        os.mkfifo(replaced)
    else:
        replaced.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FatalError, match=f"has changes of its own: .*{SCRIPT}"):
        fetch(origin.first, origin.url, vendor)


def test_a_link_of_the_commit_is_no_edit(origin: Origin, vendor: Path) -> None:
    (origin.path / "a link").symlink_to("scripts")
    checkout = fetch(origin.commit("print('linked')\n"), origin.url, vendor)
    assert fetch(checkout.commit, origin.url, vendor) == checkout


def test_verifying_starts_no_program_that_the_checkout_names(origin: Origin, vendor: Path, tmp_path: Path) -> None:
    checkout = fetch(origin.first, origin.url, vendor)
    witness = tmp_path / "witness"
    repository = git.Git(checkout.path)
    for key in ("filter.x.clean", "filter.x.process", "core.fsmonitor"):
        repository.config(key, f"touch '{witness.as_posix()}'; cat")
    (Path(checkout.path) / ".git" / "info" / "attributes").write_text("* filter=x\n", encoding="utf-8")
    os.utime(checkout.script, (1, 1))  # so that git, were it asked, had to read the file
    assert fetch(origin.first, origin.url, vendor) == checkout
    assert not witness.exists()


def test_many_edits_are_named_in_part(origin: Origin, vendor: Path) -> None:
    checkout = fetch(origin.first, origin.url, vendor)
    for number in range(7):
        (Path(checkout.path) / f"{number}.txt").touch()
    with pytest.raises(FatalError, match=r"0\.txt, 1\.txt, 2\.txt, 3\.txt, 4\.txt and 2 more"):
        fetch(origin.first, origin.url, vendor)


def break_no_git(checkout: Checkout) -> None:
    git.rmtree(Path(checkout.path) / ".git")


def break_head(checkout: Checkout) -> None:
    (Path(checkout.path) / ".git" / "HEAD").write_text("garbage\n", encoding="utf-8")


def break_objects(checkout: Checkout) -> None:
    git.rmtree(Path(checkout.path) / ".git" / "objects" / "pack")
    for path in (Path(checkout.path) / ".git" / "objects").glob("??"):
        git.rmtree(path)


def break_own_commit(checkout: Checkout) -> None:
    edit_modified(checkout)
    repository = git.Git(checkout.path)
    repository.update_environment(**WHO)
    repository.commit("--all", "--quiet", "--message", "Mine")


def break_to_file(checkout: Checkout) -> None:
    git.rmtree(checkout.path)
    Path(checkout.path).write_text("", encoding="utf-8")


@pytest.mark.parametrize("damage", [break_no_git, break_head, break_objects, break_own_commit, break_to_file])
def test_a_directory_that_is_no_sound_checkout_is_refused_and_kept(origin: Origin, vendor: Path, damage: Callable[[Checkout], None]) -> None:
    # vendor/ lies in the project's own repository, which git would find when it looks upwards from a broken checkout
    vendor.mkdir()
    git.Git(vendor).init("--quiet")
    checkout = fetch(origin.first, origin.url, vendor)
    damage(checkout)
    before = snapshot(vendor)
    with pytest.raises(FatalError) as refusal:
        fetch(origin.first, origin.url, vendor)
    assert f"{checkout.path} is not a sound checkout of {origin.first}" in refusal.value.what
    assert "Delete it" in refusal.value.remedy
    assert snapshot(vendor) == before


# two at once, and runs that die


def start_fetch(commit: str, address: str, vendor: Path) -> subprocess.Popen[str]:
    code = (
        "import sys; from pathlib import Path; from wrapper.bootstrapper.upstream import fetch_checkout\n"
        "print(fetch_checkout(sys.argv[1], address=sys.argv[2], vendor=Path(sys.argv[3]), say=lambda line: print(line, flush=True)).path)"
    )
    return subprocess.Popen([sys.executable, "-c", code, commit, address, str(vendor)], stdout=subprocess.PIPE, text=True, start_new_session=True)


@pytest.fixture
def stalled(git_config: Path, tmp_path: Path) -> Path:
    """Make every transfer stop before its data, until the returned file is deleted; a file `.reached` beside it says that one has stopped."""
    gate = tmp_path / "gate"
    gate.touch()
    hook = tmp_path / "hook.sh"
    hook.write_text(f"#!/bin/sh\ntouch '{gate}.reached'\nwhile [ -e '{gate}' ]; do sleep 0.05; done\nexec \"$@\"\n", encoding="utf-8")
    hook.chmod(0o755)
    git_config.write_text(f"[uploadpack]\n\tpackObjectsHook = {hook}\n", encoding="utf-8")
    return gate


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.01)


posix_only = pytest.mark.skipif(sys.platform == "win32", reason="uses a shell script")


@posix_only
def test_two_processes_at_once_fetch_once(origin: Origin, vendor: Path, stalled: Path) -> None:
    first = start_fetch(origin.first, origin.url, vendor)
    wait_for(Path(f"{stalled}.reached"))
    second = start_fetch(origin.first, origin.url, vendor)
    assert second.stdout is not None
    path = str(vendor / f"benchmarks-{origin.first[:12]}")
    assert second.stdout.readline() == f"Waiting for another process that is making {path}\n"
    stalled.unlink()
    output = first.communicate(timeout=30)[0]
    assert output.splitlines() == [f"Fetching upstream commit {origin.first[:12]} from {origin.url}", path]
    assert second.communicate(timeout=30)[0].splitlines() == [path]
    assert (first.returncode, second.returncode) == (0, 0)


@posix_only
@pytest.mark.parametrize("git_too", [True, False])
def test_a_killed_run_is_healed_by_the_next(origin: Origin, vendor: Path, stalled: Path, git_too: bool) -> None:
    victim = start_fetch(origin.first, origin.url, vendor)
    try:
        wait_for(Path(f"{stalled}.reached"))
        if git_too:
            os.killpg(victim.pid, signal.SIGKILL)
        else:
            victim.kill()
        victim.wait(timeout=30)
        assert len(list(vendor.glob(".*.partial"))) == 1
        assert not (vendor / f"benchmarks-{origin.first[:12]}").exists()
        stalled.unlink()
        assert fetch(origin.first, origin.url, vendor).script.read_bytes() == b"print('first')\n"
    finally:
        with_group_gone(victim)
    if git_too:
        assert list(vendor.glob(".*.partial")) == []


def with_group_gone(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@posix_only
def test_an_interrupted_run_leaves_nothing(origin: Origin, vendor: Path, stalled: Path) -> None:
    victim = start_fetch(origin.first, origin.url, vendor)
    wait_for(Path(f"{stalled}.reached"))
    os.killpg(victim.pid, signal.SIGINT)
    assert victim.wait(timeout=30) != 0
    assert list(vendor.glob(".*.partial")) == []


# errors


@pytest.mark.parametrize("by_hash", [True, False])
def test_a_missing_commit_is_said_to_be_missing(origin: Origin, vendor: Path, git_config: Path, by_hash: bool) -> None:
    if not by_hash:
        refuse_hashes(git_config)
    missing = "0123456789" * 4
    with pytest.raises(FatalError) as error:
        fetch(missing, origin.url, vendor)
    assert error.value.what == f"{origin.url} has no commit {missing}"
    assert list(vendor.glob("*benchmarks-*/")) == []


def unreachable(tmp_path: Path) -> Iterator[str]:
    yield "https://localhost:1/x.git"
    yield "ssh://git@localhost:1/x.git"
    yield str(tmp_path / "no such clone")
    yield (tmp_path / "no such clone").as_uri()
    garbage = tmp_path / "garbage.bundle"
    garbage.write_bytes(b"not a bundle")
    yield str(garbage)


def test_an_address_that_gives_nothing_is_one_clear_error(vendor: Path, tmp_path: Path) -> None:
    for address in unreachable(tmp_path):
        start = time.monotonic()
        with pytest.raises(FatalError) as error:
            fetch("0" * 40, address, vendor)
        assert time.monotonic() - start < 20
        assert f"upstream could not be fetched from {address} (git " in error.value.what
        assert "\n" not in str(error.value)
        for way_out in ("--upstream PATH_OR_URL", "TFCNN_UPSTREAM", "git bundle", "--demo"):
            assert way_out in error.value.remedy
    assert list(vendor.glob("*benchmarks-*/")) == []


@posix_only
def test_a_server_that_never_answers_is_given_up(origin: Origin, vendor: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mute = tmp_path / "mute.sh"
    mute.write_text("#!/bin/sh\nexec sleep 100\n", encoding="utf-8")
    mute.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(mute))
    monkeypatch.setattr("wrapper.bootstrapper.upstream._ANSWER_LIMIT_S", 1)
    with pytest.raises(FatalError, match=r"git ls-remote: no answer within 1 s"):
        fetch(origin.first, "ssh://git@example.invalid/x.git", vendor)


@posix_only
def test_ssh_is_called_without_prompts_and_as_the_user_configured_it(vendor: Path, git_config: Path, tmp_path: Path) -> None:
    witness, ssh = tmp_path / "witness", tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\necho \"$@\" >>'{witness}'\nexit 255\n", encoding="utf-8")
    ssh.chmod(0o755)
    git_config.write_text(f"[core]\n\tsshCommand = {ssh} -i key\n", encoding="utf-8")
    with pytest.raises(FatalError):
        fetch("0" * 40, "git@example.invalid:up/stream.git", vendor)
    assert "-i key -o BatchMode=yes" in witness.read_text(encoding="utf-8")


def test_vendor_that_cant_be_written_is_named(origin: Origin, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    with pytest.raises(FatalError, match=r"could not make .*benchmarks-"):
        fetch(origin.first, origin.url, blocked / "vendor")


def test_a_machine_without_git_is_told_to_install_it(origin: Origin, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from wrapper.bootstrapper.upstream import fetch_checkout; from wrapper.errors import FatalError\n"
        "try: fetch_checkout('0' * 40, address=sys.argv[1], vendor=Path(sys.argv[2]), say=print)\n"
        "except FatalError as error: print(error)"
    )
    for refresh in ("raise", "quiet"):
        environment = os.environ | {"PATH": str(tmp_path), "GIT_PYTHON_REFRESH": refresh}
        command = [sys.executable, "-c", code, origin.url, str(tmp_path / "vendor")]
        output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        assert output.splitlines()[-1].startswith("this machine has no git, or it is not on the PATH. Install it")


def test_git_is_not_imported_before_it_is_needed() -> None:
    code = "import sys, wrapper.bootstrapper.upstream; print([name for name in ('git', 'filelock') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# addresses


@pytest.mark.parametrize(
    "address",
    [
        DEFAULT_ADDRESS,
        "https://user:word@example.org:8443/a/b.git",
        "https://[::1]/x.git",
        "ssh://git@example.org/x.git",
        "ssh://example.org:22/x.git",
        "git@example.org:tensorflow/benchmarks.git",
        "me@example.org:~/up stream",
        "file:///srv/up%20stream",
        "file://server/share/x.git",
    ],
)
def test_accepts_as_it_is(address: str) -> None:
    assert check_address(address) == address
    assert check_address(check_address(address)) == address


@pytest.mark.parametrize("address", ["up", "./a:b", "../x.bundle", "~/up", "dir with space/é", "sub/ext::x"])
def test_makes_a_path_absolute(address: str) -> None:
    checked = check_address(address)
    assert checked == str(Path(address).expanduser().absolute())
    assert check_address(checked) == checked


@pytest.mark.parametrize(
    "address",
    [
        "",
        " ",
        "http://example.org/x.git",
        "HTTPS://example.org/x.git",
        "git://example.org/x.git",
        "ftp://example.org/x.git",
        "git+ssh://example.org/x.git",
        "ext::sh -c touch% /x",
        "ext::https://example.org",
        "fd::7",
        "transport::https://example.org/x.git",
        "me@host::x",
        "host:path",
        "--upload-pack=touch x",
        "-x@host:path",
        "ssh://-oProxyCommand=x/y",
        "ssh://-oProxyCommand=x@host/y",
        "ssh://me@-oProxyCommand=x/y",
        "https:///x.git",
        "https://example.org/x\n.git",
        "a\0b",
    ],
)
def test_refuses_and_says_what_is_allowed(address: str, vendor: Path) -> None:
    with pytest.raises(UsageError) as refusal:
        fetch("0" * 40, address, vendor)
    assert all(word in refusal.value.remedy for word in ("https://", "ssh://", "user@host:path", "file://", "bundle"))
    assert not vendor.exists()


def test_masks_what_may_be_secret() -> None:
    for address in ("https://user:se%40cret@h/x", "https://secret@h/x", "ssh://me:secret@h/x", "https://h/x?token=secret", "https://a:se@cret@h/x"):
        masked = mask_credentials(f"fatal: unable to access '{address}': no")
        assert "cret" not in masked
        assert "://" in masked and "h/x" in masked and masked.endswith("': no")
    for address in (DEFAULT_ADDRESS, "ssh://git@h/x", "git@h:x", "/a/b@c"):
        assert mask_credentials(address) == address


def test_credentials_are_neither_said_nor_recorded(origin: Origin, vendor: Path, git_config: Path) -> None:
    address = "https://user:secret@example.invalid/up.git?token=secret"
    said: list[str] = []
    with pytest.raises(FatalError) as error:
        fetch(origin.first, "https://user:secret@localhost:1/up.git?token=secret", vendor, said)
    git_config.write_text(f'[url "{origin.url}"]\n\tinsteadOf = {address}\n', encoding="utf-8")
    checkout = fetch(origin.first, address, vendor, said)
    assert checkout.address == "https://***@example.invalid/up.git?***"
    assert "secret" not in "".join(said) + str(error.value) + repr(error.value.__context__)
    for path in vendor.rglob("*"):
        assert not path.is_file() or b"secret" not in path.read_bytes(), path


def test_a_refused_address_does_not_show_its_credentials() -> None:
    with pytest.raises(UsageError) as refusal:
        check_address("http://user:secret@example.org/x.git")
    assert "secret" not in str(refusal.value)


@pytest.mark.real
def test_the_real_upstream(vendor: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GIT_CONFIG_GLOBAL")
    monkeypatch.delenv("GIT_CONFIG_NOSYSTEM")
    try:
        checkout = fetch("ec056be57f189ec96611a58e8dc5562a6d620139", DEFAULT_ADDRESS, vendor)
    except FatalError as error:
        if "could not be fetched" not in error.what:
            raise
        pytest.skip(str(error))
    assert commits_in(checkout) == 1
    assert "benchmark_cnn" in checkout.script.read_text(encoding="utf-8")
