"""RocketMQ's gRPC messages, `apache.rocketmq.v2`: of our own writing, equal on the wire (G-3).

from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.protos.enums import Code

pb.QueryRouteResponse(status=pb.Status(code=Code.OK, message="OK"))
"""
