"""The controller: which replica of a broker name is master, and who is in sync with it.

    from pocketmq.controller import Controller, ControllerConfig, ControllerSeams

Everything else is imported from its own module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pocketmq.runtime.public_names import on_first_use

if TYPE_CHECKING:
    from pocketmq.controller.config import ControllerConfig as ControllerConfig
    from pocketmq.controller.server import Controller as Controller
    from pocketmq.controller.server import ControllerSeams as ControllerSeams
else:
    __all__, __dir__, __getattr__ = on_first_use(
        __name__,
        {
            "pocketmq.controller.config": ["ControllerConfig"],
            "pocketmq.controller.server": ["Controller", "ControllerSeams"],
        },
    )
