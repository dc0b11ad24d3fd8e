"""Everything that more than one test module uses; no test imports another test."""

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
ROOT = TESTS.parent
# the command; a shell that starts tests in the background has them ignore Ctrl-C
START = "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
RUN = "runpy.run_module('dejacue', run_name='__main__', alter_sys=True)"
COMMAND = [sys.executable, "-c", START + RUN]
