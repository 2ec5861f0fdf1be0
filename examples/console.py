"""Command-line helpers of the examples: --help and progress lines."""

import argparse
import sys


class HelpFormatter(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    """The docstring as it is, and the defaults of the options that have one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        has_default = action.default is not None and action.default is not False
        return super()._get_help_string(action) if has_default else action.help


def parser_of(about: str) -> argparse.ArgumentParser:
    """A parser whose --help is the docstring of the script."""
    return argparse.ArgumentParser(description=about, formatter_class=HelpFormatter)


def progress(text: str) -> None:
    """Print a line to stderr; only results go to stdout."""
    print(text, file=sys.stderr, flush=True)
