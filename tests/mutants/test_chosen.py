"""Which tests `scripts/mutate.py` runs when only a module is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from mutants.chosen import importing_tests, naming_tests

FILES = {
    "broker/pocketmq/broker/pop/orders.py": "x = 1\n",
    "broker/pocketmq/broker/pop/service.py": "from pocketmq.broker.pop import orders\n",
    "broker/pocketmq/broker/address.py": "x = 1\n",
    "broker/pocketmq/broker/server.py": "from pocketmq.broker.address import x\n",
    "tests/broker/pop/test_pops.py": "import pop_rig\n",
    "tests/broker/pop/pop_rig.py": "x = 1\n",
    "tests/broker/test_orders.py": "from pocketmq.broker.pop import orders\n",
    "tests/broker/test_rig.py": "from support.rig import start\n",
    "tests/broker/test_other.py": "import pocketmq.protocol.frame\n",
    "tests/support/rig.py": "from pocketmq.broker.pop.orders import x\nfrom support import other\n",
    "tests/support/other.py": "from pocketmq.broker.server import x\n",
    "tests/cluster/test_orders.py": "from pocketmq.broker.pop import orders\n",
}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_those_that_import_it_themselves_or_by_helpers_and_those_of_its_folder(copy: Path) -> None:
    assert importing_tests(copy, ["pocketmq.broker.pop.orders"], ["tests/broker"]) == [
        "tests/broker/pop/test_pops.py",
        "tests/broker/test_orders.py",
        "tests/broker/test_rig.py",
    ]


def test_where_none_imports_it_those_that_import_its_importers(copy: Path) -> None:
    found = importing_tests(copy, ["pocketmq.broker.address"], ["tests/broker"])
    assert found == ["tests/broker/test_rig.py"]


def test_a_module_that_nothing_imports_has_no_tests(copy: Path) -> None:
    assert importing_tests(copy, ["pocketmq.broker.nothing"], ["tests/broker"]) == []


def test_those_that_import_it_themselves(copy: Path) -> None:
    assert naming_tests(copy)["pocketmq.broker.pop.orders"] == {
        "tests/broker/test_orders.py",
        "tests/cluster/test_orders.py",
    }
