"""What every example says: its --help, and progress while it works."""

import argparse
import sys


def parser_of(about: str) -> argparse.ArgumentParser:
    """A parser whose --help is the script's own docstring: what it does and how long it takes."""
    return argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def progress(text: str) -> None:
    """A line on stderr; stdout has the results alone."""
    print(text, file=sys.stderr, flush=True)
