"""`python -m chronik.cli` is `chronik`."""

from chronik.cli.entry import main

main()
