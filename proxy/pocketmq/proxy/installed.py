"""Whether what gRPC needs is installed; whoever asks loads nothing else of the proxy."""

from __future__ import annotations

from importlib.util import find_spec

from pocketmq.runtime.errors import MissingToolError


def is_installed() -> bool:
    """Whether what gRPC needs is there."""
    try:
        # `find_spec` imports nothing but the package `google` itself, so a command that only asks
        # stays fast.
        return all(find_spec(package) is not None for package in ("grpc", "google.protobuf"))
    except ModuleNotFoundError:  # `google` is not there
        return False


def check_installed() -> None:
    """Pass if what gRPC needs is there.

    Raises:
        MissingToolError: it is not.
    """
    if not is_installed():
        raise MissingToolError("gRPC", "the proxy", "pip install 'pocketmq[grpc]'")
