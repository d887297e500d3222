"""The controller: which replica of a broker name is master, and who is in sync with it.

    from pocketmq.controller import Controller, ControllerConfig, ControllerSeams

Everything else is imported from its own module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pocketmq.controller.config import ControllerConfig
    from pocketmq.controller.server import Controller, ControllerSeams

__all__ = ["Controller", "ControllerConfig", "ControllerSeams"]


def __getattr__(name: str) -> Any:
    """Import on first use: a controller process passes through here before its logs are set up."""
    if name == "Controller":
        from pocketmq.controller.server import Controller

        return Controller
    if name == "ControllerConfig":
        from pocketmq.controller.config import ControllerConfig

        return ControllerConfig
    if name == "ControllerSeams":
        from pocketmq.controller.server import ControllerSeams

        return ControllerSeams
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
