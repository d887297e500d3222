"""`ClientTls`: whom connections that we make trust, and how they show who they are.

`operation/tls/contexts.py` makes one from files.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class ClientTls:
    """TLS of the connections that one client or role makes."""

    context: ssl.SSLContext
    """Of new connections."""
    server_name: str | None = None
    """What the servers' certificates must be for. RocketMQ never looks at names (Y-4)."""
