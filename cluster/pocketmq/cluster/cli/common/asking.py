"""Asks before a command removes what cannot be brought back."""

from __future__ import annotations

import sys

import typer

from pocketmq.runtime.errors import CallerError


def ask(question: str, otherwise: str) -> None:
    """Return if the answer is yes.

    Args:
        question: Printed on standard error.
        otherwise: What a refusal leads to, as `nothing was deleted`.

    Raises:
        CallerError: It is no, or nobody answers.
    """
    typer.echo(f"{question} [y/N] ", nl=False, err=True)
    answer = sys.stdin.readline()
    # Standard input has ended without a line feed, so the cursor is still after the question.
    if not answer:
        typer.echo("", err=True)
    if answer.strip().lower() not in ("y", "yes"):
        raise CallerError(f"{otherwise}; answer y, or add --yes")
