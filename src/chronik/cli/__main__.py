"""`python -m chronik.cli` is `chronik`."""

from chronik.cli.main import main

main()
