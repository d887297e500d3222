"""Declares what the control address answers beside the operations: no JSON of a declared type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Document:
    """One path that is read by GET, without parameters."""

    path: str
    name: str
    """Its operation id in the OpenAPI document."""
    summary: str
    content_type: str
    schema: str = "string"
    """`string`, or `object` for JSON of no declared type."""

    @property
    def media_type(self) -> str:
        """The content type without its parameters."""
        return self.content_type.partition(";")[0]


METRICS: Final = Document(
    "/metrics", "metrics", "Metrics in Prometheus' text format.", "text/plain; version=0.0.4"
)
EVENTS: Final = Document(
    "/events", "events", "Server-sent events, from now on, without end.", "text/event-stream"
)
OPENAPI: Final = Document(
    "/openapi.json", "openapi", "This document.", "application/json", schema="object"
)

DOCUMENTS: Final = (METRICS, EVENTS, OPENAPI)
