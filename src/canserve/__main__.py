"""``python -m canserve``."""

from canserve.cli import main

main()
