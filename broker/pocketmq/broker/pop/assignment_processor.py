"""QUERY_ASSIGNMENT (400), SET_MESSAGE_REQUEST_MODE (401), GET_ALL_MESSAGE_REQUEST_MODE (402)."""

from __future__ import annotations

from pocketmq.broker.core import BrokerCore
from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.groups.assembly import Groups
from pocketmq.broker.pop.assignments import Question, RequestModes, assign
from pocketmq.broker.pop.route_cache import RouteCache
from pocketmq.broker.tables.saved_tables import SavedTable
from pocketmq.broker.topics.topic_configs import TopicConfigManager
from pocketmq.protocol.bodies.pop import QueryAssignmentBody, QueueAssignments, RequestModeBody
from pocketmq.protocol.body import decode_request_body, encode_body
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.messages.validation import is_retry


class AssignmentProcessor:
    """Answers which queues a client consumes, and sets modes.

    Args:
        core: options and clock.
        topics: whose mode may be set.
        groups: their members.
        modes: pull or pop.
        routes: the queues of all brokers.
        saved: the file of the modes; an answer waits for it.
    """

    def __init__(
        self,
        core: BrokerCore,
        topics: TopicConfigManager,
        groups: Groups,
        modes: RequestModes,
        routes: RouteCache,
        saved: SavedTable,
    ) -> None:
        self._core = core
        self._topics = topics
        self._groups = groups
        self._modes = modes
        self._routes = routes
        self._saved = saved

    @handles(RequestCode.QUERY_ASSIGNMENT)
    def query(self, peer: Peer, request: Command) -> Reply:
        """The client's queues of a topic; None while the name servers are asked for its route."""
        body = decode_request_body(request, QueryAssignmentBody)
        # Usually the route is known; only the first question for a topic waits for a name server.
        if self._routes.known(body.topic) is not None:
            return self._answer(request, body)
        task = self._routes.ask(body.topic)
        task.add_done_callback(
            lambda done: (
                # If the route could not be fetched, the client is told to keep what it has (K-22).
                None if done.cancelled() else peer.reply(request, self._answer(request, body))
            )
        )
        return None

    def _answer(self, request: Command, body: QueryAssignmentBody) -> Command:
        info = self._groups.consumers.get(body.consumer_group)
        found = assign(
            Question(
                group=body.consumer_group,
                client_id=body.client_id,
                strategy=body.strategy_name,
                broadcasting=body.message_model == "BROADCASTING",
            ),
            self._modes.of(body.topic, body.consumer_group),
            self._routes.known(body.topic),
            None if info is None else info.client_ids(),
            balancing=self._core.config.server_load_balancer_enable,
        )
        answer = QueueAssignments(message_queue_assignments=found)
        return request.reply(None, encode_body(answer, request.encoding))

    @handles(RequestCode.SET_MESSAGE_REQUEST_MODE)
    def set_mode(self, peer: Peer, request: Command) -> Reply:
        """Whether a group pulls or pops a topic (K-26)."""
        body = decode_request_body(request, RequestModeBody)
        if is_retry(body.topic):
            raise RequestRefusedError(
                ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode"
            )
        if self._topics.get(body.topic) is None:
            raise RequestRefusedError(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{body.topic}] not exist"
            )
        now_ms = self._core.clock.time_ms()
        if self._groups.configs.find_or_create(body.consumer_group, now_ms) is None:
            raise RequestRefusedError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "subscription group does not exist"
            )
        self._modes.set(body)
        # Answer when the mode is on the disk: after a success, a tool does not set it again.
        self._saved.when_saved(lambda: peer.reply(request, request.reply()))
        return None

    @handles(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
    def all_modes(self, peer: Peer, request: Command) -> Reply:
        """Everything that was set; for slaves."""
        return request.reply(None, encode_body(self._modes.wrapper(), request.encoding))
