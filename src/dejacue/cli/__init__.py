"""The command line: thin wrappers around the library.

Exit codes: 0 done; 1 something failed or did not agree; 2 the input or the command is wrong; 3 the
answer would be meaningless and is not given; 130 stopped by the user.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import sys
from typing import Any

from dejacue.errors import (
    Cancelled,
    DejaCueError,
    InputError,
    SeveralProblems,
    lacks_memory,
    one_line,
)

STOPPED = 130  # what shells give for Ctrl-C
NO_MEMORY = (
    "not enough memory on this machine, or under its limit (ulimit -v); free some, raise the "
    "limit, or give a smaller video"
)


@functools.cache  # typer reads the signatures of all commands, which takes 0.1 s
def command() -> Any:
    """Return the commands as one click command."""
    from typer.main import get_command

    from dejacue.cli.app import EXAMPLES, app
    from dejacue.cli.options import prepare_options

    built: Any = get_command(app)
    prepare_options(built)
    for name, words in EXAMPLES.items():
        of_name = functools.reduce(lambda group, part: group.commands[part], name.split(), built)
        of_name.epilog = f"Example: dejacue {name} {words}"
    return built


def main() -> None:
    """Run ``dejacue``; errors become one sentence, never a traceback."""
    import io
    import warnings

    def show(message: Warning | str, *_: object, **__: object) -> None:
        from dejacue.cli.tables import note  # not before: --help is quick

        note(str(message))

    class MessageHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            show(record.getMessage())

    for stream in (sys.stdout, sys.stderr):  # a narrow code page prints "?" instead of failing
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    warnings.showwarning = show  # a sentence, without the place in our code
    log = logging.getLogger("dejacue")
    log.handlers = [MessageHandler()]
    log.setLevel(logging.INFO)
    try:
        try:
            from dejacue.cli.options import check_utf8

            for word in sys.argv[1:]:
                check_utf8(word)
            command()(prog_name="dejacue")  # here: a plug-in that fails is told of by ``show``
        finally:
            sys.stdout.flush()  # a full disk or a closed pipe shows here, not after we have gone
    except InputError as error:
        for problem in error.problems[1:] if isinstance(error, SeveralProblems) else ():
            show(problem)  # the first is in the sentence
        code, message = 2, str(error)
    except (Cancelled, KeyboardInterrupt) as error:
        code, message = STOPPED, str(error) or "stopped"
    except DejaCueError as error:
        code, message = 1, str(error)
    except SystemExit as error:
        if error.code != STOPPED:
            raise
        code, message = STOPPED, "stopped"
    except OSError as error:
        with contextlib.suppress(OSError, ValueError):  # what is left unwritten has nowhere to go
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            sys.exit(1)  # the reader (head, less) has gone: nothing to say
        where = f"{error.filename}: " if error.filename else ""
        code, message = 1, f"{where}{error.strerror or error}"
    except Exception as error:
        if not lacks_memory(error):
            raise
        code, message = 1, NO_MEMORY
    else:
        return
    from dejacue.cli.tables import printable

    print(f"dejacue: {printable(one_line(message))}", file=sys.stderr)
    sys.exit(code)
