"""``python -m dejacue``."""

from dejacue.cli import main

main()
