"""The kinds of error that end a command, each with its exit code, and the one handler that prints them."""

from __future__ import annotations

import errno
from collections.abc import Callable


class FatalError(Exception):
    """Something that the user can mend: what happened while doing what, and what to do now.

    The message is one paragraph that stands without a traceback.
    """

    exit_code = 1

    def __init__(self, what: str, remedy: str = "") -> None:
        end = "" if what.endswith((".", "?", "!")) else "."  # another program's words, which are quoted as they are
        super().__init__(f"{what}{end} {remedy}" if remedy else what)
        self.what = what
        self.remedy = remedy


class UsageError(FatalError):
    """The command line or the sweep file asks for something that does not exist or can't be meant."""

    exit_code = 2


class Interrupted(FatalError):
    """The user or the system asked to stop; every finished trial is on disk."""

    exit_code = 130


_REFUSALS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EIO})
"""What the system says where the user has to mend permissions, space or a disk, in whatever file it is met."""

EXIT_OK = 0
EXIT_BUG = 3
EXIT_INVALID_TRIALS = 4
EXIT_BELOW_BOUND = 5


def handle(main: Callable[[], int], say: Callable[[str], None], keep_traceback: Callable[[], str]) -> int:
    """Run `main` and turn what it raises into an exit code.

    Args:
        main: the command; returns its own exit code.
        say: prints one line on standard error.
        keep_traceback: called inside the handler of an unforeseen exception; writes the traceback to a file and returns its path.

    Returns:
        the exit code (design, rule 5).
    """
    try:
        return main()
    except FatalError as error:
        say(f"tfcnn: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        say("tfcnn: interrupted")
        return Interrupted.exit_code
    except OSError as error:
        if error.errno not in _REFUSALS:
            return _bug(error, say, keep_traceback)
        refused = FatalError(f"{error.filename or 'the operating system refuses'}: {error.strerror}", "Mend that, or name another place")
        say(f"tfcnn: {refused}")
        return FatalError.exit_code
    except Exception as error:  # the one place that may catch everything: it must end as a line, not as a traceback
        return _bug(error, say, keep_traceback)


def _bug(error: Exception, say: Callable[[str], None], keep_traceback: Callable[[], str]) -> int:
    say(f"tfcnn: a bug ({type(error).__name__}: {error}); please report it with {keep_traceback()}")
    return EXIT_BUG
