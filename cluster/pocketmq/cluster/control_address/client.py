"""Client of the control address for commands; its calls block and need no event loop.

The address is found by, in this order: the option `--control`, the file `control.json` in the
folder of the option `--data`, the variable POCKETMQ_CONTROL, and the default port of 127.0.0.1, or
of `::1` where nothing listens there.
"""

from __future__ import annotations

import base64
import http.client
import os
from collections.abc import Iterator
from pathlib import Path
from socket import create_connection
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from pocketmq.cluster.folder import USER_FILE
from pocketmq.cluster.http_server.problem import TOKEN_COOKIE, Problem
from pocketmq.runtime.addresses import as_written
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import CallerError, PeerError

if TYPE_CHECKING:
    from pocketmq.protocol.signing import Credentials

VARIABLE = "POCKETMQ_CONTROL"
TOKEN_VARIABLE = "POCKETMQ_CONTROL_TOKEN"  # noqa: S105 - the name of a variable
FILE = "control.json"
DEFAULT_URL = "http://127.0.0.1:9870"
DEFAULT_URL_6 = "http://[::1]:9870"
"""Where `pocketmq up --host ::1` has it."""
TIMEOUT_S = 600.0
"""Maximum real seconds of a request; moving a clock by hours takes that long."""

T = TypeVar("T")


class ControlFile(msgspec.Struct):
    """The content of `control.json` in the data folder of `pocketmq up`."""

    url: str
    nameservers: str
    pid: int
    token: str | None = None


class ControlRefusedError(CallerError):
    """The control address answered with an error."""

    def __init__(self, reason: str, status: int) -> None:
        self.status = status
        super().__init__(reason)


def _no_control_address(url: str) -> str:
    try:
        meant = as_written(url.rpartition("://")[2].partition("/")[0])
    except ValueError:
        meant = "host:port"
    return f"{url!r} is no control address; write http://{meant}"


class ControlClient:
    """Sends requests to one control address.

    Args:
        url: `http://host:port`.
        token: The token, if one is required.
        limit_s: Maximum real seconds of a request.
        user: A super user of the brokers, where these check who asks; sent with what changes the
            cluster only.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        limit_s: float = TIMEOUT_S,
        user: Credentials | None = None,
    ) -> None:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as exc:
            raise CallerError(_no_control_address(url)) from exc
        if parts.scheme != "http" or not host:
            raise CallerError(_no_control_address(url))
        self.url = url.rstrip("/")
        self._host = host
        self._port = port or 80
        self._token = token
        self._limit_s = limit_s
        self._user = user

    @property
    def page(self) -> str:
        """Where a browser opens the page."""
        query = "" if self._token is None else f"?{urlencode({'token': self._token})}"
        return f"{self.url}/watch{query}"

    @classmethod
    def found(
        cls, given: str | None, data: Path | None = None, *, limit_s: float = TIMEOUT_S
    ) -> ControlClient:
        """Find the address, in the order that the module's docstring gives.

        Raises:
            CallerError: It is malformed, or the data folder's file is.
        """
        token = os.environ.get(TOKEN_VARIABLE)
        # Also with --control, since a remote cluster may check users too.
        user = _user(data)
        if given:
            return cls(given, token, limit_s, user)
        if data is not None:
            path = data / FILE
            try:
                noted = msgspec.json.decode(path.read_bytes(), type=ControlFile)
            except FileNotFoundError:
                raise CallerError(
                    f"{path} does not exist, so no cluster runs in this folder; start a cluster "
                    f"with `pocketmq up --data {data}`"
                ) from None
            except (OSError, msgspec.DecodeError) as exc:
                raise CallerError(
                    f"{path} cannot be read: {exc}; remove this file, or give --control"
                ) from exc
            # The environment's token wins: the file's may be from an earlier start.
            return cls(noted.url, token or noted.token, limit_s, user)
        return cls(os.environ.get(VARIABLE) or _usual_url(), token, limit_s, user)

    def get(self, path: str, answer: type[T], **parameters: object) -> T:
        """Send a GET request; the caller quotes parts of `path` with `part`."""
        given = {name: str(value) for name, value in parameters.items() if value is not None}
        return self._ask("GET", path + (f"?{urlencode(given)}" if given else ""), answer, None)

    def post(self, path: str, answer: type[T], question: msgspec.Struct | None = None) -> T:
        """Send a POST request."""
        return self._ask("POST", path, answer, question)

    def delete(self, path: str, answer: type[T]) -> T:
        """Send a DELETE request."""
        return self._ask("DELETE", path, answer, None)

    def lines(self, path: str, *, most_s: float | None = None) -> Iterator[bytes]:
        """The lines of an answer that does not end, such as `/events`, as they come.

        Args:
            path: What is asked for.
            most_s: End after so many real seconds, also when no line comes.

        Raises:
            PeerError: The address does not answer, or has closed the connection.
        """
        clock = SystemClock()
        ends_s = None if most_s is None else clock.monotonic() + most_s
        connection = http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT_S)
        try:
            connection.request("GET", path, None, self._headers("GET"))
            # Kept here: `getresponse` takes it off the connection if the server will close the
            # stream.
            socket = connection.sock
            response = connection.getresponse()
            if response.status >= 400:
                raise self._refused(response.read(), response.status)
            while True:
                if ends_s is not None:
                    left_s = ends_s - clock.monotonic()
                    # Checked before each line, as a busy stream would never time out.
                    if left_s <= 0:
                        return
                    socket.settimeout(left_s)
                try:
                    line = response.readline()
                except TimeoutError:
                    # Without an end the client's general time limit has passed, which is an error.
                    if ends_s is None:
                        raise
                    return
                # The server has closed the stream, for example because the cluster stops.
                if not line:
                    return
                yield line
        except (OSError, http.client.HTTPException) as exc:
            raise self._unreached(exc) from exc
        finally:
            connection.close()

    def _ask(self, method: str, path: str, answer: type[T], question: msgspec.Struct | None) -> T:
        body = None if question is None else msgspec.json.encode(question)
        connection = http.client.HTTPConnection(self._host, self._port, timeout=self._limit_s)
        try:
            connection.request(method, path, body, self._headers(method))
            response = connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as exc:
            raise self._unreached(exc) from exc
        finally:
            connection.close()
        # 503 is an answer too: `/readyz` then lists what is missing.
        if response.status not in (200, 503):
            raise self._refused(content, response.status)
        try:
            return msgspec.json.decode(content, type=answer)
        except msgspec.DecodeError as exc:
            # Another program listens at this port: its answer is no JSON, or another one.
            raise self._stranger(response.status) from exc

    def _headers(self, method: str) -> dict[str, str]:
        headers = {"Content-Type": "application/json"}
        # Reading needs no password, which would be sent in plaintext.
        if self._user is not None and method != "GET":
            text = f"{self._user.access_key}:{self._user.secret_key}"
            headers["Authorization"] = f"Basic {base64.b64encode(text.encode()).decode()}"
            # The header can hold only the user or the token, so the token goes as a cookie, as from
            # a browser.
            if self._token is not None:
                headers["Cookie"] = f"{TOKEN_COOKIE}={self._token}"
        elif self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        return headers

    def _refused(self, content: bytes, status: int) -> Exception:
        try:
            return ControlRefusedError(msgspec.json.decode(content, type=Problem).error, status)
        except msgspec.DecodeError:
            return self._stranger(status)

    def _stranger(self, status: int) -> PeerError:
        return PeerError(
            f"{self.url} is no control address: another program answers there, with status "
            f"{status}; name the address that `pocketmq up` printed with --control, or the data "
            "folder with --data"
        )

    def _unreached(self, exc: Exception) -> PeerError:
        return PeerError(
            f"no control address answers at {self.url} ({exc}); start a cluster with "
            "`pocketmq up`, or name its address with --control"
        )


def _user(data: Path | None) -> Credentials | None:
    """Who asks: what the environment says, else the super user of the cluster in this folder."""
    if "POCKETMQ_ACCESS_KEY" in os.environ:
        from pocketmq.client.config import credentials_of  # loads TLS, for few

        return credentials_of(None, os.environ)
    if data is None or not (data / USER_FILE).exists():
        # Without that file the brokers check no users.
        return None
    from pocketmq.cluster.steering.access import read_key

    return read_key(data / USER_FILE)


def _usual_url() -> str:
    """Where a cluster that runs here is asked, if nothing says where."""
    return next(filter(_listens, (DEFAULT_URL, DEFAULT_URL_6)), DEFAULT_URL)


def _listens(url: str) -> bool:
    parts = urlsplit(url)
    try:
        create_connection((parts.hostname, parts.port), timeout=1).close()
    # One second is enough, as the address is on this machine.
    except OSError:
        return False
    return True


def part(name: str) -> str:
    """Quote a name as one part of a path."""
    return quote(name, safe="")
