"""A temporary folder goes with its cluster, unless somebody will want to look into it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.cluster.errors import ProcessDiedError, ProcessStartError
from pocketmq.cluster.folder import data_folder
from pocketmq.runtime.errors import CallerError, DiskError


def test_a_temporary_folder_is_gone_afterwards() -> None:
    with data_folder(None) as folder:
        (folder.path / "store").mkdir()
    assert not folder.path.exists()


def test_a_temporary_folder_is_gone_after_an_error_of_the_caller() -> None:
    with pytest.raises(CallerError), data_folder(None) as folder:
        raise CallerError("not like this")
    assert not folder.path.exists()


def test_a_temporary_folder_stays_when_an_error_names_a_log_in_it(tmp_path: Path) -> None:
    with pytest.raises(ProcessDiedError), data_folder(None) as folder:
        raise ProcessDiedError("broker-a", 2, folder.path / "broker-a.log")
    assert folder.path.exists()
    folder.path.rmdir()


def test_a_temporary_folder_is_gone_when_the_error_says_all_there_is_to_know() -> None:
    words = "broker: flush_disk_type: 'X' is unknown"
    with pytest.raises(ProcessStartError), data_folder(None) as folder:
        raise ProcessStartError("broker-a", 1, words, folder.path / "broker-a.log")
    assert not folder.path.exists()


def test_a_chosen_folder_is_made_and_stays(tmp_path: Path) -> None:
    with data_folder(tmp_path / "deep" / "data") as folder:
        assert folder.path.is_dir()
    assert folder.path.is_dir()


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DiskError, match="choose another"), data_folder(tmp_path / "file" / "data"):
        pytest.fail("it was made")
