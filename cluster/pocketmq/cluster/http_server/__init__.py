"""An HTTP server on this machine: who gets in, what one peer may cost, and the port.

guard.py             access checks, and errors as answers
http_connections.py  limits of time and number for connections that have not asked yet
problem.py           the body of an error
server.py            the port
"""
