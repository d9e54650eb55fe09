"""``python -m lvspec_core report``: what evaluations found, over one or several runs, ours or SpecVLM's, side by side."""

from __future__ import annotations


def main(arguments: list[str]) -> int:
    """The command; what it needs is imported only now."""
    from lvspec_core.report.command import main as command

    return command(arguments)
