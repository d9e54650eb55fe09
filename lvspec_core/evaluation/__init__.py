"""Evaluating the methods over a data set, and telling what came of it. Nothing here decodes: every sample is a race."""

from __future__ import annotations


def main(arguments: list[str]) -> int:
    """``python -m lvspec_core evaluate``; the command is imported only now, since it imports torch and a report needs none."""
    from lvspec_core.evaluation.command import main as run

    return run(arguments)
