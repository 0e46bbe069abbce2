"""A stand-in for docker, for tests: it takes the commands that the product uses, and runs containers as plain processes.

As with docker, a container belongs to no process of the user's: it outlives the program that started it, inherits no variables, and its first process
ignores SIGTERM. Mounts are imitated by putting the outer path into the arguments again.

FAKE_ENGINE   directory with image.json ({"variables": {...}}: those of the image); calls (each command line, as JSON) and containers/ are kept in it
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(os.environ["FAKE_ENGINE"])
IDENTITY = "sha256:" + "5" * 64


def run(arguments):
    options = []
    while arguments[0].startswith("--"):
        name, _, value = arguments.pop(0).partition("=")
        options.append((name, value))
    assert arguments.pop(0) == IDENTITY
    variables = dict(value.split("=", 1) for name, value in options if name == "--env")
    mounts = [dict(part.split("=", 1) for part in value.split(",")) for name, value in options if name == "--mount"]
    for mount in mounts:
        arguments = [argument.replace(mount["target"], mount["source"]) for argument in arguments]
    if dict(options)["--entrypoint"] != "python":
        sys.exit(127)
    variables = {**json.loads((HERE / "image.json").read_text())["variables"], **variables}
    sys.exit(attend([sys.executable, *arguments], variables, HERE / "containers" / dict(options)["--name"]))


def attend(command, variables, place):
    """Start a container by a process that is nobody's child, and wait for its exit code."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        place.parent.mkdir(exist_ok=True)
        container = subprocess.Popen(command, env=variables, start_new_session=True)
        place.write_text(str(container.pid))
        code = container.wait()
        place.unlink(missing_ok=True)
        os.write(writing, b"%d" % (code if code >= 0 else 128 - code))
        os._exit(0)
    os.close(writing)
    return int(os.read(reading, 10))


def remove(name):
    place = HERE / "containers" / name
    if place.exists():
        with contextlib.suppress(ProcessLookupError):  # it has ended with whoever attended it
            os.kill(int(place.read_text()), signal.SIGKILL)
        place.unlink(missing_ok=True)


def main():
    with (HERE / "calls").open("a") as calls:
        calls.write(json.dumps(sys.argv[1:]) + "\n")
    if sys.argv[1] == "run":
        run(sys.argv[2:])
    elif sys.argv[1] == "info":
        print("[name=seccomp,profile=default]")  # noqa: T201
    elif sys.argv[1:3] == ["ps", "--all"]:
        wanted = sys.argv[3].partition("--filter=name=")[2]
        print("\n".join(place.name for place in (HERE / "containers").glob("*") if wanted in place.name))  # noqa: T201
    elif sys.argv[1] == "pull":
        (HERE / "pulled").touch()
    elif sys.argv[1:3] == ["image", "inspect"]:
        if not (HERE / "pulled").exists():
            sys.exit("Error: No such image: " + sys.argv[3])
        print(json.dumps([{"Id": IDENTITY, "RepoDigests": ["test/tensorflow@sha256:" + "d" * 64]}]))  # noqa: T201
    elif sys.argv[1:3] == ["container", "inspect"]:
        print((HERE / "containers" / sys.argv[-1]).read_text())  # noqa: T201
    elif sys.argv[1:3] == ["rm", "--force"]:
        remove(sys.argv[3])
    else:
        sys.exit("unknown: " + sys.argv[1])


main()
