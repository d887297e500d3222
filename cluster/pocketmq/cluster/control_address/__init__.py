"""The control address: an HTTP port over which a running cluster is queried and steered.

declarations.py        all operations: paths, and the types of requests and answers
declared_groups.py     types of the answers about consumer groups
declared_documents.py  what is answered beside operations: metrics, events, the document
operations.py          executes them
openapi.py             the declarations as an OpenAPI document
app.py                 the ASGI application
server.py              the port, by http_server/
client.py              the client, for the `pocketmq` command
"""
