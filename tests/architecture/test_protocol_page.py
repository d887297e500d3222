"""The example in docs/protocol.md runs and prints what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "protocol.md"


def test_the_reader_on_the_page_prints_what_the_page_says() -> None:
    found = re.search(r"```python\n(.*?)```\n\n((?:    [^\n]*\n)+)", PAGE.read_text(), re.DOTALL)
    assert found is not None
    ran = subprocess.run([sys.executable, "-c", found[1]], capture_output=True, text=True)
    assert ran.stdout.split() == found[2].split(), ran.stderr
