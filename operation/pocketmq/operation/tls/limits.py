"""Which versions of TLS and which cipher suites a context speaks (Y-5), as RocketMQ 5.5 names them.

Names are Java's, or OpenSSL's where these differ:

    Java                                     OpenSSL
    TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256    ECDHE-RSA-AES128-GCM-SHA256    TLS 1.2
    TLS_AES_128_GCM_SHA256                   TLS_AES_128_GCM_SHA256         TLS 1.3

OpenSSL chooses among its own suites of TLS 1.3, which Python cannot change. So these are spoken
where one of them is named, and TLS 1.3 is not where none is.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Sequence
from typing import Final

from pocketmq.runtime.errors import ConfigError

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_OLD: Final = ("SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")
"""Java knows these names, and speaks none of them either (`jdk.tls.disabledAlgorithms`)."""
_JAVA_NAME: Final = re.compile(r"TLS_(?:(?P<exchange>\w+)_WITH_)(?P<cipher>\w+)")


def limit_protocols(context: ssl.SSLContext, protocols: Sequence[str]) -> None:
    """Have a context speak these versions alone; without any it stays as it is.

    Raises:
        ConfigError: there is no such version, or none of them is spoken here.
    """
    if not protocols:
        return
    unknown = [each for each in protocols if each not in _VERSIONS and each not in _OLD]
    # OpenSSL takes only a range; with two versions, every selection is one.
    known = sorted(_VERSIONS[each] for each in protocols if each in _VERSIONS)
    if unknown or not known:
        what = ", ".join(unknown or protocols)
        raise ConfigError(
            "tls.protocols", f"{what} is not spoken", advice=f"choose from {', '.join(_VERSIONS)}"
        )
    context.minimum_version, context.maximum_version = known[0], known[-1]


def limit_ciphers(context: ssl.SSLContext, ciphers: Sequence[str]) -> None:
    """Have a context speak these suites alone; without any it stays as it is.

    Raises:
        ConfigError: OpenSSL does not have one of them, or the versions of TLS leave none.
    """
    if not ciphers:
        return
    # The build of OpenSSL decides which suites of TLS 1.3 there are.
    of_1_3 = {each["name"] for each in context.get_ciphers() if each["protocol"] == "TLSv1.3"}
    names = [openssl_name(each) for each in ciphers]
    of_1_2 = [name for name in names if name not in of_1_3]
    for name, given in zip(names, ciphers, strict=True):
        # Check each suite by itself: in a list, `set_ciphers` silently ignores unknown ones.
        if name not in of_1_3 and not _is_known(name):
            raise ConfigError(
                "tls.ciphers",
                f"OpenSSL has no {given}",
                advice="`openssl ciphers -stdname -v` lists them",
            )
    speaks_1_2 = context.minimum_version <= ssl.TLSVersion.TLSv1_2 and of_1_2
    speaks_1_3 = context.maximum_version != ssl.TLSVersion.TLSv1_2 and len(of_1_2) < len(names)
    if not speaks_1_2 and not speaks_1_3:
        raise ConfigError(
            "tls.ciphers",
            "none of these ciphers can be used with the TLS versions in tls.protocols; add a "
            "cipher of one of these versions",
        )
    if of_1_2:
        context.set_ciphers(":".join(of_1_2))
    # Otherwise a version without a named suite would be used with all of its suites.
    if not speaks_1_3:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    if not speaks_1_2:
        context.minimum_version = ssl.TLSVersion.TLSv1_3


def openssl_name(cipher: str) -> str:
    """A suite's name in OpenSSL; suites of TLS 1.3, and names of OpenSSL, stay as they are."""
    match = _JAVA_NAME.fullmatch(cipher)
    if match is None:
        return cipher
    exchange = "" if match["exchange"] == "RSA" else match["exchange"].replace("_", "-") + "-"
    text = re.sub(r"(AES|ARIA|CAMELLIA)_(\d+)", r"\1\2", match["cipher"])
    text = text.replace("_CBC", "").replace("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305")
    return exchange + re.sub(r"(_CCM(?:_8)?)_SHA\d+$", r"\1", text).replace(
        "CCM_8", "CCM8"
    ).replace("_", "-")


def _is_known(name: str) -> bool:
    try:
        # A context of its own, since `set_ciphers` changes the one it is called on.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).set_ciphers(name)
    except ssl.SSLError:
        return False
    return True
