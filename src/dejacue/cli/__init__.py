"""The command line: thin wrappers around the library.

Exit codes: 0 done; 1 something failed or did not agree; 2 the input or the command is wrong.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of ``dejacue``: errors become one sentence, never a traceback."""
    from dejacue.cli.app import app
    from dejacue.errors import DejaCueError, InputError

    try:
        app()
    except InputError as error:
        code, message = 2, str(error)
    except DejaCueError as error:
        code, message = 1, str(error)
    except KeyboardInterrupt:
        code, message = 1, "stopped"
    except BrokenPipeError:
        sys.stderr.close()  # the reader (head, less) has gone; nothing to say
        sys.exit(0)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        code, message = 1, f"{where}{error.strerror or error}"
    else:
        return
    print(f"dejacue: {message}", file=sys.stderr)
    sys.exit(code)
