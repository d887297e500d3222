"""`pocketmq lab`: exercises that judge themselves."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from pocketmq.cluster.cli.common.output import Sentences, show, tell
from pocketmq.cluster.cli.common.tables import Table

LAB_HELP = """Exercises: write small programs, and have them judged.

Any language will do.

\b
Examples:
  pocketmq lab list
  pocketmq lab start 4
      makes a folder lab-4: its README.md is the task
  pocketmq lab check 4
      judges lab-4/lab.py, and names the first wrong step
  pocketmq lab check 4 "node pay.js"         the same in another language
"""

START_HELP = """Copy the page and the starting file of a lab into a folder.

\b
Examples:
  pocketmq lab start 1
  pocketmq lab start 1 ~/course/monday
"""

CHECK_HELP = """Judge a program on a cluster of its own. This takes some seconds.

The command runs all stages of the lab in order, always from the first stage. If a step is wrong,
the command stops. It shows the wrong step, and what happened before this step. The exit status is 0
only if all stages pass.

\b
Examples:
  pocketmq lab check 1                       lab-1/lab.py
  pocketmq lab check 1 ~/course/monday       lab.py in this folder
  pocketmq lab check 1 "java -jar lab.jar"   any command
"""

Number = Annotated[
    int,
    typer.Argument(metavar="N", help="Number of the lab. `pocketmq lab list` shows all numbers."),
]

commands = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(commands, name="lab", help=LAB_HELP)


@commands.command("list", help="List the labs.")
def list_labs(output: Sentences = None) -> None:
    # People get a page with more than the rows for programs.
    if output in (None, "table"):
        from rich.console import Console

        from pocketmq.cluster.labs.show import show_list

        show_list(Console(force_terminal=sys.stdout.isatty()))
        return
    from pocketmq.cluster.labs.catalog import LABS

    facts = [{"number": lab.number, "title": lab.title, "question": lab.question} for lab in LABS]
    rows = [(str(lab.number), lab.title, lab.question) for lab in LABS]
    show(output, facts, Table("lab", ("lab", "title", "question"), rows))


@commands.command("start", help=START_HELP)
def start(
    number: Number,
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="Folder to make; lab-N by default.")
    ] = None,
    output: Sentences = None,
) -> None:
    from pocketmq.cluster.labs.start import start_lab

    said = start_lab(number, folder)
    tell(output, {"lab": number, "said": said}, said)


@commands.command("check", help=CHECK_HELP)
def check(
    number: Number,
    program: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DIR|COMMAND]",
            help="Your program: a folder with lab.py, or a command line in quotes.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of what is random.")] = 17,
    patience: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="Longest wait for one answer.")
    ] = 6.0,
    output: Sentences = None,
) -> int:
    import asyncio

    from rich.console import Console

    from pocketmq.cluster.labs.catalog import lab_of
    from pocketmq.cluster.labs.check import check as check_lab
    from pocketmq.cluster.labs.show import facts_of, show_verdict

    lab = lab_of(number)
    verdict = asyncio.run(check_lab(lab, program or [], seed=seed, patience_s=patience))
    if output == "json":
        tell(output, facts_of(lab, verdict))
    else:
        show_verdict(Console(force_terminal=sys.stdout.isatty()), lab, verdict)
    return 0 if verdict.record.passed else 1
