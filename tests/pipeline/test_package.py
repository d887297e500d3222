"""`pocketmq pipeline package`: what it writes and what it says, without Spark.

test_spark_package.py has clusters.
"""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from pocketmq.cluster.cli.main import main
from pocketmq.pipeline.spark.package import UNPACKED, Packed, package
from pocketmq.runtime.errors import MissingToolError
from support.object_store import object_store
from support.spark_standalone import bare_python

pytestmark = pytest.mark.slow

READS_A_STORE = """
import json, sys
import s3fs
from pocketmq.pipeline import read_store
table = read_store(sys.argv[1], storageOptions=sys.argv[2], columns="queueOffset").read_all()
print(json.dumps([table.num_rows, s3fs.__file__]))
"""


@pytest.fixture(scope="module")
def with_s3(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    pytest.importorskip("s3fs", reason="needs s3fs: pip install -e '.[remote]'")
    return package(tmp_path_factory.mktemp("with-s3"), also=["s3fs"])


def names(packed: Packed) -> list[str]:
    with tarfile.open(packed.dependencies) as archive:
        return archive.getnames()


def test_executors_read_stores_on_s3_with_what_was_packed(
    with_s3: Packed, store: Path, expected: list[object], tmp_path: Path
) -> None:
    pytest.importorskip("pyspark")
    with tarfile.open(with_s3.dependencies) as archive:
        archive.extractall(tmp_path / UNPACKED, filter="data")
    python = bare_python(tmp_path / "bare")
    with object_store() as s3:
        address = s3.put(store, "broker-a")
        ran = subprocess.run(
            [str(python), "-c", READS_A_STORE, address, s3.storage_options],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": f"{with_s3.code}:{UNPACKED}"},
            timeout=200,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == [len(expected), f"{tmp_path / UNPACKED}/s3fs/__init__.py"]


def test_what_a_package_needs_comes_along_and_what_executors_have_does_not(
    with_s3: Packed,
) -> None:
    packed = {name.split("/")[0] for name in names(with_s3)}
    assert packed >= {"s3fs", "fsspec", "aiobotocore", "botocore", "aiohttp", "dateutil", "msgspec"}
    assert not packed & {"pyspark", "pyarrow", "numpy", "moto", "pytest"}
    assert len(names(with_s3)) == len(set(names(with_s3)))


def test_the_same_packages_make_the_same_bytes(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp", reason="needs aiohttp: pip install -e '.[remote]'")
    one = package(tmp_path / "one", also=["aiohttp"])
    two = package(tmp_path / "two", also=["yarl", "aiohttp"])
    assert one.dependencies.read_bytes() == two.dependencies.read_bytes()


def test_s3_is_left_out_unless_it_is_asked_for(tmp_path: Path) -> None:
    assert not [name for name in names(package(tmp_path)) if name.startswith(("s3fs", "fsspec"))]


def test_a_package_that_is_not_installed_is_named_before_anything_is_written(
    tmp_path: Path,
) -> None:
    with pytest.raises(MissingToolError, match=r"needs nowhere-fs, .*; pip install nowhere-fs"):
        package(tmp_path / "out", also=["nowhere-fs"])
    assert not (tmp_path / "out").exists()


# -- the command --------------------------------------------------------------------------------


def test_the_command_writes_both_files_and_prints_how_spark_submit_takes_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(("pipeline", "package", "--out", str(tmp_path / "dist"))) == 0
    told = capsys.readouterr().out
    code, dependencies = (
        tmp_path / "dist" / name for name in ("pocketmq-spark.zip", "pocketmq-deps.tar.gz")
    )
    assert f"{code}  {code.stat().st_size:,} bytes" in told
    assert f"{dependencies}  {dependencies.stat().st_size:,} bytes" in told
    assert (
        "spark-submit --master spark://HOST:7077 \\\n"
        f"  --py-files {code} \\\n"
        f"  --archives {dependencies}#pocketmq-deps \\\n"
        "  --conf spark.executorEnv.PYTHONPATH=pocketmq-deps \\\n"
        "  your_job.py\n"
    ) in told


def test_the_command_says_what_cluster_mode_needs_besides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(("pipeline", "package", "--out", str(tmp_path))) == 0
    told = capsys.readouterr().out
    # The driver runs in the cluster then; these are Spark's names of its environment.
    assert "YARN        --conf spark.yarn.appMasterEnv.PYTHONPATH=pocketmq-deps\n" in told
    assert "Kubernetes  --conf spark.kubernetes.driverEnv.PYTHONPATH=pocketmq-deps\n" in told
    assert "pocketmq.pipeline.register(spark)" in told


def test_the_command_tells_programs_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(("pipeline", "package", "--out", str(tmp_path), "-o", "json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert Path(told["code"]).exists()
    assert Path(told["dependencies"]).exists()
    assert told["arguments"][:2] == ["--py-files", told["code"]]
    assert told["cluster_mode"] == {
        "yarn": ["--conf", "spark.yarn.appMasterEnv.PYTHONPATH=pocketmq-deps"],
        "kubernetes": ["--conf", "spark.kubernetes.driverEnv.PYTHONPATH=pocketmq-deps"],
    }


def test_the_command_takes_packages_along(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("fsspec", reason="needs fsspec: pip install -e '.[remote]'")
    words = ("pipeline", "package", "--out", str(tmp_path), "--with", "fsspec")
    assert main((*words, "--with", "s3fs-of-nobody")) == 1
    assert "pip install s3fs-of-nobody" in capsys.readouterr().err
    assert main(words) == 0
    assert "fsspec/__init__.py" in names(Packed(Path(), tmp_path / "pocketmq-deps.tar.gz"))
