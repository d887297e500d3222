"""Tables that people keep, without Spark's jars (`pocketmq[lake]`): a stream into Delta, and topics
exported to Parquet, Delta and Iceberg."""

from pocketmq.pipeline.lake.delta import DeltaAppend
from pocketmq.pipeline.lake.export import Exported, export
from pocketmq.pipeline.lake.targets import DeltaTarget, IcebergTarget, ParquetTarget, target_of

__all__ = [
    "DeltaAppend",
    "DeltaTarget",
    "Exported",
    "IcebergTarget",
    "ParquetTarget",
    "export",
    "target_of",
]
