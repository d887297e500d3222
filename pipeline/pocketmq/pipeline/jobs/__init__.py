"""Jobs over topics, stores and tables: a function each, and a command of `pocketmq pipeline`.

    from pocketmq.pipeline.jobs import latency

    latency("store:cluster/broker-a").rows

Each is imported when it is first used, and the libraries that it needs when it is called.
"""

from typing import TYPE_CHECKING

from pocketmq.runtime.public_names import on_first_use

if TYPE_CHECKING:
    from pocketmq.pipeline.jobs.audit_job import Audit as Audit
    from pocketmq.pipeline.jobs.audit_job import Finding as Finding
    from pocketmq.pipeline.jobs.audit_job import audit as audit
    from pocketmq.pipeline.jobs.export_job import Exported as Exported
    from pocketmq.pipeline.jobs.export_job import export as export
    from pocketmq.pipeline.jobs.flights_job import FlightsJob as FlightsJob
    from pocketmq.pipeline.jobs.flights_job import flights as flights
    from pocketmq.pipeline.jobs.latency_job import latency as latency
    from pocketmq.pipeline.jobs.latency_rows import GroupRow as GroupRow
    from pocketmq.pipeline.jobs.latency_rows import KeyRow as KeyRow
    from pocketmq.pipeline.jobs.latency_rows import Latencies as Latencies
    from pocketmq.pipeline.jobs.latency_rows import LatencyRow as LatencyRow
    from pocketmq.pipeline.jobs.latency_rows import QueueRow as QueueRow
    from pocketmq.pipeline.jobs.offset_looks import sample as sample
    from pocketmq.pipeline.jobs.output import write_rows as write_rows
    from pocketmq.pipeline.jobs.rebalance_fleet import Fleet as Fleet
    from pocketmq.pipeline.jobs.rebalance_fleet import FleetStep as FleetStep
    from pocketmq.pipeline.jobs.rebalance_fleet import rebalance as rebalance
    from pocketmq.pipeline.jobs.replay_job import Replayed as Replayed
    from pocketmq.pipeline.jobs.replay_job import ReplayOptions as ReplayOptions
    from pocketmq.pipeline.jobs.replay_job import replay as replay
    from pocketmq.pipeline.jobs.schemas.check import Checked as Checked
    from pocketmq.pipeline.jobs.schemas.check import schema_check as schema_check
    from pocketmq.pipeline.jobs.schemas.decode import schema as schema
    from pocketmq.pipeline.jobs.schemas.decoded import Decoded as Decoded
    from pocketmq.pipeline.jobs.schemas.evolution import Misfit as Misfit
    from pocketmq.pipeline.jobs.trace_job import Step as Step
    from pocketmq.pipeline.jobs.trace_job import trace as trace
    from pocketmq.pipeline.spark.package import Packed as Packed
    from pocketmq.pipeline.spark.package import package as package
else:
    __all__, __dir__, __getattr__ = on_first_use(
        __name__,
        {
            "pocketmq.pipeline.jobs.audit_job": ["Audit", "Finding", "audit"],
            "pocketmq.pipeline.jobs.flights_job": ["FlightsJob", "flights"],
            "pocketmq.pipeline.jobs.latency_job": ["latency"],
            "pocketmq.pipeline.jobs.latency_rows": [
                *("GroupRow", "KeyRow", "Latencies", "LatencyRow", "QueueRow"),
            ],
            "pocketmq.pipeline.jobs.offset_looks": ["sample"],
            "pocketmq.pipeline.jobs.output": ["write_rows"],
            "pocketmq.pipeline.jobs.rebalance_fleet": ["Fleet", "FleetStep", "rebalance"],
            "pocketmq.pipeline.jobs.replay_job": ["ReplayOptions", "Replayed", "replay"],
            "pocketmq.pipeline.jobs.schemas.check": ["Checked", "schema_check"],
            "pocketmq.pipeline.jobs.schemas.decode": ["schema"],
            "pocketmq.pipeline.jobs.schemas.decoded": ["Decoded"],
            "pocketmq.pipeline.jobs.schemas.evolution": ["Misfit"],
            "pocketmq.pipeline.jobs.trace_job": ["Step", "trace"],
            "pocketmq.pipeline.jobs.export_job": ["Exported", "export"],
            "pocketmq.pipeline.spark.package": ["Packed", "package"],
        },
    )
