"""Tables that people keep: what `pocketmq.pipeline.jobs.export` writes, and streams into Delta."""

from pocketmq.pipeline.lake.delta import DeltaAppend
from pocketmq.pipeline.lake.targets import DeltaTarget, FilesTarget, IcebergTarget, target_of

__all__ = ["DeltaAppend", "DeltaTarget", "FilesTarget", "IcebergTarget", "target_of"]

_GONE = {
    "export": "`export` of pocketmq.pipeline.jobs, which runs on Spark",
    "Exported": "`Exported` of pocketmq.pipeline.jobs",
    "ParquetTarget": "`FilesTarget(folder)`, or export to 'parquet:FOLDER'",
}
"""Names of earlier versions, and what to use."""


def __getattr__(name: str) -> object:
    """What to use instead of a name that has gone."""
    if name in _GONE:
        raise AttributeError(f"{__name__}.{name} was removed; use {_GONE[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
