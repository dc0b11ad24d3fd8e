"""The command line: thin wrappers around the library.

Exit codes: 0 done; 1 something failed or did not agree; 2 the input or the command is wrong.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of ``dejacue``: errors become one sentence, never a traceback."""
    import io
    import warnings

    from dejacue.cli.app import app
    from dejacue.errors import DejaCueError, InputError

    def show(message: Warning | str, *_: object, **__: object) -> None:
        print(f"dejacue: {message}", file=sys.stderr)

    for stream in (sys.stdout, sys.stderr):  # a narrow code page prints "?" instead of failing
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    warnings.showwarning = show  # a sentence, without the place in our code
    try:
        app(prog_name="dejacue")
    except InputError as error:
        code, message = 2, str(error)
    except DejaCueError as error:
        code, message = 1, str(error)
    except KeyboardInterrupt:
        code, message = 1, "stopped"
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        code, message = 1, f"{where}{error.strerror or error}"
    else:
        return
    print(f"dejacue: {' '.join(message.splitlines())}", file=sys.stderr)
    sys.exit(code)
