"""The declarations as an OpenAPI 3.1 document. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from pocketmq.cluster.control_address.declarations import OPERATIONS, Operation
from pocketmq.cluster.control_address.declared_documents import DOCUMENTS, Document
from pocketmq.cluster.http_server.problem import Problem

_REF = "#/components/schemas/{name}"


def document(version: str) -> dict[str, Any]:
    """The answer to `GET /openapi.json`.

    Args:
        version: Version of the installed package.
    """
    types = {each.answer for each in OPERATIONS} | {Problem}
    types |= {each.question for each in OPERATIONS if each.question is not None}
    # Sorted, so that the document is always the same.
    _, schemas = msgspec.json.schema_components(
        sorted(types, key=lambda kind: kind.__name__), ref_template=_REF
    )
    paths: dict[str, dict[str, Any]] = {}
    for each in OPERATIONS:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    paths |= {each.path: {"get": _document(each)} for each in DOCUMENTS}
    return {
        "openapi": "3.1.0",
        "info": {"title": "PocketMQ control address", "version": version},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _operation(operation: Operation) -> dict[str, Any]:
    answer: dict[str, Any] = _schema(operation.answer)
    if operation.is_list:
        answer = {"type": "array", "items": answer}
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [
            {
                "name": each.name,
                "in": each.place,
                "required": each.required,
                "description": each.meaning,
                # All parameters travel as text; the operations convert them.
                "schema": {"type": "string"},
            }
            for each in operation.parameters
        ],
        "responses": {
            "200": {"description": "done", "content": _json(answer)},
            "default": _refused(),
        },
    }
    if operation.question is not None:
        described["requestBody"] = {"required": True, "content": _json(_schema(operation.question))}
    return described


def _document(document: Document) -> dict[str, Any]:
    content = {document.media_type: {"schema": {"type": document.schema}}}
    return {
        "operationId": document.name,
        "summary": document.summary,
        "parameters": [],
        "responses": {"200": {"description": "done", "content": content}, "default": _refused()},
    }


def _refused() -> dict[str, Any]:
    return {"description": "refused or failed", "content": _json(_schema(Problem))}


def _schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {"$ref": _REF.format(name=kind.__name__)}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
