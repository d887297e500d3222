"""The control address: one HTTP port on which a running cluster is asked, steered and watched.

declarations.py   what can be asked: paths, and the shapes of questions and answers
operations.py     what each of them does
openapi.py        the declarations as an OpenAPI document
app.py            the ASGI application: who may ask, how errors look
server.py         the port
client.py         the other end, for the `pocketmq` command
"""
